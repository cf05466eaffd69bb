"""The core runs without `orchestrator/extras/`: a copy of the tree from which the folder was deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_sweep_runs_and_is_answered_in_a_copy_without_extras(tmp_path: Path) -> None:
    for root in ("orchestrator", "trials", "configs"):
        shutil.copytree(ROOT / root, tmp_path / root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "orchestrator" / "extras")
    launched = _run(tmp_path, "launch", "--max-trials", "1", "--cluster", "inline", "--store", "results")
    assert launched.returncode == 143, launched.stderr  # at its limit
    assert "112 trials, 1 completed" in _run(tmp_path, "status", "--store", "results").stdout


def _run(tree: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-m", f"orchestrator.{command}", *arguments]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
