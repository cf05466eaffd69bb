"""Coverage, failures and progress of a sweep, as values."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, Selection, select
from dashboards.views.coverage import (
    prepare_coverage,
    prepare_failures,
    prepare_progress,
    progress,
)
from dashboards.views.kit.cards import answers_of_page
from tests.dashboards.stores import Invented, append, specs, write_store
from tests.dashboards.views.made import made
from tests.orchestrator.store.rows import epoch

STATES = {0: "completed", 1: "failed", 2: None}


def _selection(folder: Path, invented: Invented | None = None, query: PageQuery | None = None) -> Selection:
    trials = specs(seeds=(0, 1, 2), train_sizes=(200, 800))
    made = invented or Invented(state=lambda spec: STATES[spec.seed])
    return select(Frames(write_store(folder / "store", trials, made)).refresh(), query or PageQuery())


def test_every_planned_trial_has_its_field(tmp_path: Path) -> None:
    found = prepare_coverage(_selection(tmp_path))
    assert found.rows[:2] == ["□ □□□□□□ none, 200", "□ ■■□□□□ first 2, 200"]
    assert found.seeds == [0, 1, 2]
    assert [list(row) for row in found.states] == [["completed", "failed", "missing"]] * 10
    assert all(trial_id for row in found.ids for trial_id in row)


def test_failures_are_grouped_by_what_was_said_last(tmp_path: Path) -> None:
    table = prepare_failures(_selection(tmp_path))
    assert table[["state", "trials", "reason"]].to_dict("records") == [
        {"state": "failed", "trials": 10, "reason": "RuntimeError: a made-up reason, seed 1"}
    ]


def test_answers_are_computed_again_when_a_trial_has_ended(tmp_path: Path) -> None:
    store = write_store(
        tmp_path / "s", specs(train_sizes=(200,)), Invented(state=lambda spec: {2: None}.get(spec.seed, "completed"))
    )
    frames = Frames(store)
    before = select(frames.refresh(), PageQuery())
    first = answers_of_page(before)
    store.append("epochs", [epoch(before.trials["trial_id"][0], step=1_000)])  # a new snapshot of the same trials
    same = select(frames.refresh(), PageQuery())
    assert same.snapshot is not before.snapshot
    assert answers_of_page(same) is first
    append(store, specs(train_sizes=(200,), seeds=(2,)), Invented())
    after = select(frames.refresh(), PageQuery())
    assert answers_of_page(after).answers[0].n_seeds == 3


def test_the_time_left_goes_by_the_work_done_since_the_driver_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two thirds of equal work in a minute leave half a minute, as the terminal's ETA says."""
    selection = _selection(tmp_path, Invented(state=lambda spec: "completed" if spec.seed < 2 else None))
    assert selection.sweep is not None
    trials = selection.sweep.trials
    trials = trials.assign(time=trials["time"].where(trials["time"].isna(), pd.Timestamp.now("UTC")))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    running = replace(selection.sweep, running_since=now - 60, trials=trials)
    assert prepare_progress(replace(selection, sweep=running)).time_left == "30 s"
    assert prepare_progress(selection).time_left is None


def test_a_stopped_sweep_comes_with_the_command_that_resumes_it(tmp_path: Path) -> None:
    half = Invented(state=lambda spec: "completed" if spec.seed else None)
    words = str(progress(made(tmp_path / "s", half)))
    assert f"permafrost launch --sweep made-up.yaml --store {tmp_path / 's'}" in words
    assert progress(made(tmp_path / "whole")) == []
