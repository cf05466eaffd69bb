"""What people note on a sweep: written, shown, filtered by and copied; a harmed note is named and harms nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, select
from dashboards.views.sweep_list import sweep_list
from orchestrator.commands.app import app
from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SWEEPS
from orchestrator.store.schema import stamped_name
from orchestrator.store.sweep_notes import SweepNote, notes_by_sweep, write_note
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.store.rows import complete, plan_of

FIRST, SECOND = (make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 2}) for seed in range(2))


@pytest.fixture
def store(storage: Storage) -> ResultStore:
    """The sweeps `mine` and `other`, a completed trial each."""
    found = open_store(storage.address, must_exist=False)
    for name, spec in (("mine", FIRST), ("other", SECOND)):
        complete(found, spec)
        found.add_plan(plan_of(spec, name=name))
    return found


def command(store: ResultStore, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", store.address])


def test_a_note_is_what_was_said_last_and_leaves_one_file(store: ResultStore) -> None:
    command(store, "store", "note", "mine", "for  the\npaper", "--tag", "a", "--tag", "b")
    assert command(store, "store", "note", "mine").stdout == "for the paper #a #b\n"
    assert command(store, "store", "note", "mine", "--tag", "c").stdout == "#c\n"
    assert len([name for name in folder(store).files() if name.startswith("note-")]) == 1
    command(store, "store", "note", "mine", "")
    assert notes_by_sweep(store.storage) == {}


def folder(store: ResultStore, sweep: str = "mine") -> Storage:
    return store.storage.subfolder(SWEEPS).subfolder(sweep)


@each(
    "words, said",
    [
        (["mine", "--tag", "a b"], "error: tags: 'a b': must be letters, digits"),
        (["mine", "x" * 501], "error: text: "),
        (["nobody", "x"], "has no sweep 'nobody'; it has mine, other."),
    ],
)
def test_what_is_no_note_or_no_sweep_is_refused(store: ResultStore, words: list[str], said: str) -> None:
    result = command(store, "store", "note", *words)
    assert result.exit_code in (2, 5)
    assert said in result.output.replace("\n", " ")


def test_status_shows_it_and_says_it_as_json(tmp_path: Path) -> None:
    store = open_store(tmp_path / "results", must_exist=False)
    for name in ("mine", "other"):
        store.add_plan(plan_of(FIRST, name=name))
    write_note(store.storage, "mine", SweepNote(text="\x1b[31mred", tags=("paper",)))
    result = command(store, "status")
    assert "note    \\x1b[31mred #paper" in result.stdout, result.output
    counts = json.loads(command(store, "status", "--json").stdout)["sweeps"]
    assert [sweep["note"] for sweep in counts] == ["\\x1b[31mred #paper", ""]


def test_the_list_of_sweeps_shows_it_and_a_tag_is_a_link_that_narrows_the_list(store: ResultStore) -> None:
    frames = Frames(store)
    before = frames.refresh()
    write_note(store.storage, "mine", SweepNote(text="rerun", tags=("paper",)))
    snapshot = frames.refresh()
    assert snapshot is not before
    words, narrowed = (str(sweep_list(select(snapshot, PageQuery(tag=tag)))) for tag in ("", "paper"))
    assert "rerun" in words
    assert "&tag=paper'" in words
    assert "?sweep=other" in words
    assert "1 of 3, tagged paper" in narrowed
    assert "?sweep=mine" in narrowed
    assert "?sweep=other" not in narrowed


def test_a_copy_has_it(store: ResultStore, tmp_path: Path) -> None:
    write_note(store.storage, "mine", SweepNote(text="rerun"))
    CliRunner().invoke(app, ["export", "store", str(tmp_path / "copy"), "--store", store.address])
    assert notes_by_sweep(open_store(tmp_path / "copy").storage) == {"mine": SweepNote(text="rerun")}


@each("content", [b"{", b"[" * 50_000, b'{"text": 5}', b'{"tags": ["a b"]}', b'{"text": "' + b"x" * 100_000 + b'"}'])
def test_a_harmed_note_is_named_by_verify_and_left_out(store: ResultStore, content: bytes) -> None:
    name = stamped_name("note", 1, content, "json")
    folder(store).write(name, content)
    assert notes_by_sweep(open_store(store.address).storage) == {}
    result = command(store, "store", "verify")
    assert result.exit_code == 1
    assert f"sweeps/mine/{name}: not a readable note" in result.output
    assert "runs again" not in result.output
