"""Coverage, failures and progress of a sweep, as values."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dashboards.data.frames import Frames
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Selection, select
from dashboards.views.overview import (
    COVERAGE,
    FAILURES,
    draw_coverage,
    prepare_coverage,
    prepare_failures,
    prepare_progress,
)
from dashboards.views.part import compute
from dashboards.views.theme import DARK, LIGHT
from tests.dashboards.stores import Invented, specs, write_store

STATES = {0: "completed", 1: "failed", 2: None}


def _selection(folder: Path, invented: Invented | None = None, query: PageQuery | None = None) -> Selection:
    trials = specs(seeds=(0, 1, 2), train_sizes=(200, 800))
    made = invented or Invented(state=lambda spec: STATES[spec.seed])
    return select(Frames(write_store(folder / "store", trials, made)).refresh(), query or PageQuery())


def test_every_planned_trial_has_its_field(tmp_path: Path) -> None:
    found = prepare_coverage(_selection(tmp_path))
    assert found.rows[:2] == ["none, 200", "first 2, 200"]
    assert found.seeds == [0, 1, 2]
    assert [list(row) for row in found.states] == [["completed", "failed", "missing"]] * 10
    assert all(trial_id for row in found.ids for trial_id in row)


def test_a_field_says_its_state_in_colour_mark_and_words(tmp_path: Path) -> None:
    found = prepare_coverage(_selection(tmp_path))
    for look in (LIGHT, DARK):
        field = draw_coverage(found, look)["data"][0]
        assert field["text"][0] == ["✓", "✗", "○"]
        assert [words for _, words in field["customdata"][0]][1].startswith("failed, trial ")
        json.dumps(field, allow_nan=False)


def test_failures_are_grouped_by_what_was_said_last(tmp_path: Path) -> None:
    table = prepare_failures(_selection(tmp_path)).table
    assert table[["state", "trials", "reason"]].to_dict("records") == [
        {"state": "failed", "trials": 10, "reason": "RuntimeError: a made-up reason, seed 1"}
    ]


def test_the_cards_tell_the_best_the_baseline_and_the_cheapest_within_the_tolerance(tmp_path: Path) -> None:
    made = Invented(score=lambda spec: 0.9 - 0.004 * spec.freeze.depth, noise=0.0)
    found = prepare_progress(_selection(tmp_path, made, PageQuery(tolerance=1.0)))
    assert found.counts == {"completed": 30}
    assert found.best.startswith("none: 90.00 % (n=3)")
    assert found.cheapest.startswith("first 2: 89.20 %")


def test_without_a_baseline_it_says_so(tmp_path: Path) -> None:
    made = Invented(state=lambda spec: None if spec.freeze.is_baseline else "completed")
    assert prepare_progress(_selection(tmp_path, made)).baseline == "none completed"


def test_a_sweep_without_a_complete_trial_still_shows_its_coverage_and_failures(tmp_path: Path) -> None:
    selection = _selection(tmp_path, Invented(state=lambda spec: "failed" if spec.seed else None))
    for part in (COVERAGE, FAILURES):
        found = compute(part, selection, LIGHT)
        assert found.why_empty == ""
        assert len(found.table) > 0


def test_the_time_left_goes_by_the_work_done_since_the_driver_began(tmp_path: Path) -> None:
    """Two thirds of equal work in a minute leave half a minute, as the terminal's ETA says."""
    selection = _selection(tmp_path, Invented(state=lambda spec: "completed" if spec.seed < 2 else None))
    assert selection.sweep is not None
    trials = selection.sweep.trials
    trials = trials.assign(time=trials["time"].where(trials["time"].isna(), pd.Timestamp.now("UTC")))
    running = replace(selection.sweep, running_since=time.time() - 60, trials=trials)
    assert prepare_progress(replace(selection, sweep=running)).left_s == pytest.approx(30, rel=0.2)
    assert prepare_progress(selection).left_s is None
