"""Which driver runs what: objects `claims/<trial_id>-<number>.json`, each created once and never changed.

In the same way `searches/<sweep>-<number>.json` says which driver runs the search of a sweep.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.claims.membership import DRIVERS, STALE_S, TIME_FORMAT, Holder, Membership, holder_of, present
from orchestrator.storage.storage import Storage, temporary_files
from trials.errors import StoreError

CLAIMS, SEARCHES = "claims", "searches"  # folders
_NAME = re.compile(r"(.+)-(\d{6,})\.json")


class Claims:
    """The claims in a folder, as one driver sees them. `refresh` lists them; everything else uses the last listing.

    An old listing is never wrong about which trials are free: a driver that was gone never comes back, and a number
    that was claimed since cannot be created again. That is why older claims to a trial stay until it has ended.

    Attributes:
        others: The tokens of the other drivers at the last look.
    """

    def __init__(self, folder: Storage, membership: Membership) -> None:
        self._folder, self._membership = folder, membership
        self._newest: dict[str, int] = {}
        self._drivers: dict[str, str] = {}  # by name of the claim
        self.others: frozenset[str] = frozenset()

    def refresh(self) -> None:
        """List all claims, then the drivers that are present. Raises StoreError."""
        # In this order: the driver of each listed claim was present before, so if it is not listed, it has ended.
        self._newest = {trial_id: max(numbers) for trial_id, numbers in _numbers(self._folder).items()}
        self.others = self._membership.others()

    def is_free(self, trial_id: str) -> bool:
        """Whether no other driver has the trial. Raises StoreError."""
        return self.owner(trial_id) not in self.others

    def owner(self, trial_id: str) -> str:
        """The token of the driver with the newest claim; empty if there is none. Raises StoreError."""
        if trial_id not in self._newest:
            return ""
        name = _name(trial_id, self._newest[trial_id])
        if name not in self._drivers:
            driver = _driver_in(self._folder, name)
            if driver is None:  # deleted since the last look, as its trial has ended: nobody's
                return ""
            self._drivers[name] = driver
        return self._drivers[name]

    @property
    def claimed(self) -> Collection[str]:
        """The trials that have a claim."""
        return self._newest.keys()

    def take(self, trial_id: str, at_least: int = 1) -> int | None:
        """Claim the next attempt at a trial, even if this driver made the one before.

        Args:
            trial_id: The trial.
            at_least: The smallest number to take; it must exceed that of every attempt with rows.

        Returns:
            The number of the attempt; None if another driver has the trial.

        Raises:
            StoreError: the storage does not answer, or cannot be written.
        """
        # If two drivers create the same number, the storage lets one succeed. The other lists again and finds the trial
        # taken, or free once more because the quicker driver has ended meanwhile.
        while self.is_free(trial_id):
            number = max(at_least, self._newest.get(trial_id, 0) + 1)
            if self._folder.create(_name(trial_id, number), _content(self._membership.token, trial_id, number)):
                self._newest[trial_id] = number
                self._drivers[_name(trial_id, number)] = self._membership.token
                return number
            self.refresh()
        return None

    def drop(self, trial_id: str) -> None:
        """Delete this driver's newest claim to a trial that turned out to have ended. Raises StoreError."""
        self._folder.delete(_name(trial_id, self._newest.pop(trial_id)))

    def delete(self, ended: Mapping[str, int]) -> None:
        """Delete the claims to trials that this driver has ended and whose rows are committed, up to that attempt.

        A later claim belongs to a driver that took the trial over or resumes it; without it a third driver could use
        the same number.

        Raises:
            StoreError: the storage does not answer.
        """
        # All of them up to that number, as older claims of other drivers stand until their trial has ended.
        claimed = _numbers(self._folder).items() if ended else ()
        names = [_name(trial_id, n) for trial_id, numbers in claimed for n in numbers if n <= ended.get(trial_id, 0)]
        for trial_id, number in ended.items():
            if self._newest.get(trial_id, 0) <= number:
                self._newest.pop(trial_id, None)
        self._folder.map(self._folder.delete, names)


def hold_search(store: Storage, membership: Membership, sweep: str) -> None:
    """Become the only driver of a sweep's search for as long as this one is present.

    Raises:
        BusyStoreError: another driver has it.
        StoreError: the storage does not answer, or cannot be written.
    """
    claims = Claims(store.subfolder(SEARCHES), membership)

    def rivals() -> tuple[str, ...]:
        claims.refresh()
        number = claims.take(sweep)
        if number is None:
            return (claims.owner(sweep),)
        claims.delete({sweep: number - 1})  # never the newest, whose number nobody may have again
        return ()

    membership.await_turn(rivals, "a search")


@contextlib.contextmanager
def drive(
    store: Storage, sweep: str, *, is_search: bool, say: Callable[[str], None], check_store: Callable[[], None]
) -> Iterator[Membership]:
    """Be a driver of a sweep while the block runs. Others may drive it too, except a search or a store without claims.

    A driver that is alone removes files that killed drivers left half written.

    Args:
        say, check_store: As of `Membership`.

    Raises:
        BusyStoreError: another driver runs the search, or works on a store that cannot hold claims.
        StoreError: the storage does not answer, or cannot be written.
    """
    can_claim = store.honours_create()
    if not can_claim:
        say("note    this storage ignores a condition that claims need, so one driver at a time works on the store.")
    with Membership(store, sweep, say=say, check_store=check_store) as membership:
        if not can_claim:
            membership.await_turn(membership.others, "such a store")
        elif is_search:
            hold_search(store, membership, sweep)
        unfinished = temporary_files(store, without=(DRIVERS,))
        if unfinished and not membership.others():  # listed last: who comes later writes other files
            for file in unfinished:
                file.unlink(missing_ok=True)
        yield membership


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
    folder, holders = store.subfolder(DRIVERS), dict[str, Holder]()
    for token, names in present(folder).items():
        holder = holder_of(folder, names[-1])
        if holder is not None and holder.sweep and sweep in (None, holder.sweep):
            alive = _unix_s(holder.alive)
            if alive is not None and abs(datetime.now(UTC).timestamp() - alive) < STALE_S:
                holders[token] = holder
    if not holders:
        return []
    claims = store.subfolder(CLAIMS)
    owners = {trial_id: _driver_in(claims, _name(trial_id, max(n))) for trial_id, n in _numbers(claims).items()}
    drivers = [
        RunningDriver(token, holder, frozenset(i for i, owner in owners.items() if owner == token))
        for token, holder in holders.items()
    ]
    return sorted(drivers, key=lambda driver: (driver.holder.since, driver.holder.host, driver.holder.pid))


def began_at(drivers: Iterable[RunningDriver]) -> float | None:
    """Unix time at which the first of some drivers started, by that one's clock; None if none runs."""
    return min((start_s for driver in drivers if (start_s := _unix_s(driver.holder.since)) is not None), default=None)


def likely_shares(drivers: Iterable[RunningDriver]) -> tuple[float | None, float]:
    """Shares of the work not begun that drivers of one sweep are likely to run (None: unknown), and that they may."""
    return next(((driver.holder.likely, driver.holder.most) for driver in drivers), (1.0, 1.0))


def _unix_s(stated: str) -> float | None:
    """The time that a driver states; None if that is not a time."""
    try:
        return datetime.strptime(stated, TIME_FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _numbers(folder: Storage) -> dict[str, list[int]]:
    """The numbers of all claims to each trial. Raises StoreError: the storage cannot be read."""
    numbers: dict[str, list[int]] = {}
    try:
        names = folder.files()
    except OSError as error:
        raise StoreError(f"{folder}: cannot be read ({error}).") from error
    for match in filter(None, map(_NAME.fullmatch, names)):
        numbers.setdefault(match[1], []).append(int(match[2]))
    return numbers


def _driver_in(folder: Storage, name: str) -> str | None:
    """The token in a claim; empty if it cannot be understood, None if the claim no longer exists. Raises StoreError."""
    try:
        content = folder.read(name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{folder}/{name}: cannot be read ({error}).") from error
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        return str(json.loads(content.decode("utf-8"))["driver"])
    return ""


def _name(trial_id: str, number: int) -> str:
    return f"{trial_id}-{number:06d}.json"


def _content(token: str, trial_id: str, number: int) -> bytes:
    return (json.dumps({"driver": token, "trial_id": trial_id, "attempt": number}) + "\n").encode()
