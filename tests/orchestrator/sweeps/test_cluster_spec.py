"""Where a sweep runs: words, addresses, files; and mistakes in them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.limits import Limits, Resources
from orchestrator.sweeps import cluster_spec
from orchestrator.sweeps.cluster_spec import (
    ClusterSpec,
    device_line,
    find_cluster,
    slots_of,
    visible_gpus,
)
from orchestrator.sweeps.sweep import SweepSpec
from tests.examples import each
from trials.errors import ConfigError
from trials.hardware.machine import VISIBLE, CudaGpus, Gpu, processor_name

CLUSTERS = Path(__file__).parents[3] / "configs" / "clusters"


@each("path", sorted(CLUSTERS.glob("*.yaml")))
def test_each_cluster_of_the_repository_can_be_read(path: Path) -> None:
    assert isinstance(find_cluster(str(path)), ClusterSpec)


@each(
    "text, told",
    [
        ("http://head:8265", "--cluster joins no address.*: ray job submit --address .* --cluster auto"),
        ("ray://me:secret@head:10001", "ray job submit"),
        ("~nobody-here/a.yaml", "is not a path .Could not determine home directory"),
        ("loacl", "must be local, auto, inline, or a file like those in configs/clusters/"),
        ("absent.yaml", "absent.yaml"),
    ],
)
def test_what_is_no_cluster_is_refused_with_the_way_out(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        find_cluster(text)
    assert "secret" not in str(raised.value)


def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("address: auto\nresources: {cpu: 2}\nlimits: {lost: -1}\n")
    with pytest.raises(ConfigError) as raised:
        find_cluster(str(file))
    assert "c.yaml:2: resources.cpu: unknown 'cpu', did you mean 'cpus'?" in str(raised.value)
    assert "c.yaml:3: limits.lost" in str(raised.value)
    file.write_text("address: ray://head:10001\n")
    with pytest.raises(ConfigError, match=r"c.yaml:1: address: joins no address"):
        find_cluster(str(file))


def test_a_clusters_resources_and_limits_go_over_the_sweeps_each_by_itself() -> None:
    sweep = SweepSpec(name="s", resources=Resources(cpus=3, gpus=1), limits=Limits(lost=2, alike=7))
    cluster = ClusterSpec(resources=Resources(gpus="packed"), limits=Limits(lost=50))
    over = cluster.overridden_sweep(sweep)
    assert over.resources == Resources(cpus=3, gpus="packed")
    assert over.limits == Limits(lost=50, alike=7)
    sweep = SweepSpec(name="s", resources=Resources(cpus=3))
    assert ClusterSpec(concurrency=1).overridden_sweep(sweep) == sweep


def test_the_command_line_goes_over_a_clusters_file_and_says_nothing_of_other_machines(tmp_path: Path) -> None:
    (file := tmp_path / "c.yaml").write_text("cpus: 3\ngpus: 1\n")
    found = find_cluster(str(file), gpus=0)
    assert (found.cpus, found.gpus) == (3, 0)
    with pytest.raises(ConfigError, match="what a launch uses of this machine, but auto is a cluster"):
        find_cluster("auto", gpus=0)


# --- What `gpus: auto` is on a machine, and how many trials it has room for.


CPU = processor_name()
H100 = Gpu("H100", 80 << 30)
LOCAL, INLINE = ClusterSpec(), ClusterSpec(address="inline")


@pytest.fixture
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores and so many GPUs."""
    n = getattr(request, "param", 0)
    monkeypatch.setattr(cluster_spec, "cuda_gpus", lambda: CudaGpus((H100,) * n))
    monkeypatch.setattr(cluster_spec, "usable_cores", lambda: 4)


def on(cluster: ClusterSpec, **resources: Any) -> Resources:
    return cluster.fitted_sweep(SweepSpec(name="s", resources=Resources(**resources))).resources


@pytest.mark.parametrize(
    ("machine", "cluster", "resources", "said"),
    [
        (0, LOCAL, {}, f"{CPU}: 4 trials at a time, 1 core each"),
        (0, INLINE, {"cpus": 9}, f"{CPU}: 1 trial at a time, 4 cores each"),
        (0, ClusterSpec(cpus=8), {}, f"{CPU}: 8 trials at a time, 1 core each; --cpus 8, but this process may use 4"),
        (1, LOCAL, {}, "1 H100: as many trials at a time on it as its memory and 4 cores allow"),
        (4, LOCAL, {}, "4 H100: as many trials at a time on each as its memory and 4 cores allow"),
        (1, LOCAL, {"gpus": 1}, "1 H100: one trial at a time on it"),
        (4, LOCAL, {"cpus": 2, "gpus": 1},
         "4 H100: 2 trials at a time, 1 GPU and 2 cores each; 2 GPUs idle for lack of cores: lower resources.cpus"),
        (2, LOCAL, {"gpus": 0.6}, "2 H100: 2 trials at a time, 0.6 of a GPU and 1 core each"),
        (4, INLINE, {}, "4 H100: one trial at a time, on the first"),
        (1, LOCAL, {"gpus": 0}, f"{CPU}: 4 trials at a time, 1 core each; 1 GPU not used"),
        (1, ClusterSpec(gpus=0), {"gpus": 1}, f"{CPU}: 4 trials at a time, 1 core each; 1 GPU not used"),
        (0, LOCAL, {"gpus": 1},
         "resources.gpus: 1: this machine has 0 GPUs that CUDA can use; a launch here is refused"),
        (2, ClusterSpec(address="auto"), {},
         "the GPUs of the cluster, as many trials on each as fit, or its cores if no node has a GPU at the start"),
    ],
    indirect=["machine"],
)  # fmt: skip
@pytest.mark.usefixtures("machine")
def test_a_plan_says_what_its_trials_run_on(cluster: ClusterSpec, resources: dict[str, Any], said: str) -> None:
    assert device_line(cluster, on(cluster, **resources)) == said


def test_where_torch_does_not_answer_auto_takes_no_cpu_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_spec, "cuda_gpus", lambda: CudaGpus(why_none="torch did not list them.", silent=True))
    with pytest.raises(
        ConfigError, match=r"auto: torch did not list them\. Run again, or give --gpus 0 to train on the C"
    ):
        on(LOCAL)
    assert on(ClusterSpec(gpus=0)).gpus == on(LOCAL, device="cpu").gpus == on(LOCAL, gpus=0).gpus == 0


def test_a_card_that_is_not_used_is_named_and_what_a_launch_starts_does_not_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = "Tesla K80 (number 0): CUDA error: no kernel image is available; it is not used"
    monkeypatch.setattr(cluster_spec, "cuda_gpus", lambda: CudaGpus((replace(H100, place="1"),), notes=(note,)))
    assert device_line(LOCAL, on(LOCAL, gpus=1)) == f"1 H100: one trial at a time on it; {note}"
    with visible_gpus(LOCAL):
        assert os.environ[VISIBLE] == "1"


@each(
    "cluster, resources, why",
    [
        (LOCAL, {"gpus": 1}, "resources.gpus: 1: this machine has 0 GPUs that CUDA can use"),
        (LOCAL, {"gpus": "packed"}, "resources.gpus: packed: this machine has 0 GPUs"),
        (LOCAL, {"cpus": 5}, "resources.cpus: 5: a launch here may use 4 cores"),
        (ClusterSpec(gpus=2), {}, "--gpus 2: this machine has 0 GPUs that CUDA can use"),
    ],
)
@pytest.mark.usefixtures("machine")
def test_what_a_machine_lacks_is_refused_and_on_a_cluster_auto_is_left_to_its_nodes(
    cluster: ClusterSpec, resources: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        cluster.check_room_here(on(cluster, **resources))
    assert on(ClusterSpec(address="auto")).gpus == "auto"
    assert slots_of(ClusterSpec(address="auto", concurrency=16), Resources(), 0.0) == 16
