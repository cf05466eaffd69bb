"""Every command works in a folder, on a store, a corpus and a sweep whose names are in letters beyond ASCII."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.store import open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.end_to_end.conftest import SMALL, run_in

FOLDER, STORE, SWEEP, CORPUS = "Ünï жоба 空 x", 'Größe "q" 100%', "größe-हिन्दी", "дані жоба"
TWO = ("--set", "seeds=[0]")
Run = Callable[..., str]


def write_odd_sweep(folder: Path) -> Path:
    write_tagged_treebank(folder / CORPUS)
    text = SMALL.partition("  data:")
    rest = text[2].partition("\n")[2]
    return write_sweep(folder / f"{SWEEP}.yaml", f"name: {SWEEP}{text[0]}  data: [{{folder: {CORPUS}}}]\n{rest}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a corpus, a sweep, and the store of a launch."""
    made = tmp_path_factory.mktemp("odd") / FOLDER
    made.mkdir()
    write_odd_sweep(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        launched = CliRunner().invoke(
            app, ["launch", "--sweep", f"{SWEEP}.yaml", "--store", STORE, "--cluster", "inline", *TWO]
        )
    assert launched.exit_code == 0, launched.output
    return made


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command of `permafrost` in the folder, and return what it printed."""
    monkeypatch.chdir(folder)

    def go(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == code, (words, done.output, done.exception)
        return done.stdout

    return go


@pytest.fixture
def trial(folder: Path) -> str:
    found: str = open_store(folder / STORE).trials().to_pylist()[0]["trial_id"]
    return found


@pytest.mark.slow
def test_what_a_store_says(run: Run) -> None:
    run("status", "--store", STORE)
    run("report", STORE, SWEEP, "-o", "отчёт", "--no-pictures")
    run("compare", "--study", "emekaeze_pos", "-o", "статья.html", "--store", STORE, code=5)
    run("export", "figure", "depth-table", "--url", f"?sweep={SWEEP}", "-o", "таблица.tex", "--store", STORE)
    assert CORPUS in Path("таблица.tex").read_text(encoding="utf-8")
    run("answer", "--store", STORE, "--sweep", unicodedata.normalize("NFD", SWEEP))  # as a Mac's keyboard writes it
    run("export", "runs", "--to", "tensorboard", "--into", "жоба", "--store", STORE)
    run("stop", STORE, SWEEP, code=5)
    run("store", "verify", "--store", STORE)
    run("export", "tables", "таблицы", "--store", STORE)
    run("export", "store", "другой", "--store", STORE)
    assert [plan.name for plan in open_store("другой").sweeps()] == [SWEEP]


@pytest.fixture
def one_core() -> Iterator[None]:
    """This process, and those that it starts, may use one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.cluster
@pytest.mark.usefixtures("one_core")
def test_a_launch_on_ray_of_one_core_with_a_job_s_long_tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, temporary = tmp_path / FOLDER, tmp_path / ("t" * 90)
    for folder in (here, temporary):
        folder.mkdir()
    write_odd_sweep(here)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("HOME", str(here))
    done = run_in(here, "launch", "--sweep", f"{SWEEP}.yaml", "--store", STORE, "--json", *TWO)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["completed"] == 2
    assert "1 trial at a time; dashboard http://127.0.0.1:" in done.stderr
