"""The cloud launcher's file against Ray's own definition of such files."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

CHECKOUT = Path(__file__).parents[2]
FILE = CHECKOUT / "docker" / "cloud" / "aws.yaml"


@pytest.fixture
def cluster() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def test_ray_takes_the_file_as_it_is_and_with_what_it_fills_in(cluster: dict[str, Any]) -> None:
    prepared = prepare_config(copy.deepcopy(cluster))
    validate_config(prepared)
    assert prepared["max_workers"] == cluster["max_workers"]


def test_what_it_runs_is_there_and_no_secret_stands_in_it(cluster: dict[str, Any]) -> None:
    commands = " ".join(command for name in cluster if name.endswith("_commands") for command in cluster[name])
    paths = re.findall(r"(?:~|\$HOME)/permafrost/(docker/\S+)", commands)
    assert set(paths) == {"docker/install.sh", "docker/entrypoint.py"}
    assert all((CHECKOUT / path).is_file() for path in paths)
    assert "RAY_AUTH_TOKEN=" not in FILE.read_text(encoding="utf-8")


def test_workers_are_on_spot_machines_the_head_is_not_and_all_disks_are_encrypted(cluster: dict[str, Any]) -> None:
    nodes = {name: kind["node_config"] for name, kind in cluster["available_node_types"].items()}
    assert {name for name, node in nodes.items() if "InstanceMarketOptions" in node} == {"worker"}
    assert all(disk["Ebs"]["Encrypted"] for node in nodes.values() for disk in node["BlockDeviceMappings"])
    assert all(node["MetadataOptions"]["HttpTokens"] == "required" for node in nodes.values())
