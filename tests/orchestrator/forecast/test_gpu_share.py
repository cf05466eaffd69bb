"""A launch whose trials share a GPU is forecast with the share that it would begin with."""

from __future__ import annotations

import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.forecast.gpu_memory import EncoderSizes
from orchestrator.forecast.history import read_history
from orchestrator.store import open_store
from orchestrator.sweeps import cluster_spec
from orchestrator.sweeps.cluster_spec import ClusterSpec, slots_of
from orchestrator.sweeps.trial_resources import Resources
from tests.builders import make_record
from tests.examples import each
from tests.orchestrator.forecast.worlds import LENGTHS, SIZES, spec_of
from trials.hardware.machine import CudaGpus, Gpu
from trials.state import State
from trials.training.step_rule import GRAPHS_VARIABLE

LARGE = EncoderSizes(layers=24, width=1024, inner=4096, table=31_000_000, table_width=1024)


@each(
    "sizes, n_gpus, n_trials, share",
    [
        (SIZES, 1, 40, 0.125),  # by the cores
        (SIZES, 2, 40, 0.25),
        (SIZES, 1, 3, 0.3333),
        (SIZES, 1, 1, 1.0),
        (LARGE, 1, 40, 0.5),  # by the memory
        (None, 1, 40, 1.0),
    ],
)
def test_without_past_trials_it_is_by_cores_memory_and_the_number_of_trials(
    sizes: EncoderSizes | None,
    n_gpus: int,
    n_trials: int,
    share: float,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_spec, "cuda_gpus", lambda: CudaGpus((Gpu("a card", 32 * 10**9),) * n_gpus))
    monkeypatch.setattr(cluster_spec, "usable_cores", lambda: 8)
    planned = [spec_of(0, seed=seed) for seed in range(n_trials)]
    store, resources = open_store(tmp_path_factory.mktemp("store"), must_exist=False), Resources(gpus="packed")
    known = None if sizes is None else (sizes, LENGTHS)
    target = read_history(store, ClusterSpec(), resources, planned, lambda spec: known).target
    assert (target.device, target.gpus) == ("a card", share)
    assert slots_of(ClusterSpec(), resources, target.gpus) == int(1 / share) * n_gpus


MODES = ["graphs", "padded", "refused", None]  # by seed; the last as in older stores


@each(
    "family, off, used",
    [
        ("distilbert", False, [0, 2]),
        ("distilbert", True, [1, 2, 3]),
        ("deberta-v2", False, [0, 1, 2, 3]),  # which is never replayed
    ],
)
def test_times_of_steps_without_graphs_do_not_forecast_steps_with_graphs(
    family: str, off: bool, used: list[int], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_spec, "cuda_gpus", lambda: CudaGpus((Gpu("a card", 32 * 10**9),)))
    monkeypatch.setenv(GRAPHS_VARIABLE, "0" if off else "1")
    store = open_store(tmp_path_factory.mktemp("store"), must_exist=False)
    recorder = Recorder(store)
    specs = [spec_of(0, seed=seed) for seed in range(len(MODES))]
    specs = [spec.model_copy(update={"model": spec.model.model_copy(update={"family": family})}) for spec in specs]
    for spec, mode in zip(specs, MODES, strict=True):
        ran = {"step_mode": "padded", "refused_modes": "graphs: wrong"} if mode == "refused" else {"step_mode": mode}
        recorder.started(spec, 1)
        recorder.evaluated(spec, make_record(device="a card", gpus=1.0, padding_free=0, **ran))
        recorder.ended(spec, State.COMPLETED, None)
    recorder.close()
    found = read_history(store, ClusterSpec(), Resources(gpus=1), specs)
    assert sorted(observation.spec.seed for observation in found.observations) == used
