"""`repair` restores a store, deletes nothing, and may be killed at any moment."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.repair import repair
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.parts import PartFolder
from orchestrator.store.results import MARKER
from orchestrator.store.schema import TAGS, VERSION_KEY
from orchestrator.store.stored_tensors import WEIGHTS, save_weights
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.extras.store_care.test_check import Failing
from tests.orchestrator.store.killed_storage import Killed
from tests.orchestrator.store.real import Real, numbers, run_sweep
from tests.orchestrator.store.rows import complete, plan_of, tag
from tests.s3_faults import Faults
from tests.s3_server import S3Process
from trials.errors import StoreError

FIRST, SECOND, THIRD = (make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 2}) for seed in range(3))


@pytest.fixture
def store(storage: Storage) -> ResultStore:
    """Two completed trials, each in parts of its own, and one that has not run."""
    found = open_store(storage.address, must_exist=False)
    complete(found, FIRST)
    complete(found, SECOND)
    found.add_plan(plan_of(FIRST, SECOND, THIRD))
    return found


def spoil(storage: Storage, table: str, number: int = 0) -> str:
    """Turn one bit over in the middle of a part."""
    folder = storage.at(table)
    name = list(folder.files())[number]
    content = bytearray(folder.read(name))
    content[len(content) // 2] ^= 4
    folder.write(name, bytes(content))
    return f"{table}/{name}"


def test_a_clean_store_is_left_as_it_is(store: ResultStore) -> None:
    done = repair(store.storage)
    assert (done.files, done.folders, done.left) == ([], [], [])
    assert not store.storage.at("quarantine").folders()


def test_a_trial_whose_rows_were_in_a_broken_part_runs_again(store: ResultStore) -> None:
    name = spoil(store.storage, "tags")
    done = repair(store.storage)
    assert name in done.files
    assert list(done.trials) == [FIRST.trial_id]
    assert open_store(store.address).completed_ids() == {SECOND.trial_id}
    assert check_store(store.storage).ok


def test_lost_predictions_cost_predictions_and_no_trial(real: Real, tmp_path: Path) -> None:
    copy = real.copy(tmp_path)
    (part,) = (copy / "predictions").iterdir()
    part.unlink()
    done = repair(FolderStorage(copy))
    assert (len(done.losses), done.trials) == (2, {})
    assert all("0 of 16 rows of predictions are there" in lost for lost in done.losses.values())
    assert check_store(copy).ok
    left = open_store(copy)
    assert len(left.completed_ids()) == 2
    assert len(left.predictions()) == 0


def test_a_trial_whose_row_is_lost_runs_again_and_a_broken_plan_is_removed(store: ResultStore) -> None:
    complete(store, THIRD, without=["trials"])
    repair(store.storage)
    assert open_store(store.address).completed_ids() == {FIRST.trial_id, SECOND.trial_id}
    assert check_store(store.storage).ok
    folder = store.storage.at("sweeps").at("tiny")
    (name,) = folder.files()
    folder.write(name, b"{")
    assert repair(store.storage).files == [f"sweeps/tiny/{name}"]
    assert open_store(store.address).sweeps() == []


def test_lost_weights_cost_weights_and_no_trial(store: ResultStore) -> None:
    save_weights(store.storage, THIRD.trial_id, b"weights")
    (name,) = store.storage.at(WEIGHTS).files()
    complete(store, THIRD, recording=False, row_counts=[("weights", 1)], row_digests=[("weights", name[17:33])])
    store.storage.at(WEIGHTS).delete(name)
    assert repair(store.storage).losses == {THIRD.trial_id: "the weights of attempt 1 are not there"}
    assert check_store(store.storage).ok


def test_what_was_removed_is_kept_with_the_reason(store: ResultStore) -> None:
    name = spoil(store.storage, "epochs")
    table, part = name.split("/")
    spoiled = store.storage.at(table).read(part)
    (folder,) = repair(store.storage).folders
    kept = store.storage.at("quarantine").at(folder.rpartition("/")[2])
    why = json.loads(kept.read("why.json"))
    assert kept.at(table).read(part) == spoiled
    assert "do not match the digest in its name" in why["files"][name]
    assert why["trials"] == {FIRST.trial_id: "0 of 2 rows of epochs are there"}
    assert len(kept.at("trials").files()) == 1  # the part that its row was in


@pytest.mark.parametrize("content", [b"{", None])
def test_a_broken_marker_is_written_again(store: ResultStore, content: bytes | None) -> None:
    store.storage.delete(MARKER)
    if content is not None:
        store.storage.write(MARKER, content)
    repair(store.storage)
    assert len(open_store(store.address).trials()) == 2


def test_a_spec_that_cannot_be_read_is_left(store: ResultStore) -> None:
    complete(store, THIRD, spec_text='{"task": "of a later version"}')
    done = repair(store.storage)
    assert (done.files, [finding.place for finding in done.left]) == ([], [f"trial {THIRD.trial_id}"])


def test_a_store_with_parts_of_a_newer_version_is_not_touched(store: ResultStore) -> None:
    spoil(store.storage, "epochs")
    folder = PartFolder(store.storage.at("tags"), TAGS)
    folder.schema = folder.schema.with_metadata({VERSION_KEY: "9"})
    folder.append([tag()])
    with pytest.raises(StoreError, match="written by a newer version, so this version cannot decide what is wrong"):
        repair(store.storage)
    assert not store.storage.at("quarantine").folders()


def test_a_file_that_the_disk_does_not_give_back_is_moved_all_the_same(tmp_path: Path) -> None:
    complete(ResultStore(FolderStorage(tmp_path)), FIRST)
    done = repair(Failing(tmp_path))
    tables = ["commits", "contributions", "epochs", "predictions", "tags", "trials"]
    assert sorted(path.partition("/")[0] for path in done.files) == tables
    assert len(list(tmp_path.glob("quarantine/*/*/part-*"))) == 6


class Exhausted(FolderStorage):
    """Seen by a process that has no memory, or no descriptor, left."""

    error: Exception

    def at(self, name: str) -> Exhausted:
        found = Exhausted(self.folder / name)
        found.error = self.error
        return found

    def read(self, name: str) -> bytes:
        if name.startswith("part-"):
            raise self.error
        return super().read(name)


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EACCES])
def test_what_a_process_lacks_is_not_blamed_on_the_store(code: int, tmp_path: Path) -> None:
    complete(ResultStore(FolderStorage(tmp_path)), FIRST)
    storage = Exhausted(tmp_path)
    storage.error = OSError(code, os.strerror(code))
    for act in (check_store, repair):
        with pytest.raises(StoreError, match=re.escape(os.strerror(code))):
            act(storage)
    assert check_store(tmp_path).ok


def test_a_part_that_does_not_fit_into_memory_is_not_called_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    complete(ResultStore(FolderStorage(tmp_path)), FIRST)
    monkeypatch.setattr(pq.ParquetFile, "read", raises)
    with pytest.raises(MemoryError):
        repair(FolderStorage(tmp_path))
    monkeypatch.undo()
    assert check_store(tmp_path).ok


# --- Wrong reads


@each("seed", range(5), quick=1)
def test_a_line_that_flips_bits_in_a_third_of_the_reads_costs_nothing(
    s3: S3Process, faults: Faults, prefix: str, seed: int
) -> None:
    faults.flip_share = 0.0
    address = s3.address(f"{prefix}/{seed}", faults.url)
    store = open_store(address, must_exist=False)
    for spec in (FIRST, SECOND, THIRD):
        complete(store, spec)
    spoilt = spoil(store.storage, "tags", 1)
    before = objects(store.storage)
    faults.random.seed(seed)
    faults.flip_share = 0.3
    report = check_store(store.storage)
    assert {finding.place for finding in report.findings} == {spoilt, f"trial {SECOND.trial_id}"}
    assert any("the store is not at fault" in note for note in report.notes)
    done = repair(store.storage)
    faults.flip_share = 0.0
    assert list(done.trials) == [SECOND.trial_id]
    assert before.items() <= objects(store.storage).items()
    assert check_store(store.storage).ok
    assert open_store(address).completed_ids() == {FIRST.trial_id, THIRD.trial_id}


def objects(storage: Storage) -> dict[str, str]:
    """Every object's digest, and its name without the folders."""
    found = {hashlib.sha256(storage.read(name)).hexdigest(): name for name in storage.files()}
    return found | {key: one for folder in storage.folders() for key, one in objects(storage.at(folder)).items()}


class Shaky(FolderStorage):
    """A disk that never gives the same bytes twice."""

    def at(self, name: str) -> Shaky:
        return Shaky(self.folder / name)

    def read(self, name: str) -> bytes:
        return super().read(name) + os.urandom(8)


def test_where_no_two_reads_agree_nothing_is_said_of_the_store_and_nothing_changed(tmp_path: Path) -> None:
    complete(ResultStore(FolderStorage(tmp_path)), FIRST)
    before = contents(tmp_path)
    with pytest.raises(StoreError, match="reads gave 10 different contents, so the line or the disk is at fault"):
        repair(Shaky(tmp_path))
    assert contents(tmp_path) == before


# --- What somebody else has put there


def test_links_pipes_and_modes_are_moved_as_they_are_and_never_read(tmp_path: Path) -> None:
    store, secret = tmp_path / "store", tmp_path / "secret"
    complete(ResultStore(FolderStorage(store)), FIRST)
    secret.write_text("root:x:0:0\n")
    secret.chmod(0o600)
    folder = store / "trials"
    link, pipe, nowhere = (folder / f"part-{n:020d}-{'a' * 16}.parquet" for n in range(3))
    link.symlink_to(secret)
    os.mkfifo(pipe, 0o640)
    nowhere.symlink_to(tmp_path / "none")
    closed = folder / f"part-{3:020d}-{'b' * 16}.parquet"
    closed.write_bytes(b"no part")
    closed.chmod(0o600)
    before = {path.name: path.lstat() for path in (link, pipe, nowhere, closed)}
    done = repair(FolderStorage(store))
    moved = {path.name: path.lstat() for path in store.glob("quarantine/*/trials/*")}
    assert {name: (state.st_ino, state.st_mode) for name, state in moved.items()} == {
        name: (state.st_ino, state.st_mode) for name, state in before.items()
    }
    assert (done.trials, check_store(store).ok, secret.read_text()) == ({}, True, "root:x:0:0\n")


def test_a_folder_that_is_a_link_is_left_and_named(tmp_path: Path) -> None:
    complete(ResultStore(FolderStorage(tmp_path / "store")), FIRST)
    elsewhere = (tmp_path / "store" / "tags").rename(tmp_path / "elsewhere")
    (tmp_path / "store" / "tags").symlink_to(elsewhere)
    spoil(FolderStorage(tmp_path / "store"), "tags")
    with pytest.raises(StoreError, match="is a link, and a repair does not leave the store"):
        repair(FolderStorage(tmp_path / "store"))
    assert len(list(elsewhere.iterdir())) == 1


# --- Killed


def contents(folder: Path) -> set[str]:
    """The digest of every file."""
    return {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def test_a_repair_killed_at_any_moment_loses_nothing_and_can_be_repeated(real: Real, tmp_path: Path) -> None:
    broken = real.copy(tmp_path)
    for table in ("epochs", "predictions"):
        spoil(FolderStorage(broken), table)
    (broken / MARKER).write_bytes(b"{")
    shutil.copytree(broken, tmp_path / "whole")
    repair(FolderStorage(tmp_path / "whole"))
    at_once = numbers(tmp_path / "whole")
    for left in itertools.count():
        copy = Path(shutil.copytree(broken, tmp_path / str(left)))
        try:
            repair(Killed(copy, [left]))
            break
        except KeyboardInterrupt:
            assert contents(broken) <= contents(copy)
        repair(FolderStorage(copy))
        assert check_store(copy).ok
        assert contents(broken) <= contents(copy)
        assert numbers(copy) == at_once
    assert left > 6


# --- And then the sweep is launched


@each("kind", ["epochs", "contributions", "predictions", "checkpoints"], quick=1)
def test_after_a_repair_a_launch_gives_the_same_numbers(real: Real, tmp_path: Path, kind: str) -> None:
    copy, name = real.copy(tmp_path), next(name for name in real.files() if name.startswith(kind))
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    assert not check_store(copy).ok
    repair(FolderStorage(copy))
    assert check_store(copy).ok
    run_sweep(real.sweep, copy)
    assert check_store(copy).ok
    found = numbers(copy)
    lost = found.pop("predictions") if kind == "predictions" else []  # they cost no trial, so nothing runs again
    assert all(row in real.finished["predictions"] for row in lost)
    assert found == {table: rows for table, rows in real.finished.items() if table in found}
