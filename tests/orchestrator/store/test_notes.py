"""Notes: rows are only added, so no writer loses one, and a removed note stays removed."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.check import check_store
from orchestrator.store.merge import merge
from orchestrator.store.notes import MAX_CHARACTERS, MAX_LABELS, notes_in, remove_note, write_note
from orchestrator.store.repair import repair
from orchestrator.store.results import standing
from orchestrator.store.schema import NOTES
from tests.assets import make_store_v1 as v1
from tests.builders import make_spec
from tests.examples import examples
from tests.orchestrator.store.rows import complete, note
from trials.errors import ConfigError

SPEC, SIBLING = (make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 2}) for seed in range(2))


@pytest.fixture
def store(storage: Storage) -> ResultStore:
    found = open_store(storage.address, must_exist=False)
    complete(found, SPEC)
    return found


def said(store: ResultStore) -> list[str]:
    return [str(each) for each in notes_in(store.notes())]


def test_a_note_is_read_as_it_was_written_but_for_white_space(store: ResultStore) -> None:
    written = write_note(store, SPEC.trial_id, " loss\n jumps ", ["odd", " odd", "re  run", ""], author="ann")
    assert notes_in(store.notes()) == [written]
    assert (str(written), written.author) == ("[odd] [re run] loss jumps", "ann")


def test_a_note_on_a_setting_is_about_all_of_its_seeds(store: ResultStore) -> None:
    alone, both = (
        write_note(store, SPEC.trial_id, "alone"),
        write_note(store, SPEC.trial_id, "both", setting=SPEC.cell_id),
    )
    assert [each.is_about(SIBLING.trial_id, SIBLING.cell_id) for each in (alone, both)] == [False, True]
    assert [each.is_about(SPEC.trial_id, SPEC.cell_id) for each in (alone, both)] == [True, True]


@pytest.mark.parametrize(
    ("text", "labels", "wrong"),
    [
        (" ", ["", " "], "a note needs a text or a label"),
        ("x" * (MAX_CHARACTERS + 1), [], "the text has 2,001 characters. Shorten it to 2,000"),
        ("x", [str(n) for n in range(MAX_LABELS + 1)], "11 labels are too many"),
        ("x", ["y" * 41], "is longer than 40 characters"),
    ],
)
def test_notes_that_say_nothing_or_too_much_are_refused(
    text: str, labels: list[str], wrong: str, store: ResultStore
) -> None:
    with pytest.raises(ConfigError, match=wrong):
        write_note(store, SPEC.trial_id, text, labels)
    assert said(store) == []


def test_writers_at_the_same_time_lose_no_note(store: ResultStore) -> None:
    names = [f"{writer} {n}" for writer in range(4) for n in range(5)]
    writers = [
        threading.Thread(target=write_note, args=(open_store(store.address), SPEC.trial_id, name)) for name in names
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(said(store)) == sorted(names)


ROWS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=12)


@given(ROWS, st.randoms())
def test_whatever_the_order_of_the_rows_the_same_notes_stand(rows: list[tuple[str, bool]], random: Random) -> None:
    removed = {name for name, is_removed in rows if is_removed}
    random.shuffle(rows)
    table = pa.Table.from_pylist([note(name, removed=is_removed) for name, is_removed in rows], NOTES)
    assert standing(table)["note_id"].to_pylist() == sorted({name for name, _ in rows} - removed)


ACTIONS = st.lists(st.tuples(st.sampled_from(["write", "remove", "compact", "merge"]), st.booleans()), max_size=10)


@settings(max_examples=examples(50), deadline=None)
@given(ACTIONS)
def test_two_writers_lose_nothing_whatever_they_do(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("writers")
    stores = [open_store(folder / name, must_exist=False) for name in ("here", "there")]
    written, gone = list[str](), set[str]()
    for does, there in actions:
        mine, other = stores[there], stores[not there]
        seen = notes_in(mine.notes())
        if does == "write":
            written.append(write_note(mine, SPEC.trial_id, f"note {len(written)}").note_id)
        elif does == "remove" and seen:
            remove_note(mine, seen[0])
            gone.add(seen[0].note_id)
        elif does == "compact":
            mine.compact()
        elif does == "merge":
            merge(other, mine)
    merge(stores[1], stores[0])
    assert {each.note_id for each in notes_in(stores[0].notes())} == set(written) - gone
    assert merge(stores[1], stores[0]).rows["notes"] == 0


def test_a_store_with_notes_is_intact_and_a_spoiled_part_is_found_and_moved(store: ResultStore) -> None:
    write_note(store, SPEC.trial_id, "first")
    second = write_note(store, SPEC.trial_id, "second")
    assert (check_store(store.storage).findings, check_store(store.storage).counted.rows["notes"]) == ([], 2)
    folder = store.storage.at("notes")
    name = list(folder.files())[-1]
    folder.write(name, folder.read(name)[:-1])
    assert [finding.place for finding in check_store(store.storage).findings] == [f"notes/{name}"]
    repair(store.storage)
    assert said(store) == ["first"]
    assert check_store(store.storage).ok
    assert second.text == "second"


def test_rows_without_an_id_and_two_notes_of_one_id_are_found(store: ResultStore) -> None:
    store.append("notes", [note("same"), note("same", text="other")])
    assert [finding.wrong for finding in check_store(store.storage).findings] == ["two different rows have its id"]
    repair(store.storage)
    assert said(store) == ["[odd] other"]
    store.append("notes", [note() | {"note_id": None}])
    assert "1 rows have no note_id" in check_store(store.storage).findings[0].wrong


def test_a_store_of_the_first_version_takes_notes(tmp_path: Path) -> None:
    shutil.copytree(Path(v1.__file__).parent / "store_v1", tmp_path / "old")
    old = open_store(tmp_path / "old")
    assert said(old) == []
    write_note(old, SPEC.trial_id, "kept")
    assert said(open_store(tmp_path / "old")) == ["kept"]
    assert len(old.trials()) == 2
