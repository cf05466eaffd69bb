"""What nobody can need any more: temporary files of killed writers, checkpoints of completed trials, dead claims."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.lease.claims import ClaimFolder
from orchestrator.lease.holder import Presence, this_driver
from orchestrator.storage.storage import LITTER, FolderStorage, Storage
from orchestrator.store.check import CHECKPOINT, CHECKPOINTS, LEASES, QUARANTINE, completed_ids, diagnose
from orchestrator.store.contents import TableContents
from trials.errors import StoreError

OLD_S = 24 * 3600.0  # of a temporary file: no writer takes so long


@dataclass(frozen=True)
class Garbage:
    """A file that can go.

    Attributes:
        folder: The folders from the store to it.
        why: What it was.
    """

    folder: tuple[str, ...]
    name: str
    n_bytes: int
    why: str

    @property
    def path(self) -> str:
        """From the store to it."""
        return "/".join((*self.folder, self.name))


def find_garbage(storage: Storage, now: float | None = None) -> list[Garbage]:
    """What can go. Of an object store no temporary files are listed: only HDFS may have any.

    Raises:
        StoreError: no store there, or something is wrong with it, so that nobody can tell what is needed.
    """
    found, report, tables = diagnose(storage)
    if not report.ok:
        raise StoreError(
            f"{storage}: has {len(found.findings)} faults, the first: {found.findings[0]}. "
            "Run `permafrost store repair` first: what is needed cannot be told."
        )
    return [*_litter(storage, time.time() if now is None else now), *_checkpoints(storage, tables), *_claims(storage)]


def collect(storage: Storage, garbage: Sequence[Garbage]) -> None:
    """Delete files."""
    for one in garbage:
        folder = storage
        for name in one.folder:
            folder = folder.at(name)
        folder.delete(one.name)


def _litter(storage: Storage, now: float) -> Iterator[Garbage]:
    if not isinstance(storage, FolderStorage):
        return
    for folder, inside, names in os.walk(storage.folder):
        parts = Path(folder).relative_to(storage.folder).parts
        inside[:] = sorted(name for name in inside if (*parts, name) != (QUARANTINE,))
        for name in sorted(filter(LITTER.fullmatch, names)):
            state = (Path(folder) / name).stat()
            if now - state.st_mtime > OLD_S:
                yield Garbage(parts, name, state.st_size, "temporary file of a killed writer")


def _checkpoints(storage: Storage, tables: dict[str, TableContents]) -> Iterator[Garbage]:
    completed = completed_ids(tables)
    for name, n_bytes in storage.at(CHECKPOINTS).files().items():
        match = CHECKPOINT.fullmatch(name)
        if match and match[1] in completed:
            yield Garbage((CHECKPOINTS,), name, n_bytes, "checkpoint of a completed trial")


def _claims(storage: Storage) -> Iterator[Garbage]:
    """Objects of drivers that live no more; of a driver elsewhere only a launch of its sweep can tell."""
    me = this_driver()
    for sweep in storage.at(LEASES).folders():
        folder = ClaimFolder(storage.at(LEASES).at(sweep))
        sizes = folder.storage.files()
        for claim in folder.look().values():
            holder = folder.holder(claim)
            if holder is not None and holder.presence(me) is Presence.GONE:
                for name in claim.names:
                    yield Garbage((LEASES, sweep), name, sizes.get(name, 0), f"claim of {holder}, which has ended")
