"""The help of every command can be shown: brackets in it are not taken for markup that never ends."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.commands.app import COMMANDS, GROUPS
from tests.examples import each

RUN = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})
NAMES = re.findall(r"^│ ([a-z][a-z-]+) ", RUN.invoke(app, ["--help"]).output, re.MULTILINE)


@each(
    "words",
    [*([name] for name in NAMES), ["data", "fetch"], ["store", "verify"], ["export", "figure"], ["export", "model"]],
)
def test_a_command_shows_its_help(words: list[str]) -> None:
    told = RUN.invoke(app, [*words, "--help"])
    assert told.exit_code == 0, told.output
    assert set(NAMES) == {name for name in (*COMMANDS, *GROUPS) if " " not in name}
