"""`check_store` finds every corrupted file and inconsistent row, and nothing in an intact store."""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.extras.store_care.check import check_store
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.parts import PartFolder
from orchestrator.store.plans import SweepPlan
from orchestrator.store.results import MARKER
from orchestrator.store.schema import ALL_TABLES, SCHEMA_VERSION, VERSION_KEY, stamped_name
from tests.builders import make_spec
from tests.drivers import running
from tests.examples import ALL, each
from tests.orchestrator.store.real import Real
from tests.orchestrator.store.rows import complete, plan_of, trial

SPEC = make_spec(data={"sizes": (200, 2, 2)}, optim={"epochs": 2})
SECOND, THIRD = (make_spec(data={"sizes": (200, 2, 2)}, optim={"epochs": 2}, seed=seed) for seed in (1, 2))


@pytest.fixture
def store(local_storage: FolderStorage) -> ResultStore:
    """A completed trial, and what its sweep declared."""
    found = open_store(local_storage.address, must_exist=False)
    complete(found, SPEC)
    found.add_plan(plan_of(SPEC))
    return found


def said(store: ResultStore) -> list[str]:
    return [str(finding) for finding in check_store(store.storage).findings]


def only(store: ResultStore) -> str:
    (found,) = said(store)
    return found


# --- Stores without findings


def test_a_store_that_launches_wrote_has_no_findings(real: Real) -> None:
    report = check_store(real.store)
    assert report.ok, report.findings
    assert report.states == {"completed": 2, "not ended": 1}
    assert report.notes == []


def test_a_store_is_checked_wherever_it_lies(storage: Storage) -> None:
    complete(ResultStore(storage), SPEC)
    assert check_store(storage.address).ok
    assert check_store(storage).states == {"completed": 1}


def test_a_running_sweep_and_an_attempt_killed_before_its_trial_was_committed_are_no_findings(
    store: ResultStore,
) -> None:
    complete(store, SECOND, without=["trials", "commits"])
    with running(store.storage, "tiny"):
        report = check_store(store.storage)
    assert report.ok
    assert report.states == {"completed": 1, "not ended": 1}


def test_duplicates_of_a_killed_compaction_are_a_note(store: ResultStore) -> None:
    complete(store, SECOND)
    folder = store.storage.subfolder("epochs")
    old = {name: folder.read(name) for name in folder.files()}
    store.compact()
    for name, content in old.items():
        folder.write(name, content)
    report = check_store(store.storage)
    assert report.ok
    assert report.notes == ["epochs: 4 rows have the key of a later one, which readers use."]


# --- Every file, corrupted


def corrupted(content: bytes) -> Iterator[bytes]:
    """One flipped bit in each 16th of it (in `make test` at one place), and truncations."""
    parts = 16 if ALL else 1
    for n in range(parts):
        at = n * len(content) // parts
        yield content[:at] + bytes([content[at] ^ 1 << n % 8]) + content[at + 1 :]
    yield content[:-1]
    yield content[: len(content) // 2]


KINDS = ["epochs", "commits", "sweeps", "checkpoints", "trials", "tags", "predictions", "contributions"]


@each("kind", KINDS, quick=4)
def test_every_spoiled_file_is_found(real: Real, tmp_path: Path, kind: str) -> None:
    copy = real.copy(tmp_path)
    for name in [name for name in real.files() if name.startswith(kind)]:
        whole = (copy / name).read_bytes()
        for spoiled in corrupted(whole):
            (copy / name).write_bytes(spoiled)
            assert name in [finding.place for finding in check_store(copy).findings], name
        (copy / name).write_bytes(whole)
    assert check_store(copy).ok


@each("kind", ["sweeps", "trials", "predictions"])
def test_a_pipe_in_the_place_of_a_file_is_found_and_not_waited_for(real: Real, tmp_path: Path, kind: str) -> None:
    copy = real.copy(tmp_path)
    name = next(name for name in real.files() if name.startswith(kind))
    (copy / name).unlink()
    os.mkfifo(copy / name)
    assert any(found.place == name and "not a regular file" in found.wrong for found in check_store(copy).findings)


LOST = {
    "epochs": "is completed, but 0 of ",
    "tags": "is completed, but 0 of ",
    "trials": "attempt 1 has ended, but its row in `trials` is lost",
    "contributions": "is completed, but 0 of ",
}


@each("table", LOST)
def test_a_missing_part_of_any_table_is_found(real: Real, tmp_path: Path, table: str) -> None:
    copy = real.copy(tmp_path)
    shutil.rmtree(copy / table)
    found = [finding.wrong for finding in check_store(copy).findings]
    assert sum(LOST[table] in wrong for wrong in found) == 2  # one a trial


def test_what_costs_nothing_is_a_note(real: Real, tmp_path: Path) -> None:
    copy = real.copy(tmp_path)
    shutil.rmtree(copy / "commits")
    report = check_store(copy)
    (note,) = report.notes
    assert report.ok
    assert "commits: 2 ended attempts are not in it (their driver was killed, or a part" in note


def test_the_last_line_says_that_predictions_are_lost(real: Real, tmp_path: Path) -> None:
    copy = real.copy(tmp_path)
    shutil.rmtree(copy / "predictions")
    report = check_store(copy)
    (finding,) = report.findings
    assert finding.wrong.endswith("0 of 16 rows of predictions are there, like 1 others")
    assert report.verdict == "1 problem. Predictions of 2 trials are lost; nothing runs again for them."


@each("table, column, value", [
    ("trials", "best_score", math.inf), ("trials", "best_score", math.nan), ("trials", "best_score", 1e308),
    ("trials", "train_s", -math.inf), ("contributions", "values", [math.nan]),
])  # fmt: skip
def test_a_number_that_nothing_measured_is_found_with_its_trial_and_left_out(
    real: Real, tmp_path: Path, table: str, column: str, value: object
) -> None:
    copy = real.copy(tmp_path)
    parts = PartFolder(FolderStorage(copy / table), ALL_TABLES[table])
    rows = parts.read().to_pylist()
    shutil.rmtree(copy / table)
    parts.append([rows[0] | {column: value}])
    parts.append(rows[1:])
    assert any(f"trial {rows[0]['trial_id']} is" in found.wrong for found in check_store(copy).findings)
    assert rows[0]["trial_id"] not in ResultStore(copy).completed_ids()


# --- Disks that fail


class Failing(FolderStorage):
    """A disk that does not give an object back."""

    def subfolder(self, name: str) -> Failing:
        return Failing(self.folder / name)

    def open(self, name: str) -> pa.NativeFile:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_file_that_the_disk_does_not_give_back_is_found(store: ResultStore) -> None:
    found = check_store(Failing(store.root)).findings
    assert [finding.place.partition("/")[0] for finding in found] == [
        "commits", "trials", "contributions", "predictions", "tags", "epochs", "sweeps",
    ]  # fmt: skip
    assert all("Input/output error)" in finding.wrong for finding in found)


# --- Inconsistent rows


UNREADABLE = [trial(SECOND.trial_id, state="failed", spec=spec) for spec in (None, "{")]


@pytest.mark.parametrize(
    ("table", "row", "wrong"),
    [
        ("trials", trial(SECOND.trial_id, spec=SPEC.model_dump_json()), f"its spec belongs to trial {SPEC.trial_id}; "),
        *(("trials", row, "its spec cannot be read by this version (") for row in UNREADABLE),
    ],
)  # fmt: skip
def test_an_inconsistent_row_is_the_one_finding(
    store: ResultStore, table: str, row: dict[str, Any], wrong: str
) -> None:
    store.append(table, [row])
    assert only(store).startswith(f"trial {row['trial_id']}: {wrong}")


def test_a_plan_whose_ids_are_of_other_trials_is_found(store: ResultStore) -> None:
    store.add_plan(SweepPlan("odd", 1.0, "odd.yaml", ((SECOND.trial_id, SPEC.model_dump(mode="json")),)))
    assert f"1 of 1 trials do not match their ids; the first, {SECOND.trial_id}: its spec belongs to" in only(store)


def test_a_row_without_a_key_is_found(store: ResultStore) -> None:
    rows: list[dict[str, Any]] = [trial(SPEC.trial_id, spec=SPEC.model_dump_json(), state="failed") | {"attempt": None}]
    store.append("trials", rows)
    assert any("1 rows have no attempt; left out" in finding for finding in said(store))


# --- Not a store, or of another version


def test_a_store_without_its_mark_is_found(store: ResultStore) -> None:
    (store.root / MARKER).unlink()
    assert only(store) == f"{MARKER}: is not there; the next launch writes it again"


def test_a_part_of_a_newer_version_is_reported_as_that(store: ResultStore) -> None:
    rows = store.epochs().replace_schema_metadata({VERSION_KEY: str(SCHEMA_VERSION + 1)})
    pq.write_table(rows, sink := pa.BufferOutputStream())
    store.storage.subfolder("epochs").write(stamped_name("part", 10**19, sink.getvalue(), "parquet"), sink.getvalue())
    found = only(store)
    assert f"written by a newer version (schema {SCHEMA_VERSION + 1}, this one reads up to" in found
    assert found.endswith("upgrade permafrost-sweeps")


def test_a_foreign_file_is_a_note_and_a_presence_that_nobody_can_read_nothing_as_drivers_remove_it(
    store: ResultStore,
) -> None:
    store.storage.subfolder("drivers").write(f"{'a' * 16}-00000001.json", b"{")
    shutil.copy(__file__, store.root / "epochs" / "notes.txt")
    assert check_store(store.storage).notes == ["epochs/notes.txt: not a part; it is ignored."]
    for n in range(2):
        (store.root / "epochs" / f"notes{n}.txt").touch()
    report = check_store(store.storage)
    assert (report.ok, report.notes) == (True, ["epochs/notes.txt: not a part; it is ignored, like 2 others."])
