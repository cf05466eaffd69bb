"""What the dashboards read of a store: every trial once, in the state it is in, and only what is new."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dashboards.data.frames import EVERYTHING, Frames, Snapshot
from orchestrator.store import ResultStore
from orchestrator.store.plans import SweepPlan
from tests.dashboards.stores import START, Invented, append, specs, write_store
from tests.drivers import running

TRIALS = specs(seeds=(0, 1), train_sizes=(200,))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return write_store(tmp_path / "store", TRIALS)


def _trials(snapshot: Snapshot, sweep: str = "made-up") -> pd.DataFrame:
    return snapshot.sweeps[sweep].trials


def test_a_row_a_trial_in_the_plans_order_with_its_cell(store: ResultStore) -> None:
    trials = _trials(Frames(store).refresh())
    assert trials["trial_id"].tolist() == [spec.trial_id for spec in TRIALS]
    assert trials["cell"].tolist() == [spec.cell_id for spec in TRIALS]
    assert trials["baseline"].tolist() == [spec.baseline_id for spec in TRIALS]
    assert trials["freeze"].tolist() == [spec.freeze.label for spec in TRIALS]
    assert set(trials["state"]) == {"completed"}


def test_a_page_pairs_settings_that_have_a_rate_each_as_every_other_answer_does(tmp_path: Path) -> None:
    trials = [spec.with_rate(1e-3) if spec.freeze.depth else spec for spec in TRIALS]
    store = write_store(tmp_path / "store", trials)
    frame = _trials(Frames(store).refresh())
    evidence = store.evidence(trials).frame
    for column in ("baseline", "setup", "step_mode", "collapsed", "training_cost_s"):
        assert frame[column].tolist() == evidence[column].tolist(), column
    assert frame["baseline"].nunique() == 1


def test_nothing_new_is_the_same_snapshot_and_a_new_row_is_another(tmp_path: Path) -> None:
    store = write_store(
        tmp_path / "store", TRIALS, Invented(state=lambda spec: "completed" if spec.seed == 0 else None)
    )
    frames = Frames(store)
    before = frames.refresh()
    assert frames.refresh() is before
    append(store, TRIALS, Invented(state=lambda spec: "completed" if spec.seed == 1 else None))
    after = frames.refresh()
    assert after.version > before.version
    assert (_trials(before)["state"] == "completed").sum() == 5
    assert (_trials(after)["state"] == "completed").sum() == 10


def test_a_compacted_store_says_the_same(store: ResultStore) -> None:
    append(store, specs(seeds=(7,), train_sizes=(200,)), Invented())
    frames = Frames(store)
    before = frames.refresh()
    epochs = before.epochs(_trials(before))
    store.compact()
    after = frames.refresh()
    pd.testing.assert_frame_equal(_trials(before), _trials(after))
    pd.testing.assert_frame_equal(epochs, after.epochs(_trials(after)))


def test_trials_without_a_row_are_missing_or_planned_or_running(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", TRIALS, Invented(state=lambda spec: None))
    store.append("epochs", [{"trial_id": TRIALS[0].trial_id, "attempt": 1, "step": 1, "epoch": 0.5, "score": 0.5}])
    assert set(_trials(Frames(store).refresh())["state"]) == {"missing"}
    with running(store.storage, "made-up"):
        assert _trials(Frames(store).refresh())["state"].tolist() == ["running"] + ["planned"] * 9


def test_evaluations_are_those_of_the_attempt_that_ended(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", TRIALS[:1])
    frames = Frames(store)
    n = len(frames.refresh().epochs(_trials(frames.refresh())))
    store.append("epochs", [{"trial_id": TRIALS[0].trial_id, "attempt": 2, "step": 999, "epoch": 9.0, "score": 0.1}])
    snapshot = frames.refresh()
    assert len(snapshot.epochs(_trials(snapshot))) == n


def test_rows_that_a_killed_compaction_left_twice_count_once(store: ResultStore) -> None:
    frames = Frames(store)
    before = frames.refresh()
    n = len(before.evaluations)
    store.append("epochs", store.epochs().slice(0, 3).to_pylist())
    after = frames.refresh()
    assert len(after.evaluations) == n == len(before.evaluations)
    pd.testing.assert_frame_equal(before.epochs(_trials(before)), after.epochs(_trials(after)))


def test_trials_that_no_plan_names_are_shown_too(store: ResultStore) -> None:
    append(store, specs(seeds=(9,), train_sizes=(200,)), Invented())
    snapshot = Frames(store).refresh()
    assert list(snapshot.sweeps) == ["made-up", EVERYTHING]
    assert len(_trials(snapshot, EVERYTHING)) == 15
    assert len(_trials(snapshot)) == 10


def test_a_sweeps_newest_plan_counts(store: ResultStore) -> None:
    more = specs(seeds=(0, 1, 2), train_sizes=(200,))
    plan = SweepPlan("made-up", START + 1, "x", tuple((s.trial_id, s.model_dump(mode="json")) for s in more))
    frames = Frames(store)
    frames.refresh()
    store.add_plan(plan)
    assert len(_trials(frames.refresh())) == 15
