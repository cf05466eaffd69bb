"""What a driver tells of a running sweep, and how a trial that raises is called."""

from __future__ import annotations

import traceback
from typing import Protocol

from orchestrator.store.schema import State
from trials.errors import DivergedError, PermafrostError
from trials.record import EpochRecord
from trials.spec import TrialSpec


class Listener(Protocol):
    """Hears of every trial, in the driver's process. The Recorder is one, the terminal another."""

    def started(self, spec: TrialSpec) -> None:
        """A worker has taken the trial."""
        ...

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """The trial has yielded a record."""
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

    def started(self, spec: TrialSpec) -> None:
        """Tell all."""
        for listener in self._all:
            listener.started(spec)

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Tell all."""
        for listener in self._all:
            listener.evaluated(spec, record)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Tell all."""
        for listener in self._all:
            listener.ended(spec, state, error)

    def tick(self) -> None:
        """Tell all."""
        for listener in self._all:
            listener.tick()


def failure(error: Exception) -> tuple[State, str]:
    """The state a raising trial ends in, and its error: one line where the user caused it, else with the traceback."""
    if isinstance(error, DivergedError):
        return State.DIVERGED, str(error)
    if isinstance(error, PermafrostError):
        return State.FAILED, str(error)
    text = "".join(traceback.format_exception(error)).strip()
    # torch.OutOfMemoryError by name: this module is imported where torch is not.
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return (State.OUT_OF_MEMORY if out_of_memory else State.FAILED), text


def last_line(error: str | None) -> str:
    """The line of an error or traceback that says what happened."""
    return (error or "no reason given").strip().splitlines()[-1]
