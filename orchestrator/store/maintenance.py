"""Being the only one who works on a store: while the block runs no driver of its sweeps can start.

A sweep that the store has never seen can: its rows harm no repair, and no repair harms them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from orchestrator.lease import LeaseHeldError, Timing, take_lease
from orchestrator.lease.claims import ClaimFolder
from orchestrator.lease.lease import TIMING
from orchestrator.storage.storage import Storage
from orchestrator.store.check import LEASES
from orchestrator.store.plans import SWEEPS
from trials.errors import StoreError


@contextlib.contextmanager
def alone(storage: Storage, doing: str, *, say: Callable[[str], None], timing: Timing = TIMING) -> Iterator[None]:
    """Hold the lease of every sweep of a store while the block runs.

    Args:
        storage: The storage of the store.
        doing: What for, in the words of an error message.
        say: Is told whom we wait for.
        timing: As the store's drivers have it.

    Raises:
        StoreError: a driver runs a sweep of it.
    """
    sweeps = sorted({*storage.at(SWEEPS).folders(), *storage.at(LEASES).folders()})
    with contextlib.ExitStack() as stack:
        for sweep in sweeps:
            try:
                stack.enter_context(take_lease(storage, sweep, say=say, timing=timing))
            except LeaseHeldError as error:
                raise StoreError(f"cannot {doing} while a sweep runs: {error}") from error
        yield


def broken_claims(storage: Storage, *, say: Callable[[str], None], timing: Timing = TIMING) -> list[tuple[str, str]]:
    """Sweep and name of claims that cannot be read and do not move: a driver that lives would have written anew.

    Args:
        storage: The storage of the store.
        say: Is told how long it takes, where there are any.
        timing: As the store's drivers have it.
    """
    broken = _unreadable(storage)
    if not broken:
        return []
    say(f"{len(broken)} leases cannot be read; waiting {timing.stale_s:.0f} s whether their drivers give another sign.")
    timing.sleep(timing.stale_s)
    return sorted(broken & _unreadable(storage))


def _unreadable(storage: Storage) -> set[tuple[str, str]]:
    found = set()
    for sweep in storage.at(LEASES).folders():
        folder = ClaimFolder(storage.at(LEASES).at(sweep))
        for claim in folder.look().values():
            try:
                folder.holder(claim)
            except StoreError:
                found.add((sweep, claim.names[-1]))
    return found
