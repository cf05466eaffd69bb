"""Exclusive access to a store: while the block runs, no driver of its sweeps can start.

A driver of a sweep that the store has never seen can start. Its rows do not affect a repair, nor a repair its rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from orchestrator.lease import LeaseHeldError, Timing, take_lease
from orchestrator.lease.claims import LEASES, claims_of
from orchestrator.lease.lease import TIMING
from orchestrator.storage.storage import Storage
from orchestrator.store.plans import SWEEPS
from trials.errors import StoreError


@contextlib.contextmanager
def alone(storage: Storage, doing: str, *, say: Callable[[str], None], timing: Timing = TIMING) -> Iterator[None]:
    """Hold the lease of every sweep of a store while the block runs.

    Args:
        storage: Of the store.
        doing: What the block does, a verb for the error message.
        say: Receives a line while another driver is waited for.
        timing: That of the store's drivers.

    Raises:
        StoreError: a driver is running a sweep of the store.
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
    """Sweep and name of each claim that cannot be read and that no driver renews; a live driver would write a new one.

    Args:
        storage: Of the store.
        say: Receives a line that says how long this takes, if there are any.
        timing: That of the store's drivers.
    """
    broken = _unreadable(storage)
    if not broken:
        return []
    leases = "1 lease" if len(broken) == 1 else f"{len(broken)} leases"
    say(f"{leases} cannot be read; waiting {timing.stale_s:.0f} s for a driver to renew what it holds.")
    timing.sleep(timing.stale_s)
    return sorted(broken & _unreadable(storage))


def _unreadable(storage: Storage) -> set[tuple[str, str]]:
    found = set()
    for sweep, folder, claim in claims_of(storage):
        try:
            folder.holder(claim)
        except StoreError:
            found.add((sweep, claim.names[-1]))
    return found
