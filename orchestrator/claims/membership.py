"""Who works on a store: the presence of each process, which sends heartbeats while it lives.

A presence is a sequence of objects `drivers/<token>-<count>.json` of one process: each heartbeat writes the next one
and deletes the previous one, because objects never change. A listing is enough to see who is present and who has
moved; an object is read only to find out whose it is.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import Field, ValidationError

from orchestrator.storage.storage import Storage
from trials.errors import StoreError
from trials.spec import Frozen

DRIVERS = "drivers"  # the folder
STALE_S = 60.0  # six heartbeats: storage may be unavailable for a while
TIME_FORMAT = "%Y-%m-%d %H:%M:%S UTC"
_NAME = re.compile(r"([0-9a-f]{16})-(\d{8})\.json")

# CLOCK_MONOTONIC stops while a machine sleeps, and closing a laptop's lid is the most common way to suspend a driver.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class BusyStoreError(StoreError):
    """Another process does what only one can do at a time."""


class RemovedError(StoreError):
    """Others counted this driver as ended and have its trials; it may no longer commit."""


def _now() -> float:
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Timing:
    """Intervals and clocks; `stale_s` must be the same for all drivers of a store.

    Attributes:
        beat_s: Seconds between two heartbeats.
        stale_s: Seconds without a heartbeat after which a driver counts as dead.
        poll_s: Seconds between two looks at the others.
        exit_s: Maximum seconds that leaving waits for the storage.
        now: A monotonic clock that keeps running while the machine sleeps.
        sleep: Waits for a number of seconds.
    """

    beat_s: float = 10.0
    stale_s: float = STALE_S
    poll_s: float = 1.0
    exit_s: float = 10.0  # a storage that is down must not hold up who pressed Ctrl-C
    now: Callable[[], float] = _now
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        assert 0 < self.beat_s <= self.stale_s / 2, "a driver must not look dead between two heartbeats"


TIMING = Timing()


Share = Annotated[float, Field(ge=0, le=1)]


class Holder(Frozen):
    """A process that works on a store: the driver of a sweep.

    Attributes:
        host, user, pid: As `ps` shows them there.
        since, alive: Times of its start and last heartbeat by its own clock: for display, never compared.
        ray: Address of its Ray dashboard; empty if it has none, or not yet.
        sweep: The sweep that it runs.
        likely, most: Shares of the work not begun that a search is likely to run (None: unknown), and that it may.
    """

    host: str
    user: str
    pid: int = Field(strict=True, gt=0, lt=2**31)
    since: str
    alive: str
    ray: str = ""
    sweep: str = ""
    likely: Share | None = 1.0
    most: Share = 1.0

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"

    def as_json(self) -> bytes:
        """The content of the presence file, with the current time as the time of the last heartbeat."""
        return (self.model_copy(update={"alive": _utc_now()}).model_dump_json(indent=1) + "\n").encode()


def this_process(sweep: str = "") -> Holder:
    """The process that calls this, as the driver of a sweep."""
    now = _utc_now()
    return Holder(host=socket.gethostname(), user=_user(), pid=os.getpid(), since=now, alive=now, sweep=sweep)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user id without a name
        return str(os.getuid())


def _utc_now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime(TIME_FORMAT)


def present(folder: Storage) -> dict[str, list[str]]:
    """The objects of each process in the folder of presences, oldest first, by token. Raises StoreError."""
    names: dict[str, list[str]] = {}
    try:
        listed = folder.files("0", "g")  # tokens are hexadecimal
    except OSError as error:
        raise StoreError(f"{folder}: cannot be read ({error}).") from error
    for name in sorted(listed):
        if match := _NAME.fullmatch(name):
            names.setdefault(match[1], []).append(name)
    return names


def holder_of(folder: Storage, name: str) -> Holder | None:
    """The process whose object this is; None if it no longer exists, or cannot be understood. Raises StoreError."""
    try:
        return Holder.model_validate_json(folder.read(name))
    except (FileNotFoundError, ValidationError):
        return None
    except OSError as error:
        raise StoreError(f"{folder}/{name}: cannot be read ({error}).") from error


class Membership:
    """The presence of this process in a store while a block runs, beside any number of others, which it watches.

    Attributes:
        token: A random id of this presence, which its claims carry.
        timing: The intervals, in seconds, that it joined with.
    """

    def __init__(
        self,
        store: Storage,
        sweep: str,
        *,
        say: Callable[[str], None],
        check_store: Callable[[], None] = lambda: None,
        timing: Timing = TIMING,
        me: Holder | None = None,
    ) -> None:
        """Nothing is written before the block begins, which raises StoreError if the storage does not answer.

        Args:
            store: It has its marker already: a folder with only a presence is not recognised as a store.
            sweep: The sweep that this driver runs.
            say: Receives a line about a process that is waited for or has ended.
            check_store: Raises StoreError if the store is gone, which a write would make again.
            timing: The same for all drivers of the store.
            me: This process, unless a test says otherwise.
        """
        self._store, self._folder, self._me, self.timing = (
            store,
            store.subfolder(DRIVERS),
            me or this_process(sweep),
            timing,
        )
        self._say, self._check_store = say, check_store
        self.token = uuid.uuid4().hex[:16]
        self._count = 0
        self._standing: str | None = None  # the newest object that a listing has shown
        self._confirmed_s = float("-inf")
        self._lost = ""
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="heartbeats", daemon=True)
        self._polled_s = float("inf")
        self._newest: dict[str, str] = {}  # of the others, as they were last seen
        self._silent_s: dict[str, float] = {}
        self._moved: set[str] = set()

    @property
    def is_sure(self) -> bool:
        """Whether no other driver can have removed this presence yet; known without asking the storage."""
        return not self._lost and self.timing.now() - self._confirmed_s < self.timing.stale_s / 2

    def check(self) -> None:
        """Return if this process may commit. Asks the storage only if the last heartbeat is too long ago.

        Raises:
            RemovedError: others counted it as ended.
            StoreError: the storage does not answer, or the store is gone.
        """
        assert not self._ending.is_set(), "checked after its end"
        self._check_store()
        if self.is_sure:
            return
        with self._lock:  # a heartbeat in progress may answer it
            if not self.is_sure and not self._lost:
                self._beat()
            if self._lost:
                raise RemovedError(self._lost)

    def others(self) -> frozenset[str]:
        """The tokens of the other processes that may be alive; those that are dead are removed first. Raises
        StoreError.
        """
        while True:
            began_s, seen = self.timing.now(), present(self._folder)
            seen.pop(self.token, None)
            self._watch({token: names[-1] for token, names in seen.items()}, began_s)
            dead = [token for token in seen if self._silent_s[token] >= self.timing.stale_s]
            if not dead:
                return frozenset(seen)
            for token in dead:  # then everything is listed again: it may have resumed
                holder = holder_of(self._folder, seen[token][-1])
                silent_s = self._silent_s[token]
                self._say(f"{holder or 'a driver'} sent no heartbeat for {silent_s:.0f} s and counts as ended.")
                self._remove(seen[token])

    def is_first(self) -> bool:
        """Whether this one is to do what one driver should: its token is the first of all. Raises StoreError."""
        return all(self.token < other for other in self.others())

    def await_turn(self, rivals: Callable[[], Collection[str]], what: str) -> None:
        """Wait until no other process is in the way: one that was killed is, until it counts as ended.

        Args:
            rivals: Asks the storage who is, by token, after a look at `others`.
            what: Only one can have at a time.

        Raises:
            BusyStoreError: One sent a heartbeat while it was watched.
            StoreError: The storage does not answer.
        """
        began_s, is_said = self.timing.now(), False
        while tokens := rivals():
            names = {token: name for token, name in self._newest.items() if token in tokens}
            if token := next((token for token in names if token in self._moved), None):
                raise BusyStoreError(
                    f"{self._store}: {self._words_on(names[token])}. One driver at a time can have {what}: wait until "
                    "it ends, or stop it."
                )
            if not is_said and self.timing.now() - began_s > 1.5 * self.timing.beat_s:
                is_said = True
                for name in names.values():
                    wait = f"waiting {self.timing.stale_s:.0f} s for another one before it counts as ended"
                    self._say(f"{self._store}: {self._words_on(name)}; {wait}.")
            self.timing.sleep(self.timing.poll_s)

    def announce(self, **news: str | float | None) -> None:
        """Publish the address of this driver's Ray dashboard, or what it is likely to run, with the next heartbeat."""
        self._me = self._me.model_copy(update=news)

    def __enter__(self) -> Self:
        try:
            self._beat()
            self._keeper.start()
        except (KeyboardInterrupt, SystemExit):  # a signal; a storage that does not answer is not asked again
            self.leave()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the presence; waits at most `exit_s` for a storage."""
        self._ending.set()
        with contextlib.suppress(RuntimeError):  # it runs already, unless a signal came before its first heartbeat
            self._keeper.start()
        self._keeper.join(self.timing.exit_s)
        if self._keeper.is_alive():
            self._say_left("it does not answer")

    def _keep(self) -> None:
        while not self._ending.wait(self.timing.beat_s):
            with contextlib.suppress(StoreError), self._lock:  # if it persists, `check` reports it
                if not self._lost:
                    self._beat()
        try:
            self._remove(present(self._folder).get(self.token, ()))
        except StoreError as error:
            self._say_left(str(error))

    def _beat(self) -> None:
        """Send a heartbeat, and find out whether this presence was removed before it."""
        began_s = self.timing.now()
        self._count += 1  # even if the write fails: it may take effect later
        written = f"{self.token}-{self._count:08d}.json"
        self._folder.write(written, self._me.as_json())
        names = present(self._folder).get(self.token, [])
        if {written, self._standing or written} <= set(names):
            self._standing, self._confirmed_s = written, began_s
            names = [name for name in names if name < written]
        else:
            self._lost = (
                f"{self._folder}: another driver or user removed this driver ({self._me}) while it sent no "
                "heartbeat. What was committed before is intact; other drivers run the rest. Nothing needs to be done."
            )
        with contextlib.suppress(StoreError):  # the next heartbeat or the end deletes them
            self._remove(names)

    def _watch(self, newest: dict[str, str], began_s: float) -> None:
        """Polls that hung and times when we slept do not count as silence."""
        gap_s = max(0.0, min(began_s - self._polled_s, 2 * self.timing.poll_s))
        for token, name in newest.items():
            same = self._newest.get(token) == name
            self._silent_s[token] = self._silent_s[token] + gap_s if same else 0.0
            if not same and token in self._newest:
                self._moved.add(token)
        self._newest = newest
        self._polled_s = self.timing.now()

    def _remove(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                self._folder.delete(name)
        except OSError as error:
            raise StoreError(f"{self._folder}: {name} cannot be deleted ({error}). Delete it by hand.") from error

    def _words_on(self, name: str) -> str:
        holder = holder_of(self._folder, name)
        if holder is None:
            return "another driver works there"
        doing = f"runs sweep {holder.sweep}" if holder.sweep else "works"
        return f"{holder} {doing} there since {holder.since}, last heartbeat {holder.alive} by its clock"

    def _say_left(self, why: str) -> None:
        self._say(
            f"{self._folder}: this driver's presence could not be deleted ({why}). "
            f"Other drivers wait {self.timing.stale_s:.0f} s for it."
        )
