"""The temporary files that killed writers left in the folder of a store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.claims.membership import DRIVERS, Membership
from orchestrator.storage.storage import TEMPORARY_FILE, FolderStorage, Storage
from orchestrator.store.schema import QUARANTINE


@dataclass(frozen=True)
class StoredFile:
    """A file that is to be removed from a store.

    Attributes:
        folders: The folders from the store down to it.
    """

    folders: tuple[str, ...]
    name: str
    why: str
    n_bytes: int = 0

    @property
    def path(self) -> str:
        """Its path inside the store."""
        return "/".join((*self.folders, self.name))

    def folder_in(self, storage: Storage) -> Storage:
        """The folder of `storage` that corresponds to the file's own."""
        for folder in self.folders:
            storage = storage.at(folder)
        return storage


def remove_temporary_files(storage: Storage, membership: Membership) -> None:
    """Delete what killed writers left, unless another driver is present, which may be writing.

    The drivers are listed last: one that comes later had not begun to write what is deleted. The store's own folder and
    that of the drivers are left out, as they write there before they are present.
    """
    left = [file for file, _ in temporary_files(storage, without=(QUARANTINE, DRIVERS)) if file.folders]
    if left and not membership.others():
        for file in left:
            file.folder_in(storage).delete(file.name)


def temporary_files(storage: Storage, *, without: Sequence[str]) -> Iterator[tuple[StoredFile, float]]:
    """The temporary files below a folder, each with its time of modification."""
    if not isinstance(storage, FolderStorage):
        return
    for folder, inside, names in os.walk(storage.folder):
        parts = Path(folder).relative_to(storage.folder).parts
        inside[:] = sorted(name for name in inside if parts or name not in without)
        for name in sorted(filter(TEMPORARY_FILE.fullmatch, names)):
            with contextlib.suppress(FileNotFoundError):  # its writer has renamed it
                state = (Path(folder) / name).stat()
                yield StoredFile(parts, name, "temporary file of a killed writer", state.st_size), state.st_mtime
