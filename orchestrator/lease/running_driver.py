"""The driver that is running a sweep, for readers of a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from orchestrator.lease.claims import LEASES, ClaimFolder
from orchestrator.lease.holder import ALIVE_FORMAT, Holder, Presence, this_driver
from orchestrator.lease.lease import STALE_S
from orchestrator.storage.storage import Storage


def running_driver(store: Storage, sweep: str) -> Holder | None:
    """The driver that is running a sweep; None if there is none, as far as can be seen from here.

    For a process on another machine its last heartbeat decides, although it was timed by another clock: good enough for
    display, and nothing is deleted because of it.

    Raises:
        StoreError: the place cannot be read.
    """
    folder, me = ClaimFolder(store.at(LEASES).at(sweep)), this_driver()
    for claim in folder.claims().values():
        holder = folder.holder(claim)
        if claim.holds and holder is not None:
            presence = holder.presence(me)
            if presence is Presence.HERE or (presence is Presence.UNKNOWN and _is_fresh(holder)):
                return holder
    return None


def _is_fresh(holder: Holder) -> bool:
    try:
        alive = datetime.strptime(holder.alive, ALIVE_FORMAT).replace(tzinfo=UTC)
    except (ValueError, TypeError):
        return False
    return abs(datetime.now(UTC) - alive) < timedelta(seconds=STALE_S)
