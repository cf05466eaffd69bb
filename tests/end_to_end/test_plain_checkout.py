"""A checkout that nobody installed: its dependencies are there, its own metadata is not."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import distributions
from pathlib import Path

import trials
from tests.end_to_end.conftest import environment
from tests.linked_environment import OURS, linked_environment

CHECKOUT = Path(__file__).parents[2]
ASK = """
from dashboards.cli import app
try:
    app(["--version"])
except SystemExit:
    pass
app(["doctor", "--json"])
"""


def test_it_knows_its_version_and_what_it_requires(tmp_path: Path) -> None:
    python = linked_environment(tmp_path / "venv", {found.metadata["Name"] for found in distributions()} - {OURS})
    variables = environment() | {"PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run([python, "-c", ASK], cwd=tmp_path, capture_output=True, text=True, env=variables)
    version, checked = done.stdout.split("\n", 1)
    assert version == f"permafrost {trials.__version__}", done.stderr
    (packages,) = [each for each in json.loads(checked)["findings"] if each["check"] == "packages"]
    assert (packages["level"], "torch" in packages["what"]) == ("ok", True)
