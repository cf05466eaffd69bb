"""The command `status`: sweeps and their states, and with --trials every trial."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, select
from dashboards.views.coverage import prepare_progress
from orchestrator.commands.app import app
from orchestrator.store import ResultStore, open_store
from tests.builders import make_spec
from tests.dashboards.stores import specs, write_store
from tests.drivers import running
from tests.orchestrator.store.rows import epoch, plan_of, trial
from trials.spec import TrialSpec

DONE, FAILED, LATER = (make_spec(seed=seed, data={"name": "a-[bank]"}) for seed in (0, 1, 2))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """Of three planned trials one is completed, one has failed and one has not begun."""
    store = open_store(tmp_path / "results", must_exist=False)
    figures: dict[str, Any] = {"best_score": 0.96125, "train_s": 2.0, "total_params": 1000, "trainable_params": 250}
    failed = trial(FAILED.trial_id, state="failed", spec=FAILED.model_dump_json(), error="boom")
    store.append("trials", [failed, trial(DONE.trial_id, spec=DONE.model_dump_json(), **figures)])
    store.add_plan(plan_of(DONE, FAILED, LATER, name="mine", time=0.0))
    return store


def status(store: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["status", "--store", str(store), *words])


def test_every_trial_is_listed_with_id_state_score_and_label(store: ResultStore) -> None:
    done = status(store.root, "--trials")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{DONE.trial_id}  completed       96.12  a-[bank]_none_n200_s0_{DONE.trial_id[:6]}",
        f"{FAILED.trial_id}  failed                 a-[bank]_none_n200_s1_{FAILED.trial_id[:6]}",
    ]
    rows = json.loads(status(store.root, "--trials", "--json").stdout)["trials"]
    assert [row.pop("costs")["train_s"] for row in rows] == [2.0, None]
    assert rows == [
        {"trial_id": DONE.trial_id, "state": "completed", "score": 0.96125, "label": DONE.label, "froze": ""},
        {"trial_id": FAILED.trial_id, "state": "failed", "score": None, "label": FAILED.label, "froze": ""},
    ]


def _evaluated(store: ResultStore, *scores: float, attempt: int = 1, spec: TrialSpec = LATER) -> None:
    """Evaluations of a trial that has not ended."""
    points = enumerate(scores, start=1)
    store.append("epochs", [epoch(spec.trial_id, attempt, n, epoch=float(n), score=score) for n, score in points])


def test_a_trial_that_has_not_ended_is_listed_with_its_newest_evaluation_and_runs_where_a_driver_claimed_it(
    store: ResultStore,
) -> None:
    _evaluated(store, 0.5, 0.6, 0.65)
    line = status(store.root, "--trials").stdout.splitlines()[-1]
    assert line == f"{LATER.trial_id}  interrupted     65.00  {LATER.label}  epoch 3/5"
    last = json.loads(status(store.root, "--trials", "--json").stdout)["trials"][-1]
    assert (last["state"], last["score"], last["epoch"], last["epochs"]) == ("interrupted", 0.65, 3.0, 5)
    with running(store.storage, "mine", LATER.trial_id):
        assert status(store.root, "--trials").stdout.splitlines()[-1] == line.replace("interrupted", "running    ")


def test_while_a_driver_runs_the_time_left_is_shown(store: ResultStore) -> None:
    """The one trial that runs takes a minute an epoch; its fourth of five has just ended."""
    just_now = int((time.time() + 3600) * 1e6)  # not past while the test runs, however slow
    rows = [epoch(LATER.trial_id, 1, n, epoch=float(n), train_s=50.0, eval_s=10.0, time=just_now) for n in range(1, 5)]
    store.append("epochs", rows)
    assert "time left" not in status(store.root).stdout
    with running(store.storage, "mine", LATER.trial_id):
        assert "\ntime left: 1 min 0 s\n" in status(store.root).stdout
        expected = prepare_progress(select(Frames(store).refresh(), PageQuery())).time_left
    assert expected == "1 min 0 s"  # on the dashboard as well


def test_a_sweep_is_shown_with_its_states_and_one_by_its_name(store: ResultStore) -> None:
    done = status(store.root)
    assert done.exit_code == 0
    assert done.stdout.startswith("sweep mine: 3 trials, 1 completed, 1 failed\n")
    assert f"2 trials in {store.root}" in done.stdout
    found = json.loads(status(store.root, "--json").stdout)
    counts = {"name": "mine", "planned": 3, "cells": 1, "states": {"completed": 1, "failed": 1}}
    counts |= {"note": ""}
    assert found == {"store": str(store.root), "sweeps": [counts]}
    store.add_plan(plan_of(name="other"))
    assert "sweep mine" not in status(store.root, "--sweep", "other").stdout
    assert status(store.root, "--sweep", "missing").exit_code == 5


def test_trials_of_an_earlier_version_of_a_sweep_are_counted_and_shown_on_demand(store: ResultStore) -> None:
    store.add_plan(plan_of(FAILED, LATER, name="mine"))
    assert "note: 1 trial of an earlier version of `mine` is not shown (status --all)" in status(store.root).stdout
    shown = status(store.root, "--all").stdout
    assert "earlier version" not in shown
    assert "sweep mine: 3 trials, 1 completed, 1 failed" in shown


def test_many_sweeps_are_summarised_as_each_alone(tmp_path: Path) -> None:
    """One shares settings with another; one has no baseline at the rates of its settings."""
    baseline, *frozen = specs(seeds=[0], train_sizes=[900])
    sweeps = [specs(seeds=range(2), train_sizes=[size]) for size in (200, 300)]
    sweeps += [specs(seeds=[5], train_sizes=[300]), [baseline, *(spec.with_rate(2e-3) for spec in frozen)]]
    for number, planned in enumerate(sweeps):
        write_store(tmp_path / "results", planned, sweep=f"sweep-{number}")
    store = open_store(tmp_path / "results")
    together = status(store.root).stdout.splitlines()
    alone = [line for n in range(4) for line in status(store.root, "--sweep", f"sweep-{n}").stdout.splitlines()[:-1]]
    assert together[:-1] == alone
