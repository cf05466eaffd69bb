"""KubeRay's manifests: valid against its definitions, the examples up to date, and what they promise."""

from __future__ import annotations

import copy
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from orchestrator.commands.app import app
from orchestrator.extras.kubernetes.kuberay import KubeRay, Workers, manifests
from orchestrator.extras.kubernetes.manifests_command import as_yaml
from tests.docker.crd import SCHEMAS, problems
from tests.examples import each
from trials.errors import ConfigError

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = CHECKOUT / "docker" / "kuberay"
EXAMPLE = (
    "manifests", "kuberay", "--workers-gpu", "0:4", "--spot", "--store", "s3://permafrost/results",
    "--sweep", str(CHECKOUT / "configs" / "sweeps" / "starter.yaml"),
)  # fmt: skip
needs_definitions = pytest.mark.skipif(not SCHEMAS.is_dir(), reason=f"KubeRay's definitions are not at {SCHEMAS}")
Manifest = dict[str, Any]


def asked(**changes: Any) -> KubeRay:
    values: dict[str, Any] = {"name": "frost", "image": "permafrost:cpu", "cpu": Workers(1, 4), "gpu": Workers(0, 2)}
    return KubeRay(**({**values, "store": "s3://bucket/results"} | changes))


def pods(manifest: Manifest) -> Iterator[Manifest]:
    spec = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        yield group["template"]["spec"]


def test_the_examples_are_what_the_command_writes(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, [*EXAMPLE, "--out", str(tmp_path)])
    assert told.exit_code == 0, told.output
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.yaml")}


@needs_definitions
@given(
    gpus=st.integers(0, 3), spot=st.booleans(), volume=st.booleans(), sweep=st.sampled_from(["", "name: x\n"]),
    kind=st.sampled_from(["", "NVIDIA-H100-80GB-HBM3"]),
)  # fmt: skip
def test_whatever_is_asked_for_keeps_to_the_definitions(
    gpus: int, spot: bool, volume: bool, sweep: str, kind: str
) -> None:
    place = {"store": "", "volume": "results"} if volume else {}
    found = manifests(asked(gpu=Workers(0, gpus), spot=spot, sweep=sweep, gpu_kind=kind, **place))
    for name in ("raycluster.yaml", "rayjob.yaml"):
        assert problems(yaml.safe_load(as_yaml(found[name]))) == []


@needs_definitions
@each(
    "path, value, said",
    [
        (("spec", "workerGroupSpecs", 0, "maxReplicas"), "four", "is not of type 'integer'"),
        (("spec", "workerGroupSpecs", 0, "maxReplica"), 4, "maxReplica: unknown field"),
        (("spec", "authOptions", "mode"), "none", "is not one of"),
        (("spec", "headGroupSpec", "template", "spec", "containers", 0, "imagePullpolicy"), "x", "unknown field"),
        (("spec", "headGroupSpec", "template", "spec", "containers", 0, "ports", 0, "containerPort"), [], "integer"),
        (("spec", "rayStartParams"), {}, "unknown field"),
        (("metadata", "label"), {}, "metadata.label: unknown field"),
    ],
)
def test_the_check_itself_finds_what_is_wrong(path: tuple[str | int, ...], value: object, said: str) -> None:
    broken: Any = copy.deepcopy(manifests(asked())["raycluster.yaml"])
    part = broken
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    assert any(said in problem for problem in problems(broken)), problems(broken)


@needs_definitions
def test_a_worker_group_without_its_template_is_found() -> None:
    broken = copy.deepcopy(manifests(asked())["raycluster.yaml"])
    del broken["spec"]["workerGroupSpecs"][0]["template"]
    assert problems(broken) == ["$.spec.workerGroupSpecs[0]: 'template' is a required property"]


def test_every_pod_runs_without_rights_and_has_longer_to_end_than_its_trials_have_to_be_kept() -> None:
    for spot in (False, True):
        for name in ("raycluster.yaml", "rayjob.yaml"):
            for pod in pods(manifests(asked(spot=spot))[name]):
                (container,) = pod["containers"]
                assert pod["securityContext"]["runAsNonRoot"]
                assert container["securityContext"]["readOnlyRootFilesystem"]
                grace = next(int(one["value"]) for one in container["env"] if one["name"] == "PERMAFROST_GRACE_S")
                assert pod["terminationGracePeriodSeconds"] > grace
                assert not spot or pod["terminationGracePeriodSeconds"] <= 25


def test_all_nodes_have_the_ports_that_the_entrypoint_gives_containers() -> None:
    ports = runpy.run_path(str(CHECKOUT / "docker" / "entrypoint.py"))["PORTS"]
    spec = manifests(asked())["raycluster.yaml"]["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        given = {f"--{name}={value}" for name, value in group["rayStartParams"].items()}
        assert set(ports) <= given


def test_only_workers_go_to_spot_machines_and_only_those_with_gpus_to_gpu_machines() -> None:
    head, cpu, gpu = pods(manifests(asked(spot=True, gpu_kind="A100"))["raycluster.yaml"])
    assert "tolerations" not in head
    assert {one["key"] for one in gpu["tolerations"]} - {one["key"] for one in cpu["tolerations"]} == {"nvidia.com/gpu"}
    assert gpu["nodeSelector"] == {"nvidia.com/gpu.product": "A100"}
    assert "nodeSelector" not in cpu


def test_no_secret_is_written_and_a_token_is_asked_for_on_every_node() -> None:
    found = manifests(asked(token_secret="my-token"))
    assert not any(manifest["kind"] == "Secret" for manifest in found.values())
    assert found["raycluster.yaml"]["spec"]["authOptions"] == {"mode": "token", "secretName": "my-token"}
    assert found["rayjob.yaml"]["spec"]["rayClusterSpec"] == found["raycluster.yaml"]["spec"]


def test_the_policy_knows_every_pod_and_lets_nobody_else_in_but_the_operator_and_the_monitoring() -> None:
    found = manifests(asked(store="s3://b/r?endpoint_override=http://minio:9000"))
    policy = found["networkpolicy.yaml"]["spec"]
    spec = found["rayjob.yaml"]["spec"]
    groups = [spec["rayClusterSpec"]["headGroupSpec"], *spec["rayClusterSpec"]["workerGroupSpecs"]]
    templates = [spec["submitterPodTemplate"], *(group["template"] for group in groups)]
    assert all(one["metadata"]["labels"] == policy["podSelector"]["matchLabels"] for one in templates)
    assert [[port["port"] for port in rule.get("ports", [])] for rule in policy["ingress"]] == [[], [8265], [8080]]
    assert [port["port"] for port in policy["egress"][-1]["ports"]] == [443, 6443, 9000]


@each(
    "options, said",
    [
        (["--workers-cpu", "4:1", "--workers-gpu", "x"], ["--workers-cpu: '4:1'", "--workers-gpu: 'x'"]),
        (["--name", "No_Name", "--image", "no-tag"], ["--name: 'No_Name'", "--image: 'no-tag'"]),
        (["--volume", "claim"], ["exactly one of them"]),
        (["--store", "results"], ["--store: "]),
        (["--workers-cpu", "0:0"], ["no worker at all"]),
        (["--store", "s3://me:secret@bucket/x"], ["no user allowed in an address"]),
    ],
)
def test_mistakes_are_told_together_and_nothing_is_written(tmp_path: Path, options: list[str], said: list[str]) -> None:
    store = [] if "--store" in options else ["--store", "s3://bucket/results"]
    told = CliRunner().invoke(app, ["manifests", "kuberay", *store, *options, "--out", str(tmp_path / "out")])
    assert told.exit_code == 2
    assert all(word in told.output for word in said), told.output
    assert "secret@" not in told.output
    assert not (tmp_path / "out").exists()


def test_a_sweep_that_is_wrong_is_told_here_and_not_by_a_pod(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("name: x\ntrail: {}\n")
    told = CliRunner().invoke(
        app, ["manifests", "kuberay", "--store", "s3://b/r", "--sweep", str(tmp_path / "sweep.yaml")]
    )
    assert (told.exit_code, "trail" in told.output) == (2, True)


@given(st.text(max_size=12))
def test_a_range_is_read_or_refused_and_never_anything_else(text: str) -> None:
    try:
        workers = Workers.parse("--workers-cpu", text)
    except ConfigError:
        return
    assert workers.least <= workers.most
    assert text.split(":")[0].lstrip("0") in (str(workers.least), "")
