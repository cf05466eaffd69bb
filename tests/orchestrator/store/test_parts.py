"""Immutable Parquet parts: seen whole or not at all, and never lost."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import EPOCHS, PREDICTIONS, SCHEMA_VERSION, VERSION_KEY, stamped_name
from tests.examples import ALL, each
from tests.orchestrator.store.killed_storage import Killed
from tests.orchestrator.store.rows import epoch
from trials.errors import StoreError


@pytest.fixture
def parts(storage: Storage) -> PartFolder:
    return PartFolder(storage.subfolder("epochs"), EPOCHS)


@pytest.fixture
def local(local_storage: FolderStorage) -> FolderStorage:
    return local_storage.subfolder("epochs")


def steps(parts: PartFolder) -> list[int]:
    return list(parts.read()["step"].to_pylist())


def as_parquet(table: pa.Table, version: bytes | None) -> pa.Buffer:
    """A file of somebody else, or of another version."""
    table = table.replace_schema_metadata(None if version is None else {VERSION_KEY: version})
    pq.write_table(table, sink := pa.BufferOutputStream())
    return sink.getvalue()


def content(parts: PartFolder) -> dict[str, bytes]:
    return {name: parts.storage.read(name) for name in parts.storage.files()}


def test_parts_are_read_back_in_order_and_say_their_version_and_an_append_changes_none(parts: PartFolder) -> None:
    assert (len(parts.read()), parts.read().schema.names) == (0, EPOCHS.names)
    assert parts.storage.is_free()
    parts.append([epoch(step=1), epoch(step=2)])
    before = content(parts)
    parts.append([epoch(step=3)])
    assert before.items() < content(parts).items()
    assert steps(parts) == [1, 2, 3]
    metadata = pq.read_schema(parts.storage.open(parts.names()[0])).metadata
    assert metadata[VERSION_KEY] == str(SCHEMA_VERSION).encode()


def test_what_a_kill_left_between_write_and_rename_is_never_seen(local: FolderStorage) -> None:
    parts = PartFolder(local, EPOCHS)
    parts.append([epoch(step=1)])
    (local.folder / f".{parts.names()[0]}.tmp").write_bytes(b"PAR1 half a part")
    parts.append([epoch(step=2)])
    parts.compact()
    assert steps(parts) == [1, 2]


def test_a_reader_beside_a_compacting_writer_always_sees_every_row(parts: PartFolder) -> None:
    parts.append([epoch(step=0)])
    done = threading.Event()

    def write_on() -> None:
        for step in range(1, 15):
            parts.append([epoch(step=step)])
            parts.compact()
        done.set()

    with ThreadPoolExecutor(1) as pool:
        writing, seen = pool.submit(write_on), 1
        while not done.is_set() and not writing.done():
            found = sorted(set(steps(parts)))
            assert found == list(range(len(found)))
            assert len(found) >= seen
            seen = len(found)
        writing.result()
    assert sorted(steps(parts)) == list(range(15))


def put(parts: PartFolder, content: bytes | pa.Buffer, stamp_ns: int = 1) -> str:
    """A part of these bytes under a name that has their digest."""
    name = stamped_name("part", stamp_ns, content, "parquet")
    parts.storage.write(name, content)
    return name


def test_a_part_reads_with_nulls_in_what_it_lacks_and_without_columns_that_are_not_known(parts: PartFolder) -> None:
    put(parts, as_parquet(pa.table({"trial_id": ["a"], "attempt": [1], "step": [7], "mood": ["good"]}), b"1"))
    parts.append([epoch(step=8)])
    assert parts.read().schema.names == EPOCHS.names
    before, new = parts.read().to_pylist()
    assert (before["step"], before["score"], before["step_losses"], before["time"]) == (7, None, None, None)
    assert (new["step"], new["score"]) == (8, 0.5)


STEP, NEWER = pa.table({"step": [7]}), str(SCHEMA_VERSION + 1).encode()
TWICE = pa.table([["t"], [1], [2]], names=["trial_id", "step", "step"])


@each(
    "broken, said",
    [
        *((as_parquet(STEP, version), "not written by permafrost. ") for version in (None, b"", b"0", b"one")),
        *((text, "not a readable Parquet file (") for text in (b"", b"PAR1", b"not Parquet at all")),
        (as_parquet(pa.table({"step": ["seven"]}), b"1"), ""),
        (as_parquet(TWICE, b"1"), "not a readable Parquet file (two columns have the same name). "),
    ],
)
def test_a_broken_part_is_reported_and_left_out(
    tmp_path: Path, broken: bytes | pa.Buffer, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    parts = PartFolder(FolderStorage(tmp_path), EPOCHS)
    parts.append([epoch(step=1)])
    name = put(parts, broken)
    assert steps(parts) == steps(parts) == [1]
    (problem,) = caplog.messages  # once, however often it is read
    assert problem.startswith(f"{tmp_path}/{name}: {said}")
    assert "It is left out, and the same launch runs again what it held." in problem


def test_a_part_of_a_newer_version_is_an_error_as_its_rows_would_be_missed(local: FolderStorage) -> None:
    put(PartFolder(local, EPOCHS), as_parquet(STEP, NEWER))
    with pytest.raises(StoreError, match=rf"written by a newer version \(schema {SCHEMA_VERSION + 1}.*Upgrade"):
        PartFolder(local, EPOCHS).read()


def test_a_part_that_the_disk_does_not_give_back_is_an_error_and_not_left_out(local: FolderStorage) -> None:
    class Failing(FolderStorage):
        def open(self, name: str) -> pa.NativeFile:
            raise OSError(errno.EIO, "Input/output error")

    PartFolder(local, EPOCHS).append([epoch()])
    with pytest.raises(StoreError, match=r"cannot be read \(Input/output error\)\. Make it readable, or delete it"):
        PartFolder(Failing(local.folder), EPOCHS).read()


def test_a_part_that_is_a_pointer_of_git_is_named_with_the_command_that_fetches_it(local: FolderStorage) -> None:
    parts = PartFolder(local, EPOCHS)
    parts.append([epoch()])
    (name,) = parts.names()
    local.write(name, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(StoreError, match=r"cannot be read \(a Git LFS pointer: `git lfs pull` fetches the file\)"):
        parts.read()


def test_any_flipped_bit_takes_the_whole_part_out_and_changes_no_row(local: FolderStorage) -> None:
    parts = PartFolder(local, EPOCHS)
    parts.append([epoch(step=step) for step in range(20)])
    (name,) = parts.names()
    content = local.read(name)
    for at in range(0, len(content), 1 if ALL else 97):
        local.write(name, content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        assert steps(parts) == []
    local.write(name, content[:-1])
    assert steps(parts) == []
    local.write(name, content)
    assert steps(parts) == list(range(20))


def test_a_read_that_went_wrong_once_is_repeated(parts: PartFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    parts.append([epoch(step=1)])
    monkeypatch.setattr(type(parts.storage), "open", lambda storage, name: pa.BufferReader(b"another"))
    assert steps(parts) == [1]


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(local: FolderStorage) -> None:
    local.folder.write_text("a file in its place")
    with pytest.raises(StoreError) as error:
        PartFolder(local, EPOCHS).append([epoch()])
    assert str(error.value) == f"{local}: cannot be written (File exists). What was committed before is intact."


@pytest.mark.parametrize("after", range(6))
def test_a_compaction_killed_at_any_moment_loses_nothing(local: FolderStorage, after: int) -> None:
    parts = PartFolder(local, EPOCHS)
    for step in range(4):
        parts.append([epoch(step=step)])
    if after < 5:
        with pytest.raises(KeyboardInterrupt):
            PartFolder(Killed(local.folder, [after]), EPOCHS).compact()
    assert set(steps(parts)) == {0, 1, 2, 3}
    parts.compact()
    assert set(steps(parts)) == {0, 1, 2, 3}
    assert len(parts.names()) == 1


# --- Objects of a bounded size


class Small(FolderStorage):
    """A folder whose objects may not be large."""

    largest_bytes = 40_000

    def subfolder(self, name: str) -> Small:
        return Small(self.folder / name)


def noisy(step: int) -> dict[str, Any]:
    """A row that cannot be compressed."""
    return epoch(step=step, step_losses=np.random.default_rng(step).random(1000, np.float32).tolist())


def test_what_is_too_large_for_an_object_is_committed_in_several(local: FolderStorage) -> None:
    parts = PartFolder(Small(local.folder), EPOCHS)
    parts.append([noisy(step) for step in range(30)])
    assert len(parts.names()) == 8
    assert max(parts.sizes().values()) <= 40_000
    assert steps(parts) == list(range(30))


def test_compaction_leaves_parts_alone_that_have_their_size_however_large_the_table_grows(
    local: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.store.parts.PART_BYTES", 200_000)
    parts, written, full = PartFolder(local, EPOCHS), list[int](), set[str]()
    for step in range(0, 200, 10):
        parts.append([noisy(one) for one in range(step, step + 10)])
        if step % 40 == 30:
            before = parts.sizes()
            parts.compact()
            written.append(sum(size for name, size in parts.sizes().items() if name not in before))
            assert full <= parts.sizes().keys()
            full = {name for name, size in parts.sizes().items() if size > 180_000}
    assert max(written) < 450_000  # of what came since and what was not full, 250 and 200 kB; all is 1 MB in the end
    assert len(parts.names()) < 10
    assert steps(parts) == list(range(200))


def _bombs() -> dict[str, pa.Table]:
    megabyte = pa.array(["x" * 2**20])
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), megabyte)
    one_row = pa.ListArray.from_arrays(pa.array([0, 4000], pa.int32()), texts)
    return {
        "one text in all rows": pa.table({"trial_id": texts}),
        "one text in all places of a list": pa.table({"trial_id": ["a"], "forms": one_row}),
    }


@pytest.mark.parametrize("kind", ["one text in all rows", "one text in all places of a list"])
def test_kilobytes_that_become_gigabytes_are_a_broken_part(kind: str, local_storage: Storage) -> None:
    parts = PartFolder(local_storage, PREDICTIONS)
    pq.write_table(_bombs()[kind].replace_schema_metadata(parts.schema.metadata), sink := pa.BufferOutputStream())
    content = sink.getvalue()
    name = stamped_name("part", 1, content, "parquet")
    local_storage.write(name, content)
    assert content.size < 2**18
    assert len(parts.read()) == len(parts.read(columns=["trial_id", "forms"])) == len(parts.read("a")) == 0
    local_storage.write(stamped_name("part", 2, content, "parquet"), content)  # so that there are two to merge
    parts.compact()
    assert len(parts.names()) == 2
