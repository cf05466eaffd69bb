"""Files that nobody needs any more: temporary files of killed writers, checkpoints of completed trials, dead claims."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.lease.claims import LEASES, Claim, ClaimFolder, claims_of
from orchestrator.lease.holder import Presence, this_driver
from orchestrator.storage.storage import TEMPORARY_FILE, FolderStorage, Storage
from orchestrator.store.check import CHECKPOINT, QUARANTINE, check_store, completed_ids
from orchestrator.store.names import CHECKPOINTS
from orchestrator.store.report import StoredFile
from orchestrator.store.weights import WEIGHTS, weights_of
from trials.errors import StoreError

OLD_S = 24 * 3600.0  # of a temporary file: no writer takes so long


def find_garbage(storage: Storage, now: float | None = None) -> list[StoredFile]:
    """The files that may be deleted. Temporary files are only found in folders; in object stores only HDFS has any.

    Raises:
        StoreError: no store there, or something is wrong with it, so that what is needed is unknown.
    """
    report = check_store(storage)
    if not report.ok:
        raise StoreError(
            f"{storage}: not intact, the first finding is: {report.findings[0]}. "
            "Run `permafrost store repair` first: until then it is unknown which files are needed."
        )
    completed = completed_ids(report.tables)
    old = _old_temporary_files(storage, time.time() if now is None else now)
    return [*old, *_checkpoints(storage, completed), *_weights(storage, completed), *_dead_claims(storage)]


def collect(storage: Storage, garbage: Sequence[StoredFile]) -> None:
    """Delete files."""
    for file in garbage:
        file.folder_in(storage).delete(file.name)


def remove_temporary_files(storage: Storage, sweep: str) -> None:
    """Delete what killed writers left, unless the driver of another sweep may be writing; `sweep` is one's own.

    The claims are listed last: a driver that claims a sweep later had not begun to write what is deleted. The folder of
    the claims is left out, as drivers write there before they have one.
    """
    left = [file for file, _ in _temporary_files(storage, without=(QUARANTINE, LEASES))]
    if left and not any(_may_be_alive(folder, claim) for other, folder, claim in claims_of(storage) if other != sweep):
        collect(storage, left)


def _may_be_alive(folder: ClaimFolder, claim: Claim) -> bool:
    try:
        holder = folder.holder(claim)
    except StoreError:
        return True
    return holder is not None and holder.presence(this_driver()) is not Presence.GONE


def _old_temporary_files(storage: Storage, now: float) -> Iterator[StoredFile]:
    for file, modified in _temporary_files(storage, without=(QUARANTINE,)):
        if now - modified > OLD_S:
            yield file


def _temporary_files(storage: Storage, *, without: Sequence[str]) -> Iterator[tuple[StoredFile, float]]:
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


def _checkpoints(storage: Storage, completed: set[str]) -> Iterator[StoredFile]:
    for name, n_bytes in storage.at(CHECKPOINTS).files().items():
        match = CHECKPOINT.fullmatch(name)
        if match and match[1] in completed:
            yield StoredFile((CHECKPOINTS,), name, "checkpoint of a completed trial", n_bytes)


def _weights(storage: Storage, completed: set[str]) -> Iterator[StoredFile]:
    sizes = storage.at(WEIGHTS).files()
    for trial_id, names in weights_of(storage).items():
        for name in names if trial_id not in completed else ():
            yield StoredFile((WEIGHTS,), name, "weights of a trial that has not completed", sizes.get(name, 0))


def _dead_claims(storage: Storage) -> Iterator[StoredFile]:
    """Claims of drivers on this machine that have ended; of others only a launch of the sweep can find out."""
    me = this_driver()
    for sweep, folder, claim in claims_of(storage):
        holder = folder.holder(claim)
        if holder is not None and holder.presence(me) is Presence.GONE:
            sizes = folder.storage.files()
            for name in claim.names:
                yield StoredFile((LEASES, sweep), name, f"claim of {holder}, which has ended", sizes.get(name, 0))
