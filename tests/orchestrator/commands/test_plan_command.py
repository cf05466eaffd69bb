"""`permafrost plan`: what would run, and the forecast, on a screen and for machines; nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from orchestrator.commands.launch_command import launch
from orchestrator.commands.plan_command import plan
from orchestrator.config.quantities import duration, energy, size
from orchestrator.forecast.forecast import Figure, Forecast
from orchestrator.store import ResultStore
from tests.builders import write_sweep
from tests.orchestrator.store.real import Real
from tests.small_sweeps import POS


def next_sweep(trained: ResultStore, seeds: str) -> Path:
    folder = trained.root.parent
    text = POS.replace("folder: ", f"folder: {folder}/").replace("[0, 1]", seeds)
    return write_sweep(folder / "next.yaml", f"{text.rstrip()}\nname: next\n")


def test_for_machines_the_plan_is_one_object(trained: ResultStore, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(trained.root.rglob("*"))
    plan(next_sweep(trained, "[1, 2, 3]"), "inline", trained.address, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["trials"], found["complete"], found["to_run"], found["epochs"], found["steps"]) == (3, 1, 2, 4, 8)
    assert found["forecast"]["wall_s"]["low"] < found["forecast"]["wall_s"]["high"]
    assert (found["forecast"]["n_trials"], found["forecast"]["source"]) == (2, "from 2 trials on this device")
    assert sorted(trained.root.rglob("*")) == before


def test_an_interrupted_trial_is_said_to_resume_at_its_checkpoint(
    real: Real, capsys: pytest.CaptureFixture[str]
) -> None:
    plan(real.sweep, "inline", str(real.store))
    shown = capsys.readouterr().out
    assert (
        "3 = 1 setting x 3 seeds; 2 complete in the store, 1 to run, 1 of them from a checkpoint (epoch 1/2)" in shown
    )
    assert "work    1 epoch," in shown
    assert "2 of 3" in shown


def test_for_a_person_it_stands_on_a_screen_with_its_sources(
    trained: ResultStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan(next_sweep(trained, "[2, 3]"), "inline", trained.address)
    shown = capsys.readouterr().out
    assert "wall time, 1 slot" in shown
    assert "estimated from 2 trials on this device" in shown
    lines = shown.splitlines()
    assert len([line for line in lines if not line.startswith(("data ", "note "))]) <= 24
    assert [line.startswith("data    e.g. ") for line in lines].count(True) == 3
    plan(next_sweep(trained, "[2]"), "inline", str(tmp_path / "empty"))
    shown = " ".join(capsys.readouterr().out.split())
    assert "forecast unknown until a trial has run on cpu" in shown
    assert "; --pilot runs one" in shown
    plan(next_sweep(trained, "[0]"), "inline", trained.address)
    assert "nothing to run and nothing to forecast" in capsys.readouterr().out


@pytest.mark.slow
def test_an_included_sweep_goes_by_its_name_and_its_trials_are_counted_without_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    with pytest.raises(typer.Exit) as ended:
        plan(Path("emekaeze_pos"), "inline", str(tmp_path / "store"), offline=True)
    first, *problems = capsys.readouterr().err.splitlines()
    assert ended.value.exit_code == 3
    assert first == "emekaeze-pos declares 50 trials (10 settings); not checked further, as files are missing."
    assert "UD_English-EWT 2.16 is not on this machine" in " ".join(problems)


def test_a_launch_with_a_pilot_has_the_forecast_that_the_message_without_promises(
    trained: ResultStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for pilot in (False, True):
        with pytest.raises(typer.Exit):
            launch(next_sweep(trained, "[2]"), "inline", str(tmp_path / "empty"), dry_run=True, pilot=pilot)
        shown.append(" ".join(capsys.readouterr().err.split()))
    assert ["; --pilot runs one" in each for each in shown] == [True, False]
    assert "wall time, 1 slot" in shown[1]
    assert "estimated from pilots of 1 shape" in shown[1]


def test_a_forecast_durations_sizes_and_energies_are_told_as_people_do() -> None:
    found = Forecast("s", 100.0, "cpu", 1, 3, source="from a test", wall_s=Figure(32.0, 40.0, 50.0))
    assert found.line == "forecast 32 - 50 s on cpu (from a test)"
    assert len(list(found.parts())) == 1
    times = {0.2: "0.2 s", 59.6: "60 s", 60: "1 min 0 s", 75.4: "1 min 15 s", 3_599.7: "1 h 0 min", 90_000: "1 d 1 h"}
    assert {seconds: duration(seconds) for seconds in times} == times
    assert (size(523_000), size(1.14e9), size(12)) == ("523 kB", "1.14 GB", "12 B")
    assert (energy(430.0), energy(3.6e6)) == ("430 J", "1 kWh")
