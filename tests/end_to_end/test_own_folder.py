"""In a folder that has modules of our packages' names, Permafrost runs its own code, however it is started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from orchestrator.store import open_store
from tests.builders import write_sweep
from tests.end_to_end.conftest import environment
from tests.examples import first
from tests.plugin_packages import install

THEIRS = "raise SystemExit('the module of the folder was imported')\n"
SWEEP = """
trial: {data: UD_English-EWT-sample, train_size: 20, max_length: 24, optim: {epochs: 1}}
space: {freeze: FREEZES}
plugins: freeze_ends
"""
SCRIPT = """
import sys
from orchestrator import api
(api.plan if "plan" in sys.argv else api.launch)("own.yaml", store="store")
from dashboards.notebook import figure
from trials.spec import TrialSpec
"""
CONSOLE = (str(Path(sys.executable).with_name("permafrost")), "launch", "--sweep", "own.yaml", "--store", "store")
MODULE = ("-m", "orchestrator.launch", "--sweep", "own.yaml", "--store", "store")


def own_folder(folder: Path, *, all_three: bool = False, freezes: str = "[none, {strategy: ends, depth: 2}]") -> Path:
    """With a plug-in and a sweep, and `trials.py` and `dashboards/`; with `all_three` packages of each of our names."""
    install(folder)
    write_sweep(folder / "own.yaml", SWEEP.replace("FREEZES", freezes))
    (folder / "run.py").write_text(SCRIPT)
    for name in ("trials", "dashboards", "orchestrator") if all_three else ("dashboards",):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(THEIRS)
    if not all_three:
        (folder / "trials.py").write_text(THEIRS)
    return folder


def started(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def in_kernel(folder: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SCRIPT)])
    client = NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment())


@pytest.mark.parametrize(
    ("all_three", "words"),
    [
        (True, (*CONSOLE, "--dry-run")),
        pytest.param(False, (sys.executable, *MODULE, "--dry-run"), marks=pytest.mark.slow),
        pytest.param(False, (sys.executable, "run.py", "plan"), marks=pytest.mark.slow),
    ],
)
def test_every_way_to_start_imports_our_packages(all_three: bool, words: tuple[str, ...], tmp_path: Path) -> None:
    started(own_folder(tmp_path, all_three=all_three), *words)  # fails unless it exits with 0


def test_a_module_of_our_name_that_was_imported_before_is_named(tmp_path: Path) -> None:
    (tmp_path / "trials.py").write_text("")
    words = [sys.executable, "-c", "import trials; from orchestrator import api"]
    done = subprocess.run(words, cwd=tmp_path, env=environment() | {"PYTHONPATH": ""}, capture_output=True, text=True)
    assert f"{tmp_path / 'trials.py'} was imported as `trials` before" in done.stderr.splitlines()[-1]


@pytest.mark.cluster
def test_files_that_are_called_like_modules_of_ours_and_of_python_do_not_reach_ray(tmp_path: Path) -> None:
    folder = own_folder(tmp_path, all_three=True, freezes="[{strategy: ends, depth: 2}]")
    for name in ("random", "token", "types"):
        (folder / f"{name}.py").write_text(THEIRS)
    started(folder, *CONSOLE)
    assert open_store(str(folder / "store")).trials(["state"])["state"].to_pylist() == ["completed"]


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "start", first(1, [lambda folder: started(folder, sys.executable, "run.py"), in_kernel]), ids=["script", "kernel"]
)
def test_the_only_trial_of_a_script_or_kernel_is_not_lost_on_ray(start: Callable[[Path], None], tmp_path: Path) -> None:
    """A worker that runs a second one has imported ours by then."""
    folder = own_folder(tmp_path, freezes="[{strategy: ends, depth: 2}]")
    start(folder)
    assert open_store(str(folder / "store")).trials(["state"])["state"].to_pylist() == ["completed"]
