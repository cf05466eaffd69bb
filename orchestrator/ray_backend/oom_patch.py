"""Ray's memory monitor kills workers, and Tune takes that for its own end.

Ray tells of such a worker with an `OutOfMemoryError`, and Tune's actor manager only knows `RayActorError` (Ray 2.60):
any other error it raises, so that one killed worker would end the whole sweep. Here it hears of it as of a dead actor:
the trial is tried again in less memory, and all others go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError

KILLED = "OutOfMemoryError"  # in the words that Tune hands on


@contextmanager
def killed_workers_are_lost() -> Iterator[None]:
    """Inside, a worker that was killed for want of memory is a dead actor to Tune."""
    told = RayActorManager._actor_task_failed

    def as_dead_actor(self: Any, tracked_actor_task: Any, exception: Exception) -> None:
        if isinstance(exception, OutOfMemoryError):
            exception = RayActorError(error_msg=f"{KILLED}: {_first_line(exception)}")
        told(self, tracked_actor_task=tracked_actor_task, exception=exception)

    RayActorManager._actor_task_failed = as_dead_actor
    try:
        yield
    finally:
        RayActorManager._actor_task_failed = told


def _first_line(error: Exception) -> str:
    """What happened, without the lists of processes that follow it."""
    return (str(error).strip().splitlines() or ["Ray killed it for want of memory"])[0]
