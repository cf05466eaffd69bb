"""`permafrost note`: write, list and remove notes; which names are unknown has one exit code in every command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dashboards.cli import app
from tests.dashboards.stores import specs, write_store

TRIALS = specs(seeds=(0, 1), train_sizes=(200,))
ID = TRIALS[0].trial_id


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "store", TRIALS).root


def run(*words: str | Path, code: int = 0) -> Result:
    done = invoked(*words)
    assert done.exit_code == code, done.output
    return done


def invoked(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def listed(store: Path, *words: str) -> list[dict[str, object]]:
    return list(json.loads(run("note", "list", *words, "--json", "--store", store).stdout)["notes"])


def test_a_note_is_written_listed_exported_and_removed(store: Path, tmp_path: Path) -> None:
    run("note", "add", ID[:12], "=loss jumps", "--label", "odd", "--author", "ann", "--store", store)
    assert f"trial {ID}  [odd] =loss jumps  (" in run("note", "list", "--store", store).stdout
    (note,) = listed(store, "--label", "odd")
    assert (note["trial_id"], note["setting"], note["labels"], note["author"]) == (ID, None, ["odd"], "ann")
    run("store", "export", tmp_path / "out", "--store", store)
    rows = list(csv.DictReader((tmp_path / "out" / "notes.csv").read_text().splitlines()))
    assert [row["text"] for row in rows] == ["'=loss jumps"]
    assert str(note["text"]) in run("note", "remove", str(note["note_id"])[:15], "--store", store).stderr
    assert listed(store) == []


def test_a_note_on_the_setting_is_listed_with_every_seed(store: Path) -> None:
    run("note", "add", ID, "as in the paper", "--setting", "--store", store)
    for spec in TRIALS[:2]:
        assert [note["text"] for note in listed(store, spec.trial_id)] == ["as in the paper"]
    run("note", "list", TRIALS[2].trial_id, "--store", store, code=5)


def test_control_characters_of_a_note_reach_no_terminal(store: Path) -> None:
    run("note", "add", ID, "\x1b[2Jgone\u202e", "--store", store)
    assert r"\x1b[2Jgone\u202e" in run("note", "list", "--store", store).stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("note", "add", ID, " "), 2),
        (("note", "add", "", "x"), 2),  # the beginning of all trials
        (("note", "list", "--label", "nobody"), 5),
        (("note", "remove", "nothing"), 5),
        # One rule: what a store is asked for by name and does not hold.
        (("note", "add", "nothing", "x"), 5),
        (("reproduce", "nothing"), 5),
        (("export-model", "--trial", "nothing", "-o", "model"), 5),
        (("answer", "--sweep", "nothing"), 5),
        (("report", "nothing", "-o", "report"), 5),
        (("stop", "nothing"), 5),
        (("status", "--follow", "--sweep", "nothing"), 5),
    ],
)
def test_what_the_store_does_not_hold_has_exit_code_5(words: tuple[str, ...], code: int, store: Path) -> None:
    assert invoked(*words, "--store", store).exit_code == code
