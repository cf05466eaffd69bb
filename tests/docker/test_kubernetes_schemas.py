"""The manifests as an API server of the newest Kubernetes takes them: its own schemas, with its defaults filled in."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.extras.kubernetes.kuberay import KubeRay, Workers, manifests
from orchestrator.extras.kubernetes.manifests_command import as_yaml
from tests.docker.crd import problems, with_defaults
from tests.docker.test_manifests import asked, needs_definitions
from tests.server_programs import server_program

KUBERNETES = "1.37"
Manifest = dict[str, Any]
KINDS = (
    asked(spot=True, gpu_kind="A100", sweep="name: x\n"),
    asked(store="", volume="results"),
    asked(store="s3://b/r?endpoint_override=http://minio:9000", gpu=Workers(0, 0)),
)


def refused(manifest: Manifest, file: Path) -> str:
    """What Kubernetes' strict schemas say against a manifest; empty where nothing."""
    file.write_text(as_yaml(manifest), encoding="utf-8")
    words = [server_program("kubernetes-validate"), "--strict", "--kubernetes-version", KUBERNETES, str(file)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    return (
        "" if " passed for resource " in told.stdout else told.stdout + told.stderr
    )  # a kind it does not know is no error


def pods(found: dict[str, Manifest]) -> list[Manifest]:
    """The pods that KubeRay makes of the templates."""
    job = found["rayjob.yaml"]["spec"]
    groups = [job["rayClusterSpec"]["headGroupSpec"], *job["rayClusterSpec"]["workerGroupSpecs"]]
    templates = [job["submitterPodTemplate"], *(group["template"] for group in groups)]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": one["metadata"] | {"name": "one"}, "spec": one["spec"]}
        for one in templates
    ]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", KINDS)
def test_kubernetes_own_schemas_take_the_policy_the_sweep_and_every_pod(wanted: KubeRay, tmp_path: Path) -> None:
    found = manifests(wanted)
    plain = [one for one in found.values() if one["kind"] not in ("RayCluster", "RayJob")]
    assert {one["kind"] for one in plain} <= {"NetworkPolicy", "ConfigMap"}
    for manifest in (*plain, *pods(found)):
        assert refused(manifest, tmp_path / "one.yaml") == ""


@pytest.mark.slow
def test_a_pod_with_a_field_that_kubernetes_does_not_know_is_refused(tmp_path: Path) -> None:
    broken = copy.deepcopy(pods(manifests(KINDS[0]))[1])
    broken["spec"]["containers"][0]["securityContext"]["readOnlyRoot"] = True
    assert "readOnlyRoot" in refused(broken, tmp_path / "one.yaml")


@needs_definitions
@pytest.mark.parametrize("wanted", KINDS)
def test_with_the_servers_defaults_the_manifests_keep_to_the_definitions_and_their_ports_are_told_apart(
    wanted: KubeRay,
) -> None:
    for name in ("raycluster.yaml", "rayjob.yaml"):
        stored = with_defaults(yaml.safe_load(as_yaml(manifests(wanted)[name])))
        assert problems(stored) == []
        assert with_defaults(stored) == stored
        spec = stored["spec"].get("rayClusterSpec", stored["spec"])
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            ports = group["template"]["spec"]["containers"][0]["ports"]
            assert {port["protocol"] for port in ports} == {"TCP"}
            assert len({(port["containerPort"], port["protocol"]) for port in ports}) == len(ports)
