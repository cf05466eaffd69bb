"""Forecasts of real sweeps, told from the store's rows or from pilots."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.forecast.forecast import forecast_of
from orchestrator.forecast.pilot import Pilots, chosen_pilots, pilot_spec, run_pilots
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import write_sweep
from tests.orchestrator.forecast.worlds import spec_of
from tests.small_sweeps import POS, write_bank
from trials.draft import Lookup, TrialDraft
from trials.errors import MissingError
from trials.tasks.task_corpus import read_corpus

INLINE = ClusterSpec(address="inline")


@pytest.fixture
def folder(trained: ResultStore) -> Path:
    """Where its corpus is."""
    return trained.root.parent


def planned(folder: Path, store: ResultStore, *settings: str) -> Plan:
    text = POS.replace("folder: ", f"folder: {folder}/")
    path = write_sweep(folder / "next.yaml", f"{text.rstrip()}\nname: next\n")
    return make_plan(*load_sweep(path, list(settings)), store, Lookup(offline=True))


def test_more_seeds_of_what_the_store_has_are_told_from_its_trials_and_other_threads_are_not(
    folder: Path, trained: ResultStore
) -> None:
    found = forecast_of(planned(folder, trained, "seeds=[7,8,9]"), trained, INLINE)
    assert found.n_trials == 3
    assert found.wall_s is not None
    assert found.wall_s.low < found.wall_s.median < found.wall_s.high
    assert found.source == "from 2 trials on this device"
    assert forecast_of(planned(folder, trained, "seeds=[7]", "resources.cpus=2"), trained, INLINE).wall_s is None


@pytest.mark.slow
def test_a_pilot_runs_the_shapes_that_were_not_seen_and_serves_a_plan_with_less_of_train(
    folder: Path, tmp_path: Path
) -> None:
    empty, told = open_store(tmp_path / "none", must_exist=False), list[str]()
    pilots = Pilots(told.append)
    found = forecast_of(planned(folder, empty, "seeds=[0]"), empty, INLINE, pilots=pilots)
    assert found.wall_s is not None
    assert found.source == "from pilots of 1 shape"
    assert told[0] == "pilot   1 shape, 48 steps each"
    assert [line.partition(",")[0] for line in told[1:]] == ["pilot   1 of 1: bank ■ ■■■■□□ first 4"]
    assert not (tmp_path / "none").exists()
    less = planned(folder, empty, "seeds=[0]", "trial.train_size=16")
    assert forecast_of(less, empty, INLINE, pilots=pilots).wall_s
    assert len(told) == 2
    assert forecast_of(planned(folder, empty, "seeds=[0]"), empty, INLINE, pilots=Pilots(told.append)).wall_s
    assert told[2:] == ["pilot   1 shape timed here before"]


@pytest.mark.slow
def test_a_pilot_that_ends_early_is_told_with_its_reason(folder: Path, trained: ResultStore) -> None:
    spec = planned(folder, trained, "seeds=[0]").trials[0]
    gone = spec.model_copy(update={"model": spec.model.model_copy(update={"path": "/nowhere"})})
    with pytest.raises(MissingError, match="failed: "):
        run_pilots([gone], 1, lambda line: None)


def test_pilots_of_many_shapes_take_the_extremes_of_each_corpus() -> None:
    specs = [spec_of(depth, optim={"batch_size": size}) for depth in range(7) for size in (8, 16)]
    assert len(chosen_pilots(specs[:8], set())) == 8
    chosen = chosen_pilots(specs, set())
    assert {0, 6} <= {spec.freeze.depth for spec in chosen}
    assert len(chosen) <= 12


def test_a_pilot_is_a_trial_of_the_same_shape_and_few_steps() -> None:
    spec = spec_of(2, train_size=4000)
    large = spec.model_copy(update={"data": spec.data.model_copy(update={"sizes": (5000, 900, 900)})})
    small = pilot_spec(large)
    assert (small.train_size, small.optim.epochs, small.freeze.depth) == (384, 2, 2)
    assert pilot_spec(large, gpu=True).optim.epochs == 3  # in the first two steps are run and recorded, not replayed
    assert small.data.sizes == (1000, 192, 1)


def test_a_pilot_reads_enough_where_a_share_of_train_serves_as_dev(tmp_path: Path) -> None:
    train = write_bank(tmp_path / "bank", train=60, dev=1, test=1) / "train.conllu"
    draft = TrialDraft.model_validate({"data": {"train": [str(train)], "held_out": 0.2}})
    small = pilot_spec(draft.resolve(Lookup(offline=True)))
    assert small.train_size == len(read_corpus("pos", small.data).train) < 60
