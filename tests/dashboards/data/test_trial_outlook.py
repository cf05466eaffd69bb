"""The page of a trial says how it will end, and whether another epoch would have helped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dashboards.data.frames import Frames, Snapshot
from dashboards.data.trial_outlook import trial_outlook
from dashboards.views.theme import LIGHT
from dashboards.views.trial_page import curve_figure, trial_page
from orchestrator.forecast.curve import Outlook
from orchestrator.forecast.figure import Figure
from orchestrator.forecast.outlook import end_sentence, more_sentence
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan
from orchestrator.store.schema import State
from tests.builders import make_spec
from tests.drivers import running
from tests.orchestrator.forecast.real_curves import CURVES
from tests.orchestrator.store.rows import epoch, trial
from trials.spec import TrialSpec

SPECS = [make_spec(seed=seed, optim={"epochs": 9}) for seed in range(6)]
RUNNING, FAILED, *DONE = SPECS


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """Four complete trials, one that has failed, and one after three of nine epochs."""
    store = open_store(tmp_path / "results", must_exist=False)
    store.add_plan(SweepPlan("mine", 0.0, "mine.yaml", tuple((s.trial_id, s.model_dump(mode="json")) for s in SPECS)))
    for spec, curve in zip(SPECS, CURVES.values(), strict=False):
        n = 9 if spec in DONE else 3
        scores = enumerate(curve.scores[:n], start=1)
        rows = [epoch(spec.trial_id, 1, step, epoch=float(step), score=score, accuracy=score) for step, score in scores]
        store.append("epochs", rows)
    for spec in (FAILED, *DONE):
        state = State.FAILED if spec is FAILED else State.COMPLETED
        figures: dict[str, Any] = {"best_score": 0.8, "best_epoch": 9.0, "last_epoch": 9.0, "train_s": 2.0}
        store.append("trials", [trial(spec.trial_id, state=state.value, spec=spec.model_dump_json(), **figures)])
    return store


def told(snapshot: Snapshot, spec: TrialSpec) -> tuple[Outlook | None, pd.DataFrame]:
    """The outlook of a trial, and its evaluations."""
    row = snapshot.trial(spec.trial_id)
    assert row is not None
    trials = snapshot.sweeps[row["sweep"]].trials
    epochs = snapshot.epochs(trials[trials["trial_id"] == spec.trial_id])
    return trial_outlook(snapshot, row, epochs), epochs


def test_a_running_trial_is_drawn_on_to_its_end_with_a_dotted_band(store: ResultStore) -> None:
    with running(store.storage, "mine", RUNNING.trial_id):
        found, epochs = told(Frames(store).refresh(), RUNNING)
    figure = curve_figure(epochs, LIGHT, found)
    band, line = figure["data"][-2:]
    assert (band["line"]["dash"], line["line"]["dash"], line["x"]) == ("dot", "dot", [3, 4, 5, 6, 7, 8, 9])
    assert line["y"][0] == round(100 * epochs["score"].iloc[-1], 4)
    assert len(band["x"]) == len(band["y"]) == 2 * len(line["x"])
    json.dumps(figure, allow_nan=False)


def test_its_page_says_where_it_will_end_and_what_another_epoch_is_worth(store: ResultStore) -> None:
    frames = Frames(store)
    page = str(trial_page(frames.refresh(), RUNNING.trial_id, LIGHT))
    assert "Expected best score by epoch 9:" in page
    assert "estimated from its own curve and 4 other trials." in page
    assert "Planning one more epoch would gain about" in page


def test_the_page_of_a_complete_trial_says_whether_another_epoch_would_have_helped(store: ResultStore) -> None:
    frames = Frames(store)
    page = str(trial_page(frames.refresh(), DONE[0].trial_id, LIGHT))
    assert "Expected best score" not in page
    assert "score to come" not in page
    assert page.count("Another epoch") == 1


def test_of_a_failed_trial_nothing_is_told(store: ResultStore) -> None:
    assert told(Frames(store).refresh(), FAILED)[0] is None


def _outlook(low: float, median: float, high: float, *, over: bool) -> Outlook:
    end = Figure(0.8, 0.81, 0.82, "from its own curve")
    ahead = () if over else (9.0,)
    return Outlook(ahead, () if over else (end,), end, Figure(low, median, high, end.source), end.source)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((0.001, 0.003, 0.006), "likely have helped: about +0.3 points (80 % interval +0.1 to +0.6)"),
        ((-0.004, -0.0001, 0.0004), "hardly have helped: about 0.0 points (80 % interval -0.4 to 0.0)"),
        ((-0.001, 0.001, 0.004), "might have helped: about +0.1 points (80 % interval -0.1 to +0.4)"),
    ],
)
def test_the_sentence_of_a_complete_trial_follows_its_interval(more: tuple[float, float, float], said: str) -> None:
    assert said in more_sentence(_outlook(*more, over=True))


def test_of_a_running_trial_the_worth_is_told_without_a_verdict() -> None:
    found = _outlook(-0.001, 0.001, 0.004, over=False)
    assert more_sentence(found).startswith(
        "Planning one more epoch would gain about +0.1 points (80 % interval -0.1 to +0.4)."
    )
    assert end_sentence(found) == (
        "Expected best score by epoch 9: 81.00 points (80 % interval 80.00 to 82.00), estimated from its own curve."
    )


def test_of_what_is_not_known_there_are_no_words() -> None:
    assert (end_sentence(None), more_sentence(None)) == ("", "")
