"""Files that nobody needs any more: temporary files of killed writers, checkpoints and claims of completed trials."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from orchestrator.claims.claims import CLAIMS, listed, trial_of
from orchestrator.storage.storage import Storage
from orchestrator.store.check import CHECKPOINT, check_store, completed_ids
from orchestrator.store.contents import WEIGHTS, weights_of
from orchestrator.store.schema import CHECKPOINTS, QUARANTINE
from orchestrator.store.temporary_files import StoredFile, temporary_files
from trials.errors import StoreError

OLD_S = 24 * 3600.0  # of a temporary file: no writer takes so long


def find_garbage(storage: Storage, now: float | None = None) -> list[StoredFile]:
    """The files that may be deleted. Temporary files are only found in folders, as object stores have none.

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
    return [*old, *_checkpoints(storage, completed), *_weights(storage, completed), *_claims(storage, completed)]


def collect(storage: Storage, garbage: Sequence[StoredFile]) -> None:
    """Delete files."""
    for file in garbage:
        file.folder_in(storage).delete(file.name)


def _old_temporary_files(storage: Storage, now: float) -> Iterator[StoredFile]:
    for file, modified in temporary_files(storage, without=(QUARANTINE,)):
        if now - modified > OLD_S:
            yield file


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


def _claims(storage: Storage, completed: set[str]) -> Iterator[StoredFile]:
    """Those of killed drivers. Those to other trials say which attempts there were."""
    folder = storage.at(CLAIMS)
    sizes = folder.files()
    for name in listed(folder):
        if trial_of(name) in completed:
            yield StoredFile((CLAIMS,), name, "claim to a completed trial", sizes.get(name, 0))
