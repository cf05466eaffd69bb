"""a folder of this machine as a storage: what was written is there after a power cut, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.storage.storage import FolderStorage
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
    disk, storage = Disk(monkeypatch), FolderStorage(tmp_path / "new" / "store").at("epochs")
    for name in ("first", "second"):
        storage.write(name, name.encode())
        assert disk.read(storage.folder / name) == name.encode()
    for folder in (storage.folder, storage.folder.parent, storage.folder.parent.parent):
        assert folder.name in disk.names[folder.parent]


@pytest.mark.parametrize("said", [22, 95])  # invalid argument, not supported
def test_a_file_system_that_flushes_no_folders_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: int
) -> None:
    def fsync(opened: int) -> None:
        if Path(f"/proc/self/fd/{opened}").readlink().is_dir():
            raise OSError(said, os.strerror(said))

    monkeypatch.setattr(os, "fsync", fsync)
    storage = FolderStorage(tmp_path)
    storage.write("a", b"1")
    assert storage.read("a") == b"1"


def test_a_disk_that_fails_while_it_flushes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(opened: int) -> None:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match="Input/output error"):
        FolderStorage(tmp_path).write("a", b"1")
    assert list(tmp_path.iterdir()) == []
