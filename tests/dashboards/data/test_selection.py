"""What a URL selects of a store: one corpus, model and set-up at a time, and the baselines of what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashboards.data.frames import Frames, Snapshot
from dashboards.data.selection import EACH_BEST, PageQuery, select
from tests.dashboards.stores import Invented, specs, write_store
from tests.examples import each
from trials.spec import TrialSpec


def _snapshot(folder: Path, *groups: list[TrialSpec], **invented: Any) -> Snapshot:
    trials = [spec for group in groups for spec in group]
    return Frames(write_store(folder / "store", trials, Invented(**invented))).refresh()


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    slow, fast = (specs(seeds=(0, 1), optim={"lr": lr}) for lr in (1e-4, 1e-3))
    other = specs(seeds=(0,), data={"name": "other", "fingerprint": "e" * 64})
    return _snapshot(tmp_path, slow, fast, other)


def test_by_default_the_first_corpus_and_its_best_set_up(snapshot: Snapshot) -> None:
    found = select(snapshot, PageQuery())
    best = max(("lr=0.0001", "lr=0.001"), key=lambda setup: _best_mean(snapshot, setup))
    assert (found.query.corpus, found.query.setup) == ("pos tiny", best)
    assert found.scope == f"{best}: best of 2 on dev."
    assert set(found.options["setup"]) == {"lr=0.0001", "lr=0.001", EACH_BEST}
    assert len(found.trials) == 20
    assert found.notices == ()


def _best_mean(snapshot: Snapshot, setup: str) -> float:
    trials = select(snapshot, PageQuery(setup=setup)).trials
    return float(trials.groupby("cell")["score"].mean().max())


def test_each_freeze_at_its_own_best_is_paired_with_the_best_baseline(snapshot: Snapshot) -> None:
    trials = select(snapshot, PageQuery(setup=EACH_BEST)).trials
    assert trials.groupby(["train_size", "freeze"])["cell"].nunique().eq(1).all()
    assert set(trials["baseline"]) <= set(trials["cell"])


def test_a_search_that_has_planned_no_trial_yet_hides_nothing(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", [], sweep="search")
    assert select(Frames(store).refresh(), PageQuery()).sweep is None
    write_store(tmp_path / "store", specs(seeds=(0,)), sweep="older")
    found = select(Frames(store).refresh(), PageQuery(sweep="search"))
    assert found.query.sweep == "older"
    assert "There is no sweep 'search' here; 'older' is shown." in found.notices


def test_filters_narrow_and_leave_the_baselines(snapshot: Snapshot) -> None:
    found = select(snapshot, PageQuery(size=(800,), strategy=("first_k",)))
    assert set(found.trials["strategy"]) == {"first_k", "none"}
    assert set(found.trials["train_size"]) == {800}


@each(
    "query",
    [
        PageQuery(sweep="gone"),
        PageQuery(corpus="x"),
        PageQuery(model="x"),
        PageQuery(setup="x"),
        PageQuery(size=(1,)),
        PageQuery(strategy=("x",)),
        PageQuery(metric="x"),
        PageQuery(freeze="x"),
    ],
)
def test_what_is_not_there_is_told_and_something_is_shown(snapshot: Snapshot, query: PageQuery) -> None:
    found = select(snapshot, query)
    assert len(found.notices) == 1
    assert len(found.completed) > 0


def test_a_metric_and_a_split_choose_the_column(snapshot: Snapshot) -> None:
    found = select(snapshot, PageQuery(metric="macro_f1", split="test"))
    assert found.value_name == "test macro F1"
    assert found.trials["score"].tolist() == found.trials["test:macro_f1"].tolist()


def test_only_completed_trials_can_enter_a_mean(tmp_path: Path) -> None:
    states = {0: "completed", 1: "diverged", 2: "pruned", 3: None}
    snapshot = _snapshot(tmp_path, specs(seeds=(0, 1, 2, 3), train_sizes=(200,)), state=lambda spec: states[spec.seed])
    found = select(snapshot, PageQuery())
    assert set(found.completed["seed"]) == {0}
    assert set(found.other_trials["state"]) == {"diverged"}
    assert found.incomplete == "5 of 20 planned trials have completed"
