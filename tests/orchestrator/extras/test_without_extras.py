"""The core runs without `orchestrator/extras/`, and all else without any one of its folders: copies of the tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator.store import open_store
from tests.copies import SWEEP, copied, run

ROOT = Path(__file__).parents[3]
EXTRAS = sorted(path.name for path in (ROOT / "orchestrator" / "extras").glob("[a-z]*") if path.is_dir())
EVERYTHING = """
import pkgutil, orchestrator, trials, dashboards
from importlib import import_module
for root in (orchestrator, trials, dashboards):
    for module in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
from dashboards.cli import COMMANDS
from orchestrator.commands.app import GROUPS, load_command
print(*(load_command(name).name for name in (*COMMANDS, *GROUPS)), *dashboards.views.registry.PARTS)
"""

WALK = """
from typer.testing import CliRunner
from werkzeug.test import Client
from dashboards.app.app import make_app
from dashboards.cli import app
from dashboards.data.frames import Frames
from dashboards.views.registry import VIEWS
from orchestrator.store import open_store
for words in (
    "--help",
    "launch --sweep s.yaml --store results --cluster inline",
    "answer --store results",
    "report --store results -o written",
):
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
client = Client(make_app(Frames(open_store("results"))).server.wsgi_app)
print(*(client.get(f"/page/{view.name}.html").status_code for view in VIEWS.values() if view.parts))
"""


@pytest.mark.slow
def test_a_sweep_runs_and_is_answered_in_a_copy_without_extras(tmp_path: Path) -> None:
    tree = copied(tmp_path, "extras")
    words = ("--max-trials", "1", "--cluster", "inline", "--store", "results")
    launched = run(tree, "-m", "orchestrator.launch", *words)
    assert launched.returncode == 143, launched.stderr  # at its limit
    assert "112 trials, 1 completed" in run(tree, "-m", "orchestrator.status", "--store", "results").stdout


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_all_loads_and_a_sweep_goes_from_yaml_to_answer_page_and_report_without_an_extra(
    extra: str, tmp_path: Path
) -> None:
    tree = copied(tmp_path, f"extras/{extra}")
    (tree / "s.yaml").write_text(SWEEP, encoding="utf-8")
    done = run(tree, "-c", EVERYTHING + WALK)
    loaded, pages = done.stdout.splitlines()
    assert {"launch", "answer", "report", "model"} <= set(loaded.split())
    assert set(pages.split()) == {"200"}, done.stderr
    assert open_store(tree / "results").trials()["state"].to_pylist() == ["completed"] * 4
    assert (tree / "written" / "report.html").is_file()


@pytest.mark.slow
def test_the_tests_that_stay_without_extras_import_nothing_of_them(tmp_path: Path) -> None:
    tree = copied(tmp_path, *(f"extras/{extra}" for extra in EXTRAS))
    for name in ("tests", "docs", "docker"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / "constraints.txt"):
        shutil.copy(path, tree)
    for extra in EXTRAS:
        shutil.rmtree(tree / "tests" / "orchestrator" / "extras" / extra)
    done = run(tree, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout[-3_000:]
