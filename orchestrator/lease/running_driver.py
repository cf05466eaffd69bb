"""Who runs a sweep at the moment, for those who only look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from orchestrator.lease.claims import LEASES, ClaimFolder
from orchestrator.lease.holder import ALIVE_FORMAT, Holder, Presence, this_driver
from orchestrator.lease.lease import STALE_S
from orchestrator.storage.storage import Storage


def running_driver(store: Storage, sweep: str) -> Holder | None:
    """The driver that runs a sweep; None where none does, as far as can be told from here.

    Of a process on another machine its last sign of life decides, by two clocks: good enough to tell a person, and
    nothing is taken away for it.

    Raises:
        StoreError: the place cannot be read.
    """
    folder, me = ClaimFolder(store.at(LEASES).at(sweep)), this_driver()
    for claim in folder.look().values():
        holder = folder.holder(claim)
        if claim.holds and holder is not None:
            presence = holder.presence(me)
            if presence is Presence.HERE or (presence is Presence.UNKNOWN and _is_fresh(holder)):
                return holder
    return None


def _is_fresh(holder: Holder) -> bool:
    try:
        alive = datetime.strptime(holder.alive, ALIVE_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return False
    return abs(datetime.now(UTC) - alive) < timedelta(seconds=STALE_S)
