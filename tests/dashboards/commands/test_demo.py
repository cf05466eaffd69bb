"""The study that comes along: it opens, it is whole, and every surface says the same of it."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from math import prod
from pathlib import Path
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from dashboards.commands.dashboard import DEMO_PAGE, DEMO_STORE
from dashboards.data.frames import Frames, Snapshot
from dashboards.data.selection import PageQuery, parse_query, select
from dashboards.views.kit.cards import MY_STORE, answers_of_page, next_command, short_answers
from orchestrator.api.answering import answer
from orchestrator.extras.store_care.check import check_store
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.load_sweep import load_sweep

MOST_BYTES = 15_000_000


@pytest.fixture(scope="module")
def store() -> ResultStore:
    return open_store(DEMO_STORE)


@pytest.fixture(scope="module")
def snapshot(store: ResultStore) -> Snapshot:
    return Frames(store).refresh()


def test_the_store_is_intact_small_and_of_no_machine(store: ResultStore) -> None:
    files = [path for path in DEMO_STORE.rglob("*") if path.is_file()]
    assert not check_store(str(DEMO_STORE)).findings
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert not len(store.predictions())  # no text that may not be passed on
    specs = store.trials(["spec"])["spec"].to_pylist()
    assert specs
    assert not [text for text in specs if re.search(r'"(/|[A-Z]:)', text)]


def test_the_datasheet_says_how_many_trials_there_are(store: ResultStore) -> None:
    sheet = (DEMO_STORE.parent / "README.md").read_text(encoding="utf-8")
    assert f"**State**: {len(store.completed_ids()):,} trials have run" in sheet


@pytest.mark.parametrize(
    ("name", "trials"),
    [("core", 125), ("small", 250), ("seeds", 250), ("layers", 200), ("l3", 375), ("mpnet", 20)],
)
def test_each_sweep_of_the_study_has_the_trials_that_the_datasheet_says(name: str, trials: int) -> None:
    sweep, _ = load_sweep(DEMO_STORE.parent / f"{name}.yaml", [])
    assert prod(len(axis.choice or ()) for axis in sweep.space.values()) * len(sweep.seeds) == trials
    assert f"{trials} " in (DEMO_STORE.parent / "README.md").read_text(encoding="utf-8")


def test_the_page_answers_as_the_terminal_does(store: ResultStore, snapshot: Snapshot) -> None:
    shown = answers_of_page(select(snapshot, PageQuery())).answers
    assert shown
    told = answer(store.address)
    assert [each.sentence for each in shown] == [each.sentence for each in told]


def test_the_first_page_has_an_answer_that_is_decided(snapshot: Snapshot) -> None:
    query, _ = parse_query("?" + urlencode(DEMO_PAGE))
    page_answers = answers_of_page(select(snapshot, query)).answers
    assert [(answer.corpus, answer.decided) for answer in page_answers[:3]] == [
        ("EWT", True), ("Naija", True), ("SST-2", True),
    ]  # fmt: skip
    first, second, *_ = short_answers(page_answers)
    assert first == ("EWT, Naija", "freeze the first 2 of 6 layers and the embeddings.")
    assert second == ("SST-2", "freeze the first 4 of 6 layers and the embeddings.")


def test_its_command_runs_in_an_empty_folder(store: ResultStore, snapshot: Snapshot) -> None:
    sweep = snapshot.sweeps["freezebench-core"]
    command = next_command(2, sweep, store.address)
    assert command is not None
    program, *words = shlex.split(command)
    assert program == "permafrost"
    done = CliRunner().invoke(app, [*words, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert re.search(r"trials +112 = 14 settings x 8 seeds; .* 112 to run", done.output)
    assert MY_STORE in done.output
    assert not [*Path().iterdir()]


@pytest.mark.slow
def test_the_command_serves_it_until_it_is_stopped() -> None:
    words = [sys.executable, "-c", "from dashboards.cli import app; app()", "demo", "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = [server.stderr.readline() for _ in range(4)]
        server.send_signal(signal.SIGINT)
        assert (server.stderr.read(), server.wait()) == ("", 130)
    assert said[0] == f"store   {DEMO_STORE}\n"
    assert re.search(r" http://127\.0\.0\.1:\d+/\?sweep=freezebench-core&tolerance=4&token=\S+$", said[2])
    assert said[3] == "Press Ctrl-C to stop.\n"
