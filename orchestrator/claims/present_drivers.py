"""The drivers that are running sweeps, for readers of a store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.claims.claims import CLAIMS, drivers_of
from orchestrator.claims.membership import DRIVERS, STALE_S, TIME_FORMAT, Holder, holder_of, present
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

    The time of its last heartbeat decides, although it was timed by another clock: good enough for display, and
    nothing is deleted because of it.

    Raises:
        StoreError: the place cannot be read.
    """
    folder, holders = store.at(DRIVERS), dict[str, Holder]()
    for token, names in present(folder).items():
        holder = holder_of(folder, names[-1])
        if holder is not None and holder.sweep and sweep in (None, holder.sweep):
            alive = _unix_s(holder.alive)
            if alive is not None and abs(datetime.now(UTC).timestamp() - alive) < STALE_S:
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
    return min((at for driver in drivers if (at := _unix_s(driver.holder.since)) is not None), default=None)


def likely_shares(drivers: Iterable[RunningDriver]) -> tuple[float | None, float]:
    """Shares of the work not begun that drivers of one sweep are likely to run (None: unknown), and that they may."""
    return next(((driver.holder.likely, driver.holder.most) for driver in drivers), (1.0, 1.0))


def _unix_s(stated: str) -> float | None:
    """The time that a driver states; None if that is not a time."""
    try:
        return datetime.strptime(stated, TIME_FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
