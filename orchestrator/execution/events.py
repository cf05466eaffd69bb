"""The events of a running sweep, and how an exception in a trial is classified."""

from __future__ import annotations

import contextlib
import errno
import signal
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from orchestrator.config.signals import Signals
from orchestrator.storage.storage import Storage
from orchestrator.store.schema import State
from trials.cache.set_up_work import SetUpWork
from trials.errors import (
    DivergedError,
    PermafrostError,
    PreemptedError,
    StoreError,
    is_device_gone,
    is_out_of_memory,
)
from trials.record import EpochRecord
from trials.spec import TrialSpec


class Listener(Protocol):
    """Receives the events of all trials, in the driver's process; e.g. the recorder and the live display.

    A subclass defines the methods of the events that concern it; those of the others do nothing.
    """

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """A worker has started an attempt at the trial, numbered from 1."""
        return

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        """The trial's set-up takes seconds or minutes, and is so far; called every few seconds."""
        return

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """The trial has yielded a record."""
        return

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """An attempt has ended and another follows; after `pruned` (the trial is paused) one may follow."""
        return

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """The trial has ended; unless `state` is completed, `error` is the reason."""
        return

    def tick(self) -> None:
        """Called every now and then while nothing else happens."""
        return


def _forwarding(event: str) -> Any:
    """A method that passes an event on to every listener, in order."""

    def forward(self: Listeners, *details: Any) -> None:
        for listener in self.listeners:
            getattr(listener, event)(*details)

    return forward


class Listeners(Listener):
    """Several listeners as one."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    started, preparing, evaluated, retried, ended, tick = map(
        _forwarding, ("started", "preparing", "evaluated", "retried", "ended", "tick")
    )


_TRANSIENT = {
    errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT, errno.EBUSY, errno.EAGAIN, errno.ENETDOWN, errno.ENETUNREACH,
    errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.EPIPE,
}  # fmt: skip


def failure(error: Exception) -> tuple[State, str]:
    """The state of a trial that raised, and its error text: one line for a user's mistake, else with the traceback."""
    if isinstance(error, DivergedError):
        return State.DIVERGED, str(error)
    if isinstance(error, PreemptedError):
        return State.LOST, str(error)
    transient = any(_is_transient(cause) for cause in _causes(error))
    if isinstance(error, PermafrostError):
        return (State.UNAVAILABLE if transient else State.FAILED), str(error)
    text = "".join(traceback.format_exception(error)).strip()
    if is_out_of_memory(error):
        return State.OUT_OF_MEMORY, text
    if is_device_gone(error):
        return State.LOST, text
    return (State.UNAVAILABLE if transient else State.FAILED), text


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_transient(error: BaseException) -> bool:
    """Whether a disk or network may work again later."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _TRANSIENT


def last_line(error: str | None) -> str:
    """The last line of an error or traceback, which says what happened."""
    lines = (error or "no reason given").strip().splitlines()
    if len(lines) > 1 and lines[-1].lstrip().startswith("For further information visit https://errors.pydantic.dev"):
        return lines[-2].strip().partition(" [type=")[0]
    return lines[-1]


# Requests to stop a running sweep: by Ctrl-C, by SIGTERM, by its driver, at a limit, or through its store.
#
# A request in the store is an object `<store>/stops/<sweep>/<when>-<token>.txt`, so anybody who can write to the store
# can stop a sweep, wherever its driver runs.

FOLDER, POLL_S = "stops", 2.0


class StopRequest:
    """Once set, running trials end at their next evaluation and no new trial starts.

    Attributes:
        asker: Who asked through the store, or None.
        bound: Which limit of the launch was reached, or None.
        signals: Handles Ctrl-C, SIGTERM, SIGHUP and SIGUSR1.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.reason: str | None = None
        self.asker: str | None = None
        self.bound: str | None = None
        self.signals = Signals(self._ask)

    @property
    def asked(self) -> bool:
        """Whether the sweep has to stop."""
        return any(cause is not None for cause in (self.signal, self.reason, self.asker, self.bound))

    @property
    def exit_code(self) -> int:
        """128 and a signal's number, as 143; 143 after `permafrost stop` or at a limit; 1 if the driver gave up."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.asker is None and self.bound is None else 128 + signal.SIGTERM

    def ended(self, *, all_ran: bool) -> None:
        """No trial runs any more. If `all_ran`, none is left to run, and whoever asked to stop has changed nothing."""
        self.signals.ended()
        self.settle(all_ran=all_ran)

    def settle(self, *, all_ran: bool) -> None:
        """Forget who asked if all trials ran; also for requests that came since `ended`."""
        if all_ran:
            self.signal = self.asker = None

    def _ask(self, number: int) -> bool:
        if self.asked:
            return False
        self.signal = number
        return True

    @contextmanager
    def on_requests(
        self, store: Storage, sweep: str, say: Callable[[str], None], *, is_last: Callable[[], bool] = lambda: True
    ) -> Iterator[None]:
        """Obey requests in a store while the block runs, as every driver of the sweep does.

        Older ones were meant for other drivers. They are deleted if `is_last`: no other driver runs the sweep.
        """
        folder, older = store.at(FOLDER).at(sweep), set[str]()
        with contextlib.suppress(StoreError, OSError):
            older = set(folder.files())
        _delete_requests(folder, is_last)

        def is_asked() -> bool:
            with contextlib.suppress(StoreError, OSError):  # the storage may answer at the next poll
                for name in folder.files().keys() - older:
                    self.asker = self.asker or folder.read(name).decode(errors="replace")[:200]
            if self.asker is not None:
                say(f"Stopping at the request of {self.asker}: running trials continue to their next evaluation.")
            return self.asker is not None

        try:
            with polling(is_asked, POLL_S, "stop requests"):
                yield
        finally:
            _delete_requests(folder, is_last)


@contextmanager
def polling(is_over: Callable[[], bool], every_s: float, name: str) -> Iterator[None]:
    """While the block runs, call `is_over` at this interval in a thread of this name, until it returns True."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(every_s) and not is_over():
            pass

    watcher = threading.Thread(target=poll, name=name, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(2 * every_s)


def ask_to_stop(store: Storage, sweep: str, asker: str) -> None:
    """Ask all drivers of a sweep to stop. Raises StoreError: the storage cannot be written."""
    store.at(FOLDER).at(sweep).write(f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.txt", asker.encode())


def _delete_requests(folder: Storage, is_last: Callable[[], bool]) -> None:
    with contextlib.suppress(StoreError, OSError):
        names = folder.files()
        for name in names if names and is_last() else ():
            folder.delete(name)
