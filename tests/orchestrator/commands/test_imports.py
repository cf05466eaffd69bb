"""What loads what: a plan, a status and a help text come without torch, transformers or Ray."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from orchestrator.store import ResultStore

NO_FRAMES = {"pandas", "scipy", "pyarrow", "pydantic", "numpy"}
OBJECT_STORES = {"obstore", "boto3", "botocore"}
HEAVY = {"torch", "transformers", "ray", "pandas", "datasets"}


def test_importing_the_contracts_and_the_entry_points_loads_nothing_heavy() -> None:
    modules = "trials.spec, trials.record, trials.draft, orchestrator.store, orchestrator.launch, orchestrator.status"
    assert not _loaded_by(f"import {modules}") & HEAVY


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = "from dashboards.cli import app; app(['--help'], standalone_mode=False)"
    loaded = _loaded_by(code)
    assert not loaded & (HEAVY | NO_FRAMES | OBJECT_STORES)
    assert not any(name.startswith(("orchestrator.store", "trials", "dashboards.commands")) for name in loaded)


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    from orchestrator.commands.app import app

    app(["--version"], standalone_mode=False)
    assert capsys.readouterr().out == f"permafrost {version('permafrost-sweeps')}\n"


def test_listing_the_trials_of_a_store_loads_no_frames(tmp_path: Path) -> None:
    ResultStore(tmp_path).create()
    code = f"from dashboards.cli import app; app(['status', '--trials', '--store', {str(tmp_path)!r}])"
    assert not _loaded_by(code) & (HEAVY | {"scipy"})


def test_a_store_is_planned_against_without_frames(tmp_path: Path) -> None:
    code = "from orchestrator.launch import launch, run; run(launch)"
    loaded = _loaded_by(code, "--dry-run", "--store", str(tmp_path / "store"))
    assert not loaded & (HEAVY | OBJECT_STORES | {"scipy", "optuna"})


def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help() -> None:
    import dashboards.cli  # noqa: F401  # adds its commands
    from orchestrator.commands.app import COMMANDS, GROUPS, load_command

    for name, (_, summary, _) in (COMMANDS | GROUPS).items():
        assert load_command(name).help.split("\n\n")[0].replace("\n", " ") == summary


def _loaded_by(code: str, *arguments: str) -> set[str]:
    """The modules that a program has loaded when it ends."""
    listing = "import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr)); "
    words = [sys.executable, "-c", listing + code, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("loaded ")[2].split())


@pytest.mark.slow  # the launch of `end_to_end/test_inline.py` is silent, too
def test_the_orchestrator_is_silent_when_imported() -> None:
    code = "import orchestrator.launch, trials.run"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
