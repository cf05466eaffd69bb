"""A patch of Tune: a worker that Ray's memory monitor kills must not end the whole sweep.

Ray reports such a worker with an `OutOfMemoryError`, but Tune's actor manager only handles `RayActorError` (Ray 2.60)
and raises any other error. The patch converts the error: the trial is retried in less memory, and all others continue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError

KILLED = "OutOfMemoryError"  # in the error text that Tune passes on


@contextmanager
def killed_workers_are_lost() -> Iterator[None]:
    """While the block runs, Tune treats a worker that was killed for its memory as a dead actor."""
    original = RayActorManager._actor_task_failed

    def as_dead_actor(self: Any, tracked_actor_task: Any, exception: Exception) -> None:
        if isinstance(exception, OutOfMemoryError):
            exception = RayActorError(error_msg=f"{KILLED}: {_first_line(exception)}")
        original(self, tracked_actor_task=tracked_actor_task, exception=exception)

    RayActorManager._actor_task_failed = as_dead_actor
    try:
        yield
    finally:
        RayActorManager._actor_task_failed = original


def _first_line(error: Exception) -> str:
    """The message without the lists of processes that follow it."""
    return (str(error).strip().splitlines() or ["Ray killed it because memory ran out"])[0]
