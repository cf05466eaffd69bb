"""What an extra installs is missed in one line, which says what needs it and how to get it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.store import open_store
from tests.examples import each
from trials.errors import ConfigError, require

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PACKAGES = [Requirement(text).name.replace("-", "_") for name in ("dashboard", "hub", "lora", "s3", "search")
            for text in EXTRAS[name]]  # fmt: skip
# All that a trial, a plan and a launch may import, where none of the packages can be.
PROGRAM = """
import importlib, pkgutil, sys
without = sys.argv[1:]
sys.modules.update(dict.fromkeys(without))
for name in ("trials", "orchestrator.sweeps", "orchestrator.session", "orchestrator.execution",
             "orchestrator.ray_engine", "orchestrator.engines", "orchestrator.api", "orchestrator.commands"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        if module.name not in ("trials.__main__", "trials.models.adapters"):
            importlib.import_module(module.name)
"""


@pytest.mark.slow
def test_trials_plans_and_launches_import_no_package_of_an_extra() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *PACKAGES], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@each("words", ["dashboard", "demo", "report", "export figure depth-strip"])
def test_commands_that_draw_say_which_extra_they_need(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setitem(sys.modules, "dash", None)
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert "needs dash, which is not installed. Run: pip install 'permafrost-sweeps[dashboard]'" in done.output


def test_a_store_in_a_bucket_says_which_extra_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match=r"^a store at s3:// needs obstore, .*permafrost-sweeps\[s3\]'$"):
        open_store("s3://bucket/results")


def test_a_folder_that_has_the_name_of_a_package_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain_folder").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="not installed"):
        require("plain_folder", "x", "this")
    require("json", "x", "this")
