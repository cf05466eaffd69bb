"""The commands that show what a store holds, called as a person calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from tests.dashboards.stores import STRATEGIES, specs, write_store
from tests.examples import each


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_store(tmp_path_factory.mktemp("commands") / "store", specs(seeds=(0, 1, 2))).root)


def _run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


@each("command", ["launch", "status", "dashboard", "report", "export figure"])
def test_every_commands_help_opens_with_two_examples(command: str) -> None:
    code, said = _run(*command.split(), "--help")
    assert code == 0
    assert said.count(f"permafrost {command}") >= 2


def test_a_report_replaces_an_older_one_and_ends_with_the_path_of_the_file_to_open(tmp_path: Path) -> None:
    trials = specs(seeds=(0, 1), train_sizes=(200,), strategies=STRATEGIES[:2])
    store = str(write_store(tmp_path / "s", trials).root)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "report.html").write_text("of yesterday")
    code, said = _run("report", "--store", store, "-o", str(tmp_path / "r"), "--no-pictures")
    assert code == 0
    assert said.splitlines()[-1] == str(tmp_path / "r" / "report.html")
    assert "which replace an older report" in said


def test_a_folder_with_something_else_is_not_reported_into(store: str, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "notes.md").write_text("mine")
    code, said = _run("report", "--store", store, "-o", str(tmp_path / "thesis"), "--no-pictures")
    assert (code, (tmp_path / "thesis" / "notes.md").read_text()) == (4, "mine")
    assert "already exists and holds no report" in said


def test_a_dashboard_of_no_store_and_one_for_everybody_are_refused(store: str, tmp_path: Path) -> None:
    code, said = _run("dashboard", str(tmp_path / "gone"))
    assert (code, "no store there" in said) == (3, True)
    code, said = _run("dashboard", store, "--host", "0.0.0.0", "--no-token")
    assert (code, "needs a token" in said) == (4, True)
