"""The drivers that are running sweeps, for readers of a store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from orchestrator.claims.claims import CLAIMS, drivers_of
from orchestrator.claims.holder import ALIVE_FORMAT, Holder, Presence, this_process
from orchestrator.claims.roster import STALE_S, TIMING, Roster
from orchestrator.storage.storage import Storage


@dataclass(frozen=True)
class RunningDriver:
    """A driver that is running a sweep.

    Attributes:
        token: Identifies it.
        holder: Its process.
        trials: The ids of the trials that it has claimed and not ended.
    """

    token: str
    holder: Holder
    trials: frozenset[str]

    def __str__(self) -> str:
        n = len(self.trials)
        return f"{self.holder} since {self.holder.since}, {n} trial{'' if n == 1 else 's'}"


def running_drivers(store: Storage, sweep: str | None = None) -> list[RunningDriver]:
    """The drivers that are running a sweep, or any; the oldest first, as far as can be seen from here.

    For a process on another machine its last heartbeat decides, although it was timed by another clock: good enough for
    display, and nothing is deleted because of it.

    Raises:
        StoreError: the place cannot be read.
    """
    me = this_process()
    roster, holders = Roster(store, me, TIMING, lambda _: None), dict[str, Holder]()
    for token, member in roster.members().items():
        holder = roster.holder(member)
        if holder is not None and holder.sweep and sweep in (None, holder.sweep):
            presence = holder.presence(me)
            if presence is Presence.HERE or (presence is Presence.UNKNOWN and _is_fresh(holder)):
                holders[token] = holder
    if not holders:
        return []
    tokens = drivers_of(store.at(CLAIMS))
    drivers = [
        RunningDriver(token, holder, frozenset(i for i, owner in tokens.items() if owner == token))
        for token, holder in holders.items()
    ]
    return sorted(drivers, key=lambda driver: (driver.holder.since, driver.holder.host, driver.holder.pid))


def began_at(drivers: Iterable[RunningDriver]) -> float | None:
    """Unix time at which the first of some drivers started, by that one's clock; None if none runs."""
    return min((at for driver in drivers if (at := driver.holder.since_unix_s) is not None), default=None)


def likely_shares(drivers: Iterable[RunningDriver]) -> tuple[float | None, float]:
    """Shares of the work not begun that drivers of one sweep are likely to run (None: unknown), and that they may."""
    return next(((driver.holder.likely, driver.holder.most) for driver in drivers), (1.0, 1.0))


def _is_fresh(holder: Holder) -> bool:
    try:
        alive = datetime.strptime(holder.alive, ALIVE_FORMAT).replace(tzinfo=UTC)
    except (ValueError, TypeError):
        return False
    return abs(datetime.now(UTC) - alive) < timedelta(seconds=STALE_S)
