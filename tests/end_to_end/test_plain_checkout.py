"""A checkout that nobody installed: its dependencies are there, its own metadata is not."""

from __future__ import annotations

import subprocess
from importlib.metadata import distributions
from pathlib import Path

import trials
from tests.end_to_end.conftest import environment
from tests.linked_environment import OURS, linked_environment

CHECKOUT = Path(__file__).parents[2]
ASK = "from dashboards.cli import app; app(['--version'])"


def test_it_knows_its_version(tmp_path: Path) -> None:
    python = linked_environment(tmp_path / "venv", {found.metadata["Name"] for found in distributions()} - {OURS})
    variables = environment() | {"PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run([python, "-c", ASK], cwd=tmp_path, capture_output=True, text=True, env=variables)
    assert done.stdout == f"permafrost {trials.__version__}\n", done.stderr
