"""What `gpus: auto` is on a machine, and how many trials it has room for."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.sweeps import cluster_spec
from orchestrator.sweeps.cluster_spec import ClusterSpec, check_room_here, device_line, settled, slots_of
from orchestrator.sweeps.sweep import Resources, SweepSpec
from tests.examples import each
from trials.errors import ConfigError
from trials.hardware.cpu_name import processor_name
from trials.hardware.machine import CudaGpus, Gpu

CPU = processor_name()
H100 = Gpu("H100", 80 << 30)
LOCAL, INLINE = ClusterSpec(), ClusterSpec(address="inline")


@pytest.fixture
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores and so many GPUs."""
    n = getattr(request, "param", 0)
    monkeypatch.setattr(cluster_spec, "cuda_gpus", lambda: CudaGpus((H100,) * n))
    monkeypatch.setattr(cluster_spec, "usable_cores", lambda: 4)


def on(cluster: ClusterSpec, *, pilot: bool = False, **resources: Any) -> Resources:
    return settled(cluster, SweepSpec(name="s", resources=Resources(**resources)), pilot=pilot).resources


@pytest.mark.parametrize(
    ("machine", "cluster", "resources", "said"),
    [
        (0, LOCAL, {}, f"{CPU}: 4 trials at a time, 1 core each"),
        (0, LOCAL, {"cpus": 3}, f"{CPU}: 1 trial at a time, 3 cores each"),
        (0, INLINE, {"cpus": 9}, f"{CPU}: 1 trial at a time, 4 cores each"),
        (0, ClusterSpec(cpus=2), {}, f"{CPU}: 2 trials at a time, 1 core each"),
        (0, ClusterSpec(cpus=8), {}, f"{CPU}: 8 trials at a time, 1 core each; --cpus 8, but this process may use 4"),
        (1, LOCAL, {}, "1 H100: one trial at a time on it"),
        (4, LOCAL, {}, "4 H100: one trial at a time on each"),
        (4, LOCAL, {"cpus": 2}, "4 H100: 2 trials at a time, 1 GPU and 2 cores each"),
        (4, ClusterSpec(gpus=1), {}, "1 H100: one trial at a time on it"),
        (4, INLINE, {}, "4 H100: one trial at a time, on the first"),
        (1, LOCAL, {"gpus": 0.25}, "1 H100: 4 trials at a time, 0.25 of a GPU and 1 core each"),
        (1, LOCAL, {"gpus": 0}, f"{CPU}: 4 trials at a time, 1 core each; 1 GPU not used"),
        (1, ClusterSpec(gpus=0), {"gpus": 1}, f"{CPU}: 4 trials at a time, 1 core each; 1 GPU not used"),
        (1, LOCAL, {"device": "cpu"}, f"{CPU}: 4 trials at a time, 1 core each; 1 GPU not used"),
        (1, LOCAL, {"gpus": 2},
         "resources.gpus: 2: this machine has 1 GPU that CUDA can use; a launch here is refused"),
        (2, ClusterSpec(address="auto"), {},
         "the GPUs of the cluster, one per trial, or its cores if no node has a GPU at the start"),
    ],
    indirect=["machine"],
)  # fmt: skip
@pytest.mark.usefixtures("machine")
def test_a_plan_says_what_its_trials_run_on(cluster: ClusterSpec, resources: dict[str, Any], said: str) -> None:
    assert device_line(cluster, on(cluster, **resources)) == said


@pytest.mark.parametrize(
    ("machine", "pilot", "gpus"), [(0, True, 0.0), (1, False, 1.0), (1, True, "packed")], indirect=["machine"]
)
@pytest.mark.usefixtures("machine")
def test_auto_is_a_gpu_per_trial_and_packed_where_pilots_measure(pilot: bool, gpus: object) -> None:
    assert on(LOCAL, pilot=pilot).gpus == gpus


@pytest.mark.usefixtures("machine")
def test_on_a_cluster_auto_is_left_to_its_nodes() -> None:
    assert on(ClusterSpec(address="auto")).gpus == "auto"
    assert slots_of(ClusterSpec(address="auto", concurrency=16), Resources(), 0.0) == 16


@each(
    "cluster, resources, why",
    [
        (LOCAL, {"gpus": 1}, "resources.gpus: 1: this machine has 0 GPUs that CUDA can use"),
        (LOCAL, {"gpus": "packed"}, "resources.gpus: packed: this machine has 0 GPUs"),
        (INLINE, {"gpus": 0.5}, "resources.gpus: 0.5: this machine has 0 GPUs"),
        (LOCAL, {"cpus": 5}, "resources.cpus: 5: a launch here may use 4 cores"),
    ],
)
@pytest.mark.usefixtures("machine")
def test_what_a_machine_lacks_is_refused(cluster: ClusterSpec, resources: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_room_here(cluster, on(cluster, **resources))


@pytest.mark.usefixtures("machine")
def test_more_gpus_than_there_are_cannot_be_asked_for() -> None:
    with pytest.raises(ConfigError, match="--gpus 2: this machine has 0 GPUs that CUDA can use"):
        on(ClusterSpec(gpus=2))
