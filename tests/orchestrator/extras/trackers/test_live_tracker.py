"""A tracker that fails, hangs or recovers: the sweep goes its way, and nothing is lost in silence."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.extras.trackers import live_tracker
from orchestrator.extras.trackers.live_tracker import TrackerTarget
from orchestrator.extras.trackers.tracked_run import Measured, TrackedTrial, TrialEnd
from orchestrator.monitoring.progress import Tally
from orchestrator.store import open_store
from orchestrator.sweeps.watch_spec import TRACKERS, WatchSpec
from tests.examples import each
from tests.orchestrator.extras.trackers.tracked_sweep import COMPLETE, RETRIED, SPECS, STOPPED, run_tracked

ENDED = {spec.trial_id for spec in SPECS} - {STOPPED.trial_id}


class Listed:
    """A tracker that lists what it got, once `broken` calls have failed."""

    def __init__(self, broken: int = 0) -> None:
        self.broken, self.runs, self.ended_runs = broken, dict[str, list[float]](), set[str]()
        self.documents: Mapping[str, str] = {}

    def begin(self, trial: TrackedTrial) -> None:
        self.broken -= 1
        if self.broken >= 0:
            raise ConnectionError("no route to //me:pw@host\nat all")
        self.runs[trial.trial_id] = []
        self.ended_runs.discard(trial.trial_id)

    def evaluated(self, trial: TrackedTrial, evaluation: Measured) -> None:
        self.runs[trial.trial_id].append(evaluation.metrics["score"])

    def ended(self, trial: TrackedTrial, end: TrialEnd) -> None:
        self.ended_runs.add(trial.trial_id)

    def finish(self, documents: Mapping[str, str]) -> None:
        self.documents = documents


class Stuck(Listed):
    """A tracker that never answers."""

    def begin(self, trial: TrackedTrial) -> None:
        threading.Event().wait()


def told(tracker: Listed, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a launch with this tracker says."""
    target, said = TrackerTarget("mlflow", ("--uri", "http://host"), lambda sweep: tracker), list[str]()
    monkeypatch.setattr("orchestrator.extras.trackers.live_tracker.targets_of", lambda settings: [target])
    results = run_tracked(folder, WatchSpec(tensorboard="asked"), said.append)
    assert results.completed_ids() == {COMPLETE.trial_id, RETRIED.trial_id}
    return said


@each("name", ("tensorboard", "mlflow", "wandb"), quick=1)
def test_a_tracker_needs_no_package_but_its_own(name: str) -> None:
    others = [other for other in TRACKERS if other != name]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({others})); import orchestrator.extras.trackers.{name}_tracker"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("skipped", "words"), [(0, None), (3, "3 trials")])
def test_what_an_earlier_launch_completed_is_not_sent_and_that_is_said(
    skipped: int, words: str | None, tmp_path: Path
) -> None:
    target, said = TrackerTarget("mlflow", ("--uri", "http://host"), lambda sweep: Listed()), list[str]()
    tracker = live_tracker.LiveTracker(target, "tiny", open_store(tmp_path / "store", must_exist=False), said.append)
    tracker.launched(skipped=skipped)
    at_launch = [*said]
    tracker.over(tuple, Tally(0).ending(reason=None, interrupted=False))
    start = f"watch.mlflow: {words} that the store has already will not be sent. Send all with:\n  "
    command = "export mlflow --uri http://host --sweep tiny --store "
    assert [(line.startswith(start), command in line) for line in at_launch] == ([(True, True)] if words else [])


def got_all(tracker: Listed) -> bool:
    scores = tracker.runs[COMPLETE.trial_id], tracker.runs[RETRIED.trial_id]
    return (*scores, tracker.ended_runs) == ([0.75, 0.875], [0.625, 0.75], ENDED)


@pytest.mark.parametrize("queued", [live_tracker.MOST_QUEUED, 0])  # beyond the queue, rows come from the store
def test_a_tracker_that_answers_gets_every_run_and_nothing_is_said(
    queued: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tracker, "MOST_QUEUED", queued)
    tracker = Listed()
    assert told(tracker, tmp_path, monkeypatch) == []
    assert got_all(tracker)
    assert tracker.documents.keys() == {"answer.json", "summary.md"}


def test_a_tracker_that_was_down_for_a_while_gets_the_rest_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Listed(broken=1)
    (said,) = told(tracker, tmp_path, monkeypatch)
    assert said.startswith("watch.mlflow: ConnectionError: no route to //***@host at all. The sweep continues")
    assert got_all(tracker)


def test_a_tracker_that_stays_down_is_named_once_and_at_the_end_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = told(Listed(broken=10**9), tmp_path, monkeypatch)
    assert "The sweep continues" in first
    assert "5 of 5 trials and the summary were not sent (ConnectionError: no route to //***@host at all)" in last
    assert last.endswith(f" export mlflow --uri http://host --sweep tiny --store {tmp_path / 'results'}")


def test_a_tracker_that_never_answers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tracker, "WAIT_S", 0.1)
    (last,) = told(Stuck(), tmp_path, monkeypatch)
    assert "5 of 5 trials and the summary were not sent within 0 s. Send with:" in last
