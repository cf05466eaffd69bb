"""The manifest for KubeRay: valid against the schemas of Kubernetes, and what it promises."""

from __future__ import annotations

import copy
import runpy
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.server_programs import server_program

CHECKOUT = Path(__file__).parents[2]
MANIFEST = CHECKOUT / "docker" / "kubernetes" / "permafrost.yaml"
KUBERNETES = "1.37"
Manifest = dict[str, Any]


def manifests() -> tuple[Manifest, Manifest]:
    """The network policy and the job."""
    policy, job = yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
    return policy, job


def groups() -> list[Manifest]:
    """The group of the head and those of the workers."""
    spec = manifests()[1]["spec"]["rayClusterSpec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def templates() -> list[Manifest]:
    """What pods are made of: the submitter's, the head's, the workers'."""
    return [manifests()[1]["spec"]["submitterPodTemplate"], *(group["template"] for group in groups())]


def refused(manifest: Manifest, file: Path) -> str:
    """What Kubernetes' strict schemas say against a manifest; empty where nothing."""
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    words = [server_program("kubernetes-validate"), "--strict", "--kubernetes-version", KUBERNETES, str(file)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    # A kind that it does not know is no error.
    return "" if " passed for resource " in told.stdout else told.stdout + told.stderr


@pytest.mark.slow
def test_kubernetes_own_schemas_take_the_policy_and_every_pod_and_refuse_an_unknown_field(tmp_path: Path) -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": one["spec"]} for one in templates()]
    assert [refused(manifest, tmp_path / "one.yaml") for manifest in (manifests()[0], *pods)] == [""] * 5
    broken = copy.deepcopy(pods[1])
    broken["spec"]["containers"][0]["securityContext"]["readOnlyRoot"] = True
    assert "readOnlyRoot" in refused(broken, tmp_path / "one.yaml")


def test_every_pod_runs_without_rights_and_ends_after_its_trials_within_the_notice_of_a_spot_machine() -> None:
    for group in groups():
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        grace = next(int(one["value"]) for one in container["env"] if one["name"] == "PERMAFROST_GRACE_S")
        assert grace < pod["terminationGracePeriodSeconds"] <= 25


def test_all_nodes_have_the_ports_that_the_entrypoint_gives_containers_and_the_ray_that_is_installed() -> None:
    ports = runpy.run_path(str(CHECKOUT / "docker" / "entrypoint.py"))["PORTS"]
    for group in groups():
        given = {f"--{name}={value}" for name, value in group["rayStartParams"].items()}
        assert set(ports) <= given
    assert manifests()[1]["spec"]["rayClusterSpec"]["rayVersion"] == version("ray")


def test_no_secret_is_written_and_the_policy_knows_every_pod_and_lets_in_only_operator_and_monitoring() -> None:
    assert [manifest["kind"] for manifest in manifests()] == ["NetworkPolicy", "RayJob"]
    policy = manifests()[0]["spec"]
    assert all(one["metadata"]["labels"] == policy["podSelector"]["matchLabels"] for one in templates())
    assert [[port["port"] for port in rule.get("ports", [])] for rule in policy["ingress"]] == [[], [8265], [8080]]
