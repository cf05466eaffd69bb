"""A newcomer adds a plug of five kinds with the files that CONTRIBUTING names and no other, and every page opens."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = {
    code.partition("\n")[0].removeprefix("# "): code for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
}
PLUGS = {
    "freeze strategy": "trials/freeze/middle_k.py",
    "task": "trials/tasks/xpos.py",
    "metric": "trials/metrics/error_rate.py",
    "statistic": "worst_seed.py",
    "page": "dashboards/views/best_epochs.py",
}
SWEEP = """\
name: newcomer
plugins: [worst_seed]
trial:
  data: {bundled: UD_English-EWT-sample, first: {train: 40, dev: 30, test: 30}}
  task: xpos
  score: error_rate
  train_size: 40
  max_length: 24
  optim: {lr: 1e-3, epochs: 1}
space:
  freeze: [none, {strategy: middle_k, depth: 2}]
seeds: [0, 1]
"""
OPEN_EVERY_PAGE = """\
import json, sys
from werkzeug.test import Client
from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from dashboards.views.registry import VIEWS
from orchestrator.store import open_store
from trials.plugins.loading import load

load(["worst_seed"])
client = Client(make_app(Frames(open_store("results"))).server.wsgi_app)
pages = {view.name: client.get(f"/page/{view.name}.html") for view in VIEWS.values() if view.parts}
found = {
    "status": {name: page.status_code for name, page in pages.items()} | {"/": client.get("/").status_code},
    "texts": {name: page.text for name, page in pages.items()},
}
print(json.dumps(found))
"""


def registering_line(example: str) -> tuple[str, str] | None:
    """The file and line that the end of an example names; None if it needs none."""
    line = re.search(r"^# ([\w/]+\.py): (.+)$", example.partition("\n")[2], re.MULTILINE)
    return (line[1], line[2]) if line else None


def add(tree: Path, place: str) -> set[str]:
    """Write an example into its file, and its line into the file that it names. Returns both."""
    (tree / place).write_text(EXAMPLES[place], encoding="utf-8")
    registered = registering_line(EXAMPLES[place])
    if registered is None:
        return {place}
    file, line = registered
    text = (tree / file).read_text(encoding="utf-8")
    if line.startswith("from "):
        text += f"{line}\n"
    else:  # `best_epochs.VIEW`, a line of a table
        name = line.partition(".")[0]
        text = text.replace("_ORDERED = (\n", f"_ORDERED = (\n    {line},\n", 1)
        text = text.replace("from dashboards.views import ", f"from dashboards.views import {name}, ", 1)
    assert text != (tree / file).read_text(encoding="utf-8")
    (tree / file).write_text(text, encoding="utf-8")
    return {place, file}


def run(tree: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(tree), "PERMAFROST_CACHE": str(tree / "cache")}
    done = subprocess.run([sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_guide_names_the_files_of_each_plug() -> None:
    table = dict(re.findall(r"^\| ([\w ,]+) \| (.+?) \|$", GUIDE, re.MULTILINE))
    for plug, place in PLUGS.items():
        named = {place.rpartition("/")[0] or "a module of your own"}
        registered = registering_line(EXAMPLES[place])
        named |= {registered[0]} if registered else set()
        assert all(name in table[plug] for name in named), plug


@pytest.mark.slow
def test_five_plugs_need_the_files_that_the_guide_names_and_every_page_opens_with_them(tmp_path: Path) -> None:
    for root in ("trials", "orchestrator", "dashboards", "configs"):
        shutil.copytree(ROOT / root, tmp_path / root, ignore=shutil.ignore_patterns("__pycache__"))
    for place in PLUGS.values():
        add(tmp_path, place)
    (tmp_path / "newcomer.yaml").write_text(SWEEP, encoding="utf-8")
    launch = ["--sweep", "newcomer.yaml", "--store", "results", "--cluster", "inline"]
    shown = run(tmp_path, "-P", "-m", "orchestrator.launch", *launch)
    assert "middle 2" in shown
    assert "worst seed (%)" in shown
    found = json.loads(run(tmp_path, "-c", OPEN_EVERY_PAGE))
    assert {name: status for name, status in found["status"].items() if status != 200} == {}
    assert '<figure id="best-epoch">' in found["texts"]["best-epoch"]
    assert "worst seed (%)" in found["texts"]["scores"]
    assert "middle 2" in found["texts"]["scores"]
    assert "error rate" in found["texts"]["scores"]
