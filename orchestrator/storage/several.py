"""Several stores that are read as one, without writing to any of them.

A trial counts from one store: the first that has it complete, else the first that has most attempts at it. Rows that
others have of it are left out, so that attempts of one number in two stores never mix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import pyarrow as pa

from orchestrator.storage.storage import LAST, Storage
from trials.errors import StoreError

Owners = Mapping[str, Mapping[str, int]]  # by folder: trial id -> the number of the store whose rows count


class SeveralStorages(Storage):
    """Folders of the same name in several stores. Of objects of one name the first store's is read."""

    def __init__(self, storages: Sequence[Storage], owners: Owners, folder: str = "") -> None:
        self._storages, self._owners, self._folder = tuple(storages), owners, folder
        self.address = ",".join(storage.address for storage in storages)
        self.at_once = max(storage.at_once for storage in storages)

    def __str__(self) -> str:
        return ",".join(map(str, self._storages))

    def at(self, name: str) -> SeveralStorages:
        """The folders of this name inside."""
        return SeveralStorages([storage.at(name) for storage in self._storages], self._owners, name)

    def files(self, after: str = "", before: str = LAST) -> dict[str, int]:
        """Name and size of each object."""
        listed = [storage.files(after, before) for storage in reversed(self._storages)]
        return dict(sorted({name: size for files in listed for name, size in files.items()}.items()))

    def folders(self) -> list[str]:
        """The names of the folders inside."""
        return sorted({name for storage in self._storages for name in storage.folders()})

    def exists(self, name: str) -> bool:
        """Whether any has an object."""
        return any(storage.exists(name) for storage in self._storages)

    def open(self, name: str) -> pa.NativeFile:
        """Open the first store's object of this name."""
        return pa.BufferReader(self.read(name))

    def read(self, name: str) -> bytes:
        """The content of the first store's object of this name."""
        return self._storages[self._place(name)].read(name)

    def _place(self, name: str) -> int:
        """The number of the first store that has an object. Raises FileNotFoundError."""
        for number, storage in enumerate(self._storages):
            if storage.exists(name):
                return number
        raise FileNotFoundError(f"{self}/{name}")

    def owned(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows of trials that count from the store that has this part, or from none yet."""
        owner_of = self._owners.get(self._folder)
        if owner_of is None:
            return rows
        here = self._place(name)
        counts = [owner_of.get(trial_id, here) == here for trial_id in rows["trial_id"].to_pylist()]
        return rows.filter(pa.array(counts, pa.bool_()))

    def _refuse(self) -> NoReturn:
        raise StoreError(f"{self}: several stores are only read. Give one with --store.")

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Raise StoreError: nothing is written."""
        self._refuse()

    def create(self, name: str, content: bytes) -> bool:
        """Raise StoreError."""
        self._refuse()

    def delete(self, name: str) -> None:
        """Raise StoreError."""
        self._refuse()

    def check_writable(self) -> None:
        """Raise StoreError."""
        self._refuse()

    def is_free(self) -> bool:
        """They are stores."""
        return False
