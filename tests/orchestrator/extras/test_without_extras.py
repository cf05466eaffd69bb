"""The core runs without `orchestrator/extras/`, and all else without any one of its folders: copies of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import each

ROOT = Path(__file__).parents[3]
EXTRAS = sorted(path.name for path in (ROOT / "orchestrator" / "extras").glob("[a-z]*") if path.is_dir())
EVERYTHING = """
import pkgutil, sys, orchestrator, trials, dashboards
from importlib import import_module
for root in (orchestrator, trials, dashboards):
    for module in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
from dashboards.cli import COMMANDS
from orchestrator.commands.app import GROUPS, load_command
print(*(load_command(name).name for name in (*COMMANDS, *GROUPS)), *dashboards.views.registry.PARTS)
"""


def copied(tree: Path, *without: str) -> Path:
    for root in ("orchestrator", "trials", "dashboards", "configs"):
        shutil.copytree(ROOT / root, tree / root, ignore=shutil.ignore_patterns("__pycache__"))
    for name in without:
        shutil.rmtree(tree / "orchestrator" / name)
    return tree


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, "-P", *words], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_sweep_runs_and_is_answered_in_a_copy_without_extras(tmp_path: Path) -> None:
    tree = copied(tmp_path, "extras")
    words = ("--max-trials", "1", "--cluster", "inline", "--store", "results")
    launched = run(tree, "-m", "orchestrator.launch", *words)
    assert launched.returncode == 143, launched.stderr  # at its limit
    assert "112 trials, 1 completed" in run(tree, "-m", "orchestrator.status", "--store", "results").stdout


@each("extra", EXTRAS, quick=1)
def test_every_module_imports_and_every_command_loads_without_an_extra(extra: str, tmp_path: Path) -> None:
    done = run(copied(tmp_path, f"extras/{extra}"), "-c", EVERYTHING)
    assert done.returncode == 0, done.stderr
    assert {"launch", "answer", "report", "model"} <= set(done.stdout.split())
    assert ("layers-curves" in done.stdout) == (extra != "layer_probing")
