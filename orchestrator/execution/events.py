"""The events of a running sweep, and how an exception in a trial is classified."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from typing import Any, Protocol

from trials.cache.set_up_work import SetUpWork
from trials.errors import (
    DivergedError,
    PermafrostError,
    PreemptedError,
    is_device_gone,
    is_out_of_memory,
)
from trials.record import EpochRecord, State
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
        """An attempt has ended and another follows."""
        return

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """The trial has ended; unless `state` is completed, `error` is the reason."""
        return

    def settled(self, spec: TrialSpec, state: State) -> None:
        """Another driver of the sweep has ended the trial."""
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

    started, preparing, evaluated, retried, ended, settled, tick = map(
        _forwarding, ("started", "preparing", "evaluated", "retried", "ended", "settled", "tick")
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
