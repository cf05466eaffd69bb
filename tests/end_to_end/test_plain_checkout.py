"""A checkout that nobody installed: its dependencies are there, its own metadata is not."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import distributions
from pathlib import Path

import trials
from orchestrator.store import open_store
from tests.end_to_end.conftest import environment, write_small_sweep
from tests.linked_environment import OURS, linked_environment

CHECKOUT = Path(__file__).parents[2]
ASK = """
from dashboards.cli import app
from orchestrator.ray_backend.job_package import pinned_packages
try:
    app(["--version"])
except SystemExit:
    print(*pinned_packages())
app(["doctor", "--json"])
"""
ONE = ("--set", "seeds=[0]", "--set", "space.data=[{folder: one}]", "--set", "space.freeze=[none]")


def installed_names() -> set[str]:
    return {found.metadata["Name"] for found in distributions()}


def run(python: Path, folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    variables = environment() | {"PYTHONPATH": str(CHECKOUT)}
    return subprocess.run([python, *words], cwd=folder, capture_output=True, text=True, env=variables)


def test_it_launches_without_ray_too_and_its_row_says_which_version_made_it(tmp_path: Path) -> None:
    python = linked_environment(tmp_path / "venv", installed_names() - {OURS, "ray"})
    sweep = write_small_sweep(tmp_path)
    words = ("-m", "orchestrator.launch", "--sweep", sweep, "--store", "store", "--cluster", "inline", *ONE)
    done = run(python, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    (row,) = open_store(tmp_path / "store").trials().to_pylist()
    versions = dict(row["versions"])
    assert (versions[OURS], versions.get("ray")) == (trials.__version__, None)


def test_it_knows_its_version_what_it_requires_and_what_a_job_asks_the_nodes_for(tmp_path: Path) -> None:
    python = linked_environment(tmp_path / "venv", installed_names() - {OURS})
    done = run(python, tmp_path, "-c", ASK)
    version, pinned, checked = done.stdout.split("\n", 2)
    assert version == f"permafrost {trials.__version__}", done.stderr
    (packages,) = [each for each in json.loads(checked)["findings"] if each["check"] == "packages"]
    assert (packages["level"], "torch" in packages["what"]) == ("ok", True)
    names = {word.partition("==")[0] for word in pinned.split()}
    assert names >= {"torch", "transformers", "conllu"}
    assert not names & {"ray", OURS}
