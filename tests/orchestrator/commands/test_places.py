"""What `--store` and `--sweep` name is given by position, too: one grammar for all commands."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner, Result

from dashboards.cli import app
from orchestrator.commands.app import COMMANDS, GROUPS, PANELS
from tests.examples import each
from tests.orchestrator.store.real import Real


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("command", ["answer", "status"])
def test_a_store_and_a_sweep_by_position_are_those_of_the_options(real: Real, command: str) -> None:
    store = str(real.store)
    by_option = run(command, "--store", store, "--sweep", "small", "--json")
    assert by_option.exit_code == 0
    assert run(command, store, "small", "--json").stdout == by_option.stdout
    assert run(command, store, "--sweep", "small", "--json").stdout == by_option.stdout


def test_a_sweep_that_runs_is_a_file(real: Real) -> None:
    by_option = run("plan", "--sweep", str(real.sweep), "--store", str(real.store), "--cluster", "inline")
    assert run("plan", str(real.sweep), "--store", str(real.store), "--cluster", "inline").stdout == by_option.stdout


@each("command", ["answer", "status", "dashboard", "report", "compare"])
def test_every_command_that_reads_takes_a_store_by_position(command: str) -> None:
    words = [*(["--study", "emekaeze_pos"] if command == "compare" else []), "no-such-store"]
    done = run(command, *words)
    assert (done.exit_code, "no-such-store" in done.output) == (3, True)


@pytest.mark.parametrize("words", [[], ["small"], ["--sweep", "small"]])
def test_stop_takes_a_store_and_a_sweep_like_the_commands_that_read(real: Real, words: list[str]) -> None:
    assert run("stop", "no-such-store", *words).exit_code == 3
    assert run("stop", str(real.store), *words).exit_code == 5  # nothing runs


def test_the_name_of_a_sweep_in_place_of_a_store_is_told(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(real.store.parent)
    monkeypatch.setattr("orchestrator.commands.places.DEFAULT_STORE", real.store.name)
    for command in ("answer", "status", "report", "stop"):
        done = run(command, "small")
        assert (done.exit_code, f"`{real.store.name} small`" in done.output) == (2, True)


def test_two_different_stores_are_refused(real: Real) -> None:
    done = run("answer", str(real.store), "--store", "other")
    assert done.exit_code == 2
    assert "give one" in done.output


def test_a_sweep_that_a_store_lacks_ends_with_5_on_every_command_that_reads(real: Real) -> None:
    assert {run(command, str(real.store), "other").exit_code for command in ("answer", "status", "report")} == {5}


def test_help_lists_every_command_in_one_of_five_panels() -> None:
    shown = run("--help").output
    assert [panel for panel in PANELS if f"─ {panel} ─" not in shown] == []
    assert [name for name in (*COMMANDS, *GROUPS) if " " not in name and f"│ {name} " not in shown] == []


def test_export_has_what_can_be_written() -> None:
    shown = run("export", "--help").output
    for name in ("figure", "model", "tables", "mlflow", "tensorboard", "wandb"):
        assert f"│ {name} " in shown
