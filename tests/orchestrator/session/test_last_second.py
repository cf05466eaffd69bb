"""A signal at every step of a launch's last second: what was shown as done is stored, and the end is the same."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import typer

from orchestrator.commands import launch_command
from orchestrator.config.console import errors_as_exit_codes, stderr
from orchestrator.config.limits import Resources
from orchestrator.execution.recorder import Recorder
from orchestrator.session.launch_loop import Launch
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from tests.builders import first_attempts, make_record, make_spec
from tests.examples import first
from trials.record import EpochRecord
from trials.spec import TrialSpec

SPECS = tuple(make_spec(seed=seed) for seed in range(3))
SWEEP = SweepSpec(name="tiny", resources=Resources(gpus=0))
PLAN = Plan(SWEEP, "tiny.yaml", SPECS, SPECS, first_attempts(SPECS))


class Steps:
    """Our functions as they are called after the last trial has ended; `numbers` come as the chosen one begins."""

    def __init__(self, chosen: str | None = None, numbers: tuple[int, ...] = ()) -> None:
        self.seen: dict[str, None] = {}
        self._chosen, self._numbers, self._ended = chosen, numbers, 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and "/orchestrator/" in code.co_filename and "/tests/" not in code.co_filename:
            self.seen[code.co_qualname] = None
            if code.co_qualname == self._chosen:
                sys.setprofile(None)
                for number in self._numbers:
                    signal.raise_signal(number)

    def trial_ended(self) -> None:
        self._ended += 1
        if self._ended == len(SPECS):
            sys.setprofile(self)


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs the sweep with trials that take no time; returns exit code, trials in the store, and what was printed."""

    def record_at_once(spec: TrialSpec, **options: Any) -> Iterator[EpochRecord]:
        yield make_record()

    monkeypatch.setattr("trials.run.run_trial", record_at_once)
    monkeypatch.setattr(launch_command, "plan_lines", lambda *details: [])  # they read corpora, which are not there
    folders = iter(tmp_path / str(n) for n in range(10_000))

    recorded = Recorder.ended

    def end(steps: Steps) -> tuple[int, int, str]:
        def record(recorder: Recorder, *details: Any) -> None:
            recorded(recorder, *details)
            steps.trial_ended()

        monkeypatch.setattr(Recorder, "ended", record)
        results = ResultStore(next(folders))
        try:
            with errors_as_exit_codes():
                launch = Launch(find_cluster("inline"), results, stderr)
                code = launch_command._launch(launch, PLAN, pilot=False, dry_run=False, as_json=False)
        except typer.Exit as left:
            code = left.exit_code
        finally:
            sys.setprofile(None)
        printed = capsys.readouterr()
        return code, len(results.completed_ids()), printed.out + printed.err

    return end


def test_the_steps_reach_from_the_last_commit_to_the_last_line(ending: Callable[..., Any]) -> None:
    steps = Steps()
    code, n, said = ending(steps)
    assert (code, n) == (0, len(SPECS)), said
    assert steps.seen.keys() >= {"Recorder.close", "Membership.leave", "_show_done", "_say_end"}


@pytest.mark.parametrize("number", first(1, [signal.SIGTERM, signal.SIGINT]))
@pytest.mark.parametrize(
    "name",
    first(4, ["Recorder.flush", "Recorder.close", "Membership.leave", "_say_end", "PartFolder.append", "outcome_of"]),
)
def test_one_signal_in_the_last_second_changes_nothing(
    name: str, number: signal.Signals, ending: Callable[..., Any]
) -> None:
    code, n, said = ending(Steps(name, (number,)))
    assert (code, n) == (0, len(SPECS)), said
    assert "stopped" not in said


def test_a_second_one_ends_the_launch_after_the_commit(ending: Callable[..., Any]) -> None:
    code, n, said = ending(Steps("PartFolder.append", (signal.SIGINT, signal.SIGINT)))
    assert (code, n) == (130, len(SPECS)), said
    assert "Saving the last trials first" in said


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("part", range(6))
def test_at_every_step_all_trials_are_stored(part: int, n: int, ending: Callable[..., Any]) -> None:
    steps = Steps()
    ending(steps)
    # What follows the launch is outside: there a command's process keeps the handler, see test_inline.
    inside = takewhile(lambda step: step != "errors_as_exit_codes", steps.seen)
    for index, step in list(enumerate(inside))[part::6]:
        numbers = (signal.SIGINT, signal.SIGTERM) if index % 4 < 2 else (signal.SIGTERM, signal.SIGINT)
        code, stored, said = ending(Steps(step, numbers[:n]))
        assert stored == len(SPECS), (step, said)
        assert code in ((0,) if n == 1 else (0, 130, 143)), (step, said)
