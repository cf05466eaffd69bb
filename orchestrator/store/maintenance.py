"""Exclusive access to a store: while the block runs, no driver of a sweep is there, and none can start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from orchestrator.claims import TIMING, BusyStoreError, Timing, join
from orchestrator.storage.storage import Storage
from trials.errors import StoreError


@contextlib.contextmanager
def alone(storage: Storage, doing: str, *, say: Callable[[str], None], timing: Timing = TIMING) -> Iterator[None]:
    """Have a store to oneself while the block runs.

    Args:
        doing: What the block does, a verb for the error message.
        say: Receives a line while a driver is waited for.

    Raises:
        StoreError: a driver is running a sweep of the store, or another command has it alone.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(join(storage, say=say, alone=True, timing=timing))
        except BusyStoreError as error:
            raise StoreError(f"cannot {doing} now: {error}") from error
        yield
