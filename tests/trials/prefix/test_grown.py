"""Layers that a rule freezes in mid-training leave the model, and the numbers are those of a trial that keeps them."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.examples import each
from tests.trials.conftest import TrialMaker, finished
from tests.trials.prefix.conftest import CPU, records_of
from tests.trials.training.test_checkpoint import MEASURED, interrupted_after
from trials.cache.node_cache import BYTES_VARIABLE
from trials.models.family import MODEL_FAMILIES
from trials.record import EpochRecord
from trials.run import run_trial
from trials.training.checkpoint import Checkpoints

SCHEDULE: dict[str, Any] = {
    "freeze": {"strategy": "adaptive", "rule": {"name": "schedule", "depths": [0, 1, 3, 4]}},
    "frozen_dropout": False,
    "optim": {"epochs": 4},
}


def numbers(records: list[EpochRecord], *others: str) -> list[dict[str, Any]]:
    """The records without what a clock measures."""
    return [{key: v for key, v in asdict(r).items() if key not in MEASURED | set(others)} for r in records]


@each("family", ["distilbert", "gpt2", *MODEL_FAMILIES], quick=2)
def test_the_numbers_are_those_of_a_trial_that_runs_every_layer(
    family: str, make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_trial(family, **SCHEDULE)
    cut = records_of(spec)
    monkeypatch.setenv(BYTES_VARIABLE, "0")
    whole = records_of(spec)
    assert [r.frozen_layers for r in cut] == [r.frozen_layers for r in whole] == [0, 1, 3, 4]
    assert [r.prefix_layers for r in cut] == [0, 1, 3, 3]  # at the last turn one pass is left, so nothing is gained
    assert [r.prefix_layers for r in whole] == [0, 0, 0, 0]
    for one, other in zip(cut, whole, strict=True):
        assert one.step_losses == pytest.approx(other.step_losses, abs=1e-5)
    assert [r.score for r in cut] == [r.score for r in whole]
    assert cut[-1].test_score == whole[-1].test_score


def test_states_that_are_found_give_the_bits_of_states_that_are_computed(
    make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, kept = make_trial(**SCHEDULE), []
    computed = records_of(spec)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda folder, **_: kept.append(folder))
        records_of(spec)
    assert {folder.exists() for folder in kept} == {True}
    assert numbers(records_of(spec)) == numbers(computed)


@each("step", [12, 8, 15, 6, 7, 13, 18, 20], quick=2)
def test_a_trial_resumed_after_a_growth_has_the_bits_of_one_that_was_not_interrupted(
    step: int, make_trial: TrialMaker
) -> None:
    spec = make_trial(**SCHEDULE)
    kept = interrupted_after(step, spec)
    assert numbers(list(run_trial(spec, device=CPU, checkpoints=Checkpoints(kept)))) == numbers(records_of(spec))


def test_nothing_of_a_trial_stays_in_the_cache(make_trial: TrialMaker, cache: Path) -> None:
    records_of(make_trial(**SCHEDULE))
    stopped = run_trial(make_trial(**SCHEDULE), device=CPU)
    for _ in range(3):
        next(stopped)
    assert len([path for path in (cache / "prefix").iterdir() if path.is_dir()]) == 2
    stopped.close()
    assert [path for path in (cache / "prefix").iterdir() if path.is_dir()] == []


def test_layers_frozen_from_the_start_use_the_states_that_all_trials_share(make_trial: TrialMaker, cache: Path) -> None:
    rule = {"name": "schedule", "depths": [2, 3]}
    records = records_of(make_trial(**SCHEDULE | {"freeze": {"strategy": "adaptive", "rule": rule}}))
    assert [r.prefix_layers for r in records] == [2, 2, 3, 3]
    assert len([path for path in (cache / "prefix").iterdir() if path.is_dir()]) == 1  # of depth 2
    static = records_of(make_trial(**SCHEDULE | {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}}))
    assert static[0].prefix_paid_s == 0.0
    assert [r.step_losses for r in static[:2]] == [r.step_losses for r in records[:2]]


def test_frozen_layers_with_dropout_stay_in_the_model(make_trial: TrialMaker) -> None:
    records = records_of(make_trial(**SCHEDULE | {"frozen_dropout": True}))
    assert [(r.frozen_layers, r.prefix_layers) for r in records] == [(0, 0), (1, 0), (3, 0), (4, 0)]


def test_states_count_once_whether_found_or_computed_and_a_step_counts_what_it_runs(make_trial: TrialMaker) -> None:
    flops = [record.training_flops or 0.0 for record in records_of(make_trial(**SCHEDULE))]
    assert flops == sorted(flops, reverse=True)
    static = records_of(make_trial(freeze="none", optim={"epochs": 4}))
    assert flops[0] == static[0].training_flops
    assert sum(flops) < sum(record.training_flops or 0.0 for record in static)


def test_the_model_is_whole_again_with_the_best_weights(make_trial: TrialMaker) -> None:
    spec = make_trial(**SCHEDULE)
    _, trained = finished(run_trial(spec, device=CPU))
    assert len(trained.loaded.stack) == spec.model.n_layers
