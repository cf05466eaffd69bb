"""What a driver tells of a running sweep, and how a trial that raises is called."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from typing import Protocol

from orchestrator.store.schema import State
from trials.errors import DivergedError, PermafrostError, PreemptedError
from trials.record import EpochRecord
from trials.spec import TrialSpec


class Listener(Protocol):
    """Hears of every trial, in the driver's process. The Recorder is one, the terminal another."""

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """A worker has taken the trial; attempts count from 1 on."""
        ...

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """The trial has yielded a record."""
        ...

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """An attempt is over, and there will be another; of a pruned one, which is paused, there may be."""
        ...

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """The trial is over; after `last` records `state` is completed, else `error` says why it ended."""
        ...

    def tick(self) -> None:
        """Some time has passed."""
        ...


class Listeners:
    """Several listeners as one, told in order."""

    def __init__(self, *listeners: Listener) -> None:
        self._all = listeners

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Tell all."""
        for listener in self._all:
            listener.started(spec, attempt)

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Tell all."""
        for listener in self._all:
            listener.evaluated(spec, record)

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Tell all."""
        for listener in self._all:
            listener.retried(spec, state, error)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Tell all."""
        for listener in self._all:
            listener.ended(spec, state, error)

    def tick(self) -> None:
        """Tell all."""
        for listener in self._all:
            listener.tick()


_PASSING = {
    errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT, errno.EBUSY, errno.EAGAIN, errno.ENETDOWN, errno.ENETUNREACH,
    errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.EPIPE,
}  # fmt: skip


def failure(error: Exception) -> tuple[State, str]:
    """The state a raising trial ends in, and its error: one line where the user caused it, else with the traceback."""
    if isinstance(error, DivergedError):
        return State.DIVERGED, str(error)
    if isinstance(error, PreemptedError):
        return State.LOST, str(error)
    passing = any(_is_passing(one) for one in _causes(error))
    if isinstance(error, PermafrostError):
        return (State.UNAVAILABLE if passing else State.FAILED), str(error)
    text = "".join(traceback.format_exception(error)).strip()
    if _is_want_of_memory(error):
        return State.OUT_OF_MEMORY, text
    return (State.UNAVAILABLE if passing else State.FAILED), text


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_passing(error: BaseException) -> bool:
    """Whether a disk or a network may answer another time."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _PASSING


def _is_want_of_memory(error: Exception) -> bool:
    # torch.OutOfMemoryError by name: this module is imported where torch is not. On a CPU torch has only words for it.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def last_line(error: str | None) -> str:
    """The line of an error or traceback that says what happened."""
    return (error or "no reason given").strip().splitlines()[-1]
