"""Files that nobody needs any more: temporary files of killed writers, checkpoints and claims of completed trials."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from orchestrator.claims.claims import CLAIMS, listed, trial_of
from orchestrator.extras.store_care.check import check_store
from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore
from orchestrator.store.schema import CHECKPOINTS, QUARANTINE
from orchestrator.store.stored_tensors import CHECKPOINT_FILE, WEIGHTS, WEIGHTS_FILE
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
    now, completed = time.time() if now is None else now, ResultStore(storage).completed_ids()
    garbage = [file for file, modified in temporary_files(storage, without=(QUARANTINE,)) if now - modified > OLD_S]
    claims = set(listed(storage.at(CLAIMS)))  # of killed drivers; those to other trials say which attempts there were
    kinds: tuple[tuple[str, Callable[[str], str | None], bool, str], ...] = (
        (CHECKPOINTS, lambda name: _trial_in(CHECKPOINT_FILE, name), True, "checkpoint of a completed trial"),
        (WEIGHTS, lambda name: _trial_in(WEIGHTS_FILE, name), False, "weights of a trial that has not completed"),
        (CLAIMS, lambda name: trial_of(name) if name in claims else None, True, "claim to a completed trial"),
    )
    for folder, owner_of, is_completed, why in kinds:
        for name, n_bytes in storage.at(folder).files().items():
            owner = owner_of(name)
            if owner is not None and (owner in completed) == is_completed:
                garbage.append(StoredFile((folder,), name, why, n_bytes))
    return garbage


def _trial_in(pattern: re.Pattern[str], name: str) -> str | None:
    match = pattern.fullmatch(name)
    return match and match[1]
