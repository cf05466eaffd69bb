"""Classify an exception in a trial, and describe it on one line."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator

from trials.errors import (
    DivergedError,
    PermafrostError,
    PreemptedError,
    is_device_gone,
    is_out_of_memory,
    is_recording_failed,
)
from trials.record import State

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
    if is_device_gone(error) or is_recording_failed(error):
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
