"""Limits of a launch: it stops at them, says so, and the same command resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from orchestrator.commands.launch_command import launch
from orchestrator.execution.stop_request import StopRequest
from orchestrator.forecast.forecast import Forecast
from orchestrator.session.bounds import Bounds, limit_note
from orchestrator.store import open_store
from tests.builders import write_sweep
from tests.small_sweeps import POS, write_bank
from trials.errors import ConfigError


def launched_with(folder: Path, capsys: pytest.CaptureFixture[str], **bounds: float) -> tuple[int, dict[str, int], str]:
    """Exit code, outcome and what was said."""
    text = POS.replace("folder: ", f"folder: {folder}/")
    sweep = write_sweep(folder / "s.yaml", f"{text.rstrip()}\nname: small\n")
    with pytest.raises(typer.Exit) as ended:
        launch(sweep, "inline", str(folder / "results"), as_json=True, **bounds)  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    return ended.value.exit_code, json.loads(out.strip().splitlines()[-1]), err


def test_so_many_trials_run_and_the_same_command_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    code, outcome, said = launched_with(tmp_path, capsys, max_trials=1)
    assert (code, outcome["completed"]) == (143, 1)
    assert "--max-trials 1 reached, 1 trial left; finished trials are in the store" in said
    code, outcome, said = launched_with(tmp_path, capsys, max_trials=1)
    assert (code, outcome["completed"], outcome["skipped"]) == (0, 1, 1)
    assert len(open_store(tmp_path / "results").completed_ids()) == 2


def test_hours_that_are_over_stop_at_the_next_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    code, outcome, said = launched_with(tmp_path, capsys, max_hours=1e-9)
    assert (code, outcome["completed"]) == (143, 0)
    assert "Stopping, --max-hours 1e-09 reached" in said
    assert launched_with(tmp_path, capsys)[0] == 0


def test_a_bound_that_means_nothing_is_refused_and_one_reached_with_nothing_to_go_no_interruption() -> None:
    wrong = {
        Bounds(hours=0.0): "--max-hours 0: must be above 0",
        Bounds(trials=-1): "--max-trials -1: must be above 0",
    }
    for bounds, message in wrong.items():
        with pytest.raises(ConfigError, match=message):
            bounds.check()
    stop = StopRequest()
    stop.bound = "the hour is over"
    Bounds(hours=1.0).settle(stop, left=0)
    assert not stop.asked


def test_a_bound_below_the_longest_trial_is_told_before() -> None:
    found = Forecast("s", 100.0, "cpu", 1, 1, seconds={"a": 9.0, "b": 2.0})
    assert "--max-hours 1e-06 is less than the forecast for the longest trial" in str(
        limit_note(Bounds(hours=1e-6), found)
    )
    assert limit_note(Bounds(hours=1.0), found) is None
