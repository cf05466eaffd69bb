"""Everything of Ray and Tune that is not their documented interface: each private name, and each function replaced.

A release of Ray may rename any of them, so `pyproject.toml` admits the releases that these were tested with, and a test
walks `PRIVATE_NAMES`, the table of them all. No other module names one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ray._private import services
from ray._raylet import (  # type: ignore[attr-defined]
    AuthenticationTokenLoader,
    setproctitle,  # the package's cannot write a worker's title
)
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.job_config import JobConfig

from trials.plugins.import_origins import folders_for_other_processes


class PrivateName(NamedTuple):
    """A name of Ray that no documentation promises.

    Attributes:
        module, name: Where it is; an attribute of an instance by its class.
        purpose: What is broken without it.
        read_in: The release of Ray whose source says that it does this.
    """

    module: str
    name: str
    purpose: str
    read_in: str = "2.60"


PRIVATE_NAMES = (
    PrivateName(
        "ray.job_config",
        "JobConfig._get_proto_job_config",
        "workers import nothing from the folder that a sweep is launched from",
    ),
    PrivateName(
        "ray._raylet",
        "AuthenticationTokenLoader.instance",
        "a process that launches twice sends each cluster its own token",
    ),
    PrivateName("ray._private.services", "get_node", "a Ray that starts on a busy machine has minutes for it"),
    PrivateName("ray._raylet", "setproctitle", "the dashboard and `ps` list a worker by its trial"),
    PrivateName("ray.air.execution._internal", "RayActorManager._actor_task_failed", "a killed worker ends one trial"),
    PrivateName("ray.tune.execution.tune_controller", "TuneController._execute_action", "the loop decides, not Tune"),
)


class OwnPathJob(JobConfig):  # type: ignore[misc]  # Ray has no types here
    """A driver whose workers import our packages, and nothing of the folder that a sweep is launched from.

    Ray puts the driver's working folder, and that of its script, first on its workers' `sys.path`, so a `trials.py`
    there would be imported for our package, in each worker that did not import ours before. Plug-ins are sent as files
    (`staging`), so workers need no folder of the driver's but the one that our packages are in, and that only where
    Python does not look into it by itself: a checkout that is not installed.
    """

    def _get_proto_job_config(self) -> Any:
        """The message that `ray.init` sends, which has added its own folders just before it asks for it."""
        message = super()._get_proto_job_config()
        message.py_driver_sys_path[:] = folders_for_other_processes()
        return message


def read_token_again() -> None:
    """Have Ray (2.60) read its token again, which it does once a process: a second launch has another one."""
    AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def node_has(wait_s: float) -> Iterator[None]:
    """While the block runs, a Ray that starts gives its node this many seconds to appear (2.60: 30)."""
    original = services.get_node

    def get_node_in_time(gcs_address: str, node_id: str) -> Any:
        until = time.monotonic() + wait_s
        while True:
            try:
                return original(gcs_address, node_id)
            except RuntimeError:  # it is not there yet; the head takes a second to say so
                if time.monotonic() > until:
                    raise

    services.get_node = get_node_in_time
    try:
        yield
    finally:
        services.get_node = original


def set_process_title(title: str) -> None:
    """Set the title that Ray's dashboard and `ps` show for this worker."""
    setproctitle(title)


KILLED = "OutOfMemoryError"  # in the error text that Tune passes on


@contextmanager
def killed_workers_are_lost() -> Iterator[None]:
    """While the block runs, Tune treats a worker that was killed for its memory as a dead actor.

    Ray reports such a worker with an `OutOfMemoryError`, but Tune's actor manager only handles `RayActorError` and
    raises any other error, which ends the whole sweep. So the trial is retried in less memory, and others continue.
    """
    from ray.air.execution._internal import RayActorManager

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


def act(controller: Any, trial: Any, decision: str) -> None:
    """Do what a scheduler would have answered to a trial's last result: CONTINUE or STOP."""
    controller._execute_action(trial, decision)
