"""Limits of a launch: it stops at them, says so, and the same command resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from orchestrator.commands.launch_command import launch
from orchestrator.config.console import stderr
from orchestrator.execution.stop_request import StopRequest
from orchestrator.session.launch_loop import Launch
from orchestrator.store import open_store
from orchestrator.sweeps.cluster_spec import ClusterSpec
from tests.builders import write_sweep
from tests.small_sweeps import POS, write_bank
from trials.errors import ConfigError


def launched_with(folder: Path, capsys: pytest.CaptureFixture[str], **limits: float) -> tuple[int, dict[str, int], str]:
    """Exit code, outcome and what was said."""
    text = POS.replace("folder: ", f"folder: {folder}/")
    sweep = write_sweep(folder / "s.yaml", f"{text.rstrip()}\nname: small\n")
    with pytest.raises(typer.Exit) as ended:
        launch(sweep, "inline", str(folder / "results"), as_json=True, **limits)  # type: ignore[arg-type]
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


def test_hours_that_are_over_stop_at_the_next_evaluation_and_too_few_for_a_trial_are_told_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    launched_with(tmp_path, capsys, max_trials=1)
    code, outcome, said = launched_with(tmp_path, capsys, max_hours=1e-9)
    assert (code, outcome["completed"]) == (143, 0)
    assert "note    --max-hours 1e-09 is less than the forecast for the longest trial" in said
    assert "Stopping, to keep to --max-hours 1e-09" in said
    code, _, said = launched_with(tmp_path, capsys, max_hours=1.0)
    assert (code, "less than the forecast" in said) == (0, False)


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"max_hours": 0.0}, "--max-hours 0: must be above 0"), ({"max_trials": -1}, "--max-trials -1: must be above 0")],
)
def test_a_limit_that_means_nothing_is_refused(tmp_path: Path, limits: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Launch.begin(ClusterSpec(), str(tmp_path / "results"), stderr, **limits)


def test_a_limit_reached_with_no_trial_left_is_no_interruption() -> None:
    stop = StopRequest()
    stop.bound = "the hour is over"
    stop.settle(all_ran=False, left=0, max_trials=3)
    assert not stop.asked
