"""A plan that grows adds no error: its decisions go by the seeds that were planned when it was first looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboards.views.kit.cards import answers_of_page
from orchestrator.api import answer
from orchestrator.api.answering import answers_of
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.store import ResultStore
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import make_record, write_sweep, write_treebank
from tests.dashboards.views.made import selected
from trials.draft import Lookup
from trials.record import State


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    folder = write_treebank(tmp_path / "tiny")
    text = f"trial: {{data: {{folder: {folder}}}}}\nspace: {{freeze: [none, all_encoder]}}\nseeds: [0, 1, 2]"
    return write_sweep(tmp_path / "s.yaml", text)


def launched(sweep: Path, store: ResultStore, seeds: int, *settings: str, runs: int | None = None) -> Plan:
    """The plan of a launch with so many seeds, of which it runs the first `runs`, or all."""
    plan = make_plan(*load_sweep(sweep, [f"seeds={[*range(seeds)]}", *settings]), store, Lookup(offline=True))
    store.create()
    store.add_plan(plan.stored_plan())
    recorder = Recorder(store)
    for spec in plan.to_run if runs is None else [spec for spec in plan.to_run if spec.seed < runs]:
        lost = 0.0 if spec.freeze.is_baseline else float(np.random.default_rng(spec.seed).normal(0.002, 0.004))
        recorder.started(spec, 1)
        recorder.evaluated(spec, make_record(score=0.9 - lost))
        recorder.ended(End(spec, State.COMPLETED))
    recorder.close()
    return plan


def goals(store: ResultStore) -> list[dict[str, Any]]:
    return [plan.goal for plan in store.sweeps()]


def test_seeds_that_are_added_after_looks_decide_as_beyond_the_first_plan_on_every_surface(
    sweep: Path, store: ResultStore
) -> None:
    for seeds in (3, 5, 8):
        plan = launched(sweep, store, seeds)
        assert store.sweeps()[0].decision_plan.looks(seeds).planned == 3
    (told,), (by_three,), (by_eight,) = (answer(str(store.address), most_seeds=n) for n in (None, 3, 8))
    assert told.as_json() == by_three.as_json()
    assert by_eight.decided_by.looks.planned == 8
    assert by_three.decided_by.table["high"].item() > by_eight.decided_by.table["high"].item()
    (of_launch,) = answers_of(store, plan.trials, plan.sweep.decision_plan)
    (of_page,) = answers_of_page(selected(store)).answers
    assert of_launch.as_json() == of_page.as_json() == told.as_json()


def test_the_launch_says_so_and_the_same_file_again_declares_nothing_new(sweep: Path, store: ResultStore) -> None:
    assert not [note for note in launched(sweep, store, 3).notes if "planned before" in note]
    assert launched(sweep, store, 5).notes[-1].startswith("3 seeds were planned before any loss was seen, ")
    before = store.storage.subfolder("sweeps").subfolder("tiny").files()
    assert launched(sweep, store, 5).notes[-1].startswith("3 seeds were planned before any loss was seen, ")
    assert store.storage.subfolder("sweeps").subfolder("tiny").files() == before
    assert goals(store) == [{"most_seeds": 3}]


@pytest.mark.parametrize("runs", [0, 2])
def test_a_plan_that_nobody_could_look_at_binds_none(sweep: Path, store: ResultStore, runs: int) -> None:
    launched(sweep, store, 3, runs=runs)
    launched(sweep, store, 5)
    assert goals(store) == [{}]
    launched(sweep, store, 8, runs=0)
    assert goals(store) == [{"most_seeds": 5}]


def test_a_number_in_the_file_counts_and_other_settings_begin_anew(sweep: Path, store: ResultStore) -> None:
    launched(sweep, store, 3)
    launched(sweep, store, 5, "goal={most_seeds: 5}")
    assert goals(store) == [{"most_seeds": 5}]
    launched(sweep, store, 8, "trial.optim.lr=1e-4", runs=0)
    assert goals(store) == [{}]
