"""The core runs without `orchestrator/extras/`, and all else without any one of its folders: copies of the tree."""

from __future__ import annotations

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
@pytest.mark.parametrize("deleted", ["extras", *(f"extras/{extra}" for extra in EXTRAS)])
def test_all_loads_and_a_sweep_goes_from_yaml_to_answer_page_and_report_without_an_extra(
    deleted: str, tmp_path: Path
) -> None:
    tree = copied(tmp_path, deleted)
    (tree / "s.yaml").write_text(SWEEP, encoding="utf-8")
    done = run(tree, "-c", EVERYTHING + WALK)
    loaded, pages = done.stdout.splitlines()
    assert {"launch", "answer", "report", "model"} <= set(loaded.split())
    assert set(pages.split()) == {"200"}, done.stderr
    assert open_store(tree / "results").trials()["state"].to_pylist() == ["completed"] * 4
    assert (tree / "written" / "report.html").is_file()
