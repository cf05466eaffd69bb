"""A storage creates an object once; what a folder has written is there after a power cut, too."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.storage.storage import FolderStorage, Storage, temporary_files
from trials.errors import StoreError


class Disk:
    """What a power cut leaves: the names that a folder held when it was last flushed, and flushed files' bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[Path, dict[str, int]] = {}
        self.files: dict[int, bytes] = {}
        monkeypatch.setattr(os, "fsync", self._flush)

    def _flush(self, opened: int) -> None:
        path = Path(f"/proc/self/fd/{opened}").readlink()
        if path.is_dir():
            self.names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self.files[path.stat().st_ino] = path.read_bytes()

    def read(self, path: Path) -> bytes | None:
        """A file's bytes after a power cut."""
        return self.files.get(self.names.get(path.parent, {}).get(path.name, 0))


def test_what_was_written_is_there_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, storage = Disk(monkeypatch), FolderStorage(tmp_path / "new" / "store").subfolder("epochs")
    for name in ("first", "second"):
        storage.write(name, name.encode())
        assert disk.read(storage.folder / name) == name.encode()
    for folder in (storage.folder, storage.folder.parent, storage.folder.parent.parent):
        assert folder.name in disk.names[folder.parent]


def failing(code: int, *, folders_only: bool = False) -> Callable[[int], None]:
    """An `fsync` that answers this."""

    def fsync(opened: int) -> None:
        if not folders_only or Path(f"/proc/self/fd/{opened}").readlink().is_dir():
            raise OSError(code, os.strerror(code))

    return fsync


def test_a_file_system_that_flushes_no_folders_is_written_to_and_a_disk_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FolderStorage(tmp_path)
    monkeypatch.setattr(os, "fsync", failing(5))
    with pytest.raises(StoreError, match="Input/output error"):
        storage.write("a", b"1")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "fsync", failing(22, folders_only=True))  # invalid argument
    storage.write("a", b"1")
    assert storage.read("a") == b"1"


# --- Objects that are created only if they are absent


def test_an_object_is_created_once_and_who_asks_again_with_its_content_is_told_that_it_is_his(storage: Storage) -> None:
    claims = storage.subfolder("new").subfolder("claims")
    answers = [claims.create("a", content) for content in (b"first", b"second", b"first")]
    assert (answers, claims.read("a"), list(claims.files())) == ([True, False, True], b"first", ["a"])


@pytest.fixture(params=["links", "no links"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStorage:
    """On a file system that has hard links, or none."""

    def refuse(source: object, target: object) -> None:
        raise PermissionError(1, os.strerror(1))

    if request.param == "no links":
        monkeypatch.setattr(os, "link", refuse)
    return FolderStorage(tmp_path / "claims")


def test_of_many_who_create_an_object_at_the_same_time_one_is_told_that_it_is_his(folder: FolderStorage) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            told = list(pool.map(lambda caller: folder.create(f"{number}", bytes([caller])), range(8)))  # noqa: B023
            assert sum(told) == 1
            assert folder.read(f"{number}") == bytes([told.index(True)])
    assert len(folder.files()) == len(list(folder.folder.iterdir())) == 20  # and no temporary file


def test_a_created_object_is_there_after_a_power_cut_and_none_on_a_disk_that_is_full(
    folder: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    assert folder.create("a", b"mine")
    assert disk.read(folder.folder / "a") == b"mine"
    assert folder.folder.name in disk.names[folder.folder.parent]
    monkeypatch.setattr(os, "fsync", failing(28))
    with pytest.raises(StoreError, match="No space left"):
        folder.create("b", b"mine")
    assert [path.name for path in folder.folder.iterdir()] == ["a"]


def test_a_folder_is_found_to_honour_create_and_one_that_overwrites_is_not(folder: FolderStorage) -> None:
    class Overwriting(FolderStorage):
        def create(self, name: str, content: bytes) -> bool:
            self.write(name, content)
            return True

    assert (folder.honours_create(), Overwriting(folder.folder).honours_create()) == (True, False)
    assert list(folder.folder.iterdir()) == []


def test_what_killed_writers_left_is_found_but_where_others_write_before_they_are_present(tmp_path: Path) -> None:
    left = [tmp_path / name for name in ("epochs/.part-1.parquet.0123abcd.tmp", "sweeps/a/.plan-1.json.0123abcd.tmp")]
    others = [tmp_path / name for name in (".probe.0123abcd.tmp", "drivers/.a.0123abcd.tmp", "epochs/part-1.parquet")]
    for path in (*left, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert sorted(temporary_files(FolderStorage(tmp_path), without=("drivers",))) == left
