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
