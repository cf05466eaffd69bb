"""Everything of Ray and Tune that is not their documented interface: each private name, and each function replaced.

A release of Ray may rename any of them, so `pyproject.toml` admits the releases that these were tested with, and a test
walks `PRIVATE_NAMES`, the table of them all. No other module names one. Tune is imported where it is needed, as
`ray.init` does not wait for it.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

from ray._private import utils as _utils
from ray._private import worker as _worker
from ray._private.node import Node
from ray._raylet import (  # type: ignore[attr-defined]
    AuthenticationTokenLoader,
    Config,
    setproctitle,  # the package's cannot write a worker's title
)
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.experimental import internal_kv
from ray.job_config import JobConfig

from orchestrator.execution.failures import last_line
from trials.plugins.import_origins import folders_for_other_processes


class PrivateName(NamedTuple):
    """A name of Ray that no documentation promises.

    Attributes:
        module, name: Where it is; an attribute of an instance by its class.
        purpose: What is broken, or slower, without it.
        read_in: The release of Ray whose source says that it does this.
    """

    module: str
    name: str
    purpose: str
    read_in: str = "2.60"


_PATH = "workers import nothing from the folder that a sweep is launched from"
_ADMISSION = "a driver sends the token of its own cluster where Ray was imported before"
_WATCH = "a launch ends where the processes of its Ray are gone"
_START = "a local Ray starts three seconds earlier"
_BOARD = "the display says how far a set-up is that takes long"
_FORGET = "a driver does not grow by 16 KB with each trial"
PRIVATE_NAMES = (
    PrivateName("ray.job_config", "JobConfig._get_proto_job_config", _PATH),
    PrivateName("ray.job_config", "JobConfig._py_driver_sys_path", _PATH),
    PrivateName("ray._raylet", "Config.initialize", _ADMISSION),
    PrivateName("ray._raylet", "AuthenticationTokenLoader.instance", _ADMISSION),
    PrivateName("ray._private.worker", "print_to_stdstream", "stdout has nothing but what a command prints"),
    PrivateName(
        "ray._private.worker", "get_dashboard_url", "a launch says where the dashboard is, not where it may be"
    ),
    PrivateName("ray._private.worker", "_global_node", _WATCH),
    PrivateName("ray._private.node", "Node.all_processes", _WATCH),
    PrivateName("ray._private.node", "Node.get_logs_dir_path", "the error of a lost Ray names its logs"),
    PrivateName("ray._private.node", "Node.kill_all_processes", "SIGTERM at the end of a launch changes nothing"),
    PrivateName("ray._private.utils", "set_sigterm_handler", "SIGTERM while Ray starts ends with exit code 143"),
    PrivateName("ray._raylet", "setproctitle", "the dashboard and `ps` list a worker by its trial"),
    PrivateName("ray._private.node", "Node.start_api_server", _START),
    PrivateName("ray._private.node", "Node.start_ray_processes", _START),
    PrivateName("ray._private.node", "Node.get_gcs_client", _START),
    PrivateName("ray._raylet", "InnerGcsClient.get_all_node_info", _START),
    PrivateName("ray._private.utils", "get_dashboard_dependency_error", _START),
    PrivateName("ray._private.node", "Node.start_monitor", "a local Ray stops a second earlier"),
    PrivateName("ray.tune.execution.class_cache", "DEFAULT_ENV_VARS", "the first trial need not wait for a new worker"),
    PrivateName("ray.tune.execution.class_cache", "ENV_VARS_TO_PROPAGATE", "as DEFAULT_ENV_VARS"),
    PrivateName("ray.experimental.internal_kv", "_internal_kv_put", _BOARD),
    PrivateName("ray.experimental.internal_kv", "_internal_kv_list", _BOARD),
    PrivateName("ray.experimental.internal_kv", "_internal_kv_get", _BOARD),
    PrivateName("ray.experimental.internal_kv", "_internal_kv_del", _BOARD),
    PrivateName("ray.air.execution._internal", "RayActorManager._actor_task_failed", "a killed worker ends one trial"),
    PrivateName("ray.tune.execution.tune_controller", "TuneController._execute_action", "the loop decides, not Tune"),
    *(
        PrivateName("ray.tune.execution.tune_controller", f"TuneController.{name}", _FORGET)
        for name in ("_trials", "_stopped_trials", "_failed_trials", "_trial_to_actor", "_trials_to_cache")
    ),
)


class OwnPathJob(JobConfig):  # type: ignore[misc]  # Ray has no types here
    """A driver whose workers import our packages, and nothing of the folder that a sweep is launched from.

    Ray puts the driver's working folder, and that of its script, first on its workers' `sys.path`, so a `trials.py`
    there would be imported for our package, in each worker that did not import ours before. Plug-ins are sent as files
    (`staging`), so workers need no folder of the driver's but the one that our packages are in, and that only where
    Python does not look into it by itself: a checkout that is not installed.
    """

    def _get_proto_job_config(self) -> Any:
        """The message that `ray.init` sends, which adds its own folders just before it asks for it."""
        self._py_driver_sys_path = folders_for_other_processes()
        return super()._get_proto_job_config()


def read_token_again() -> None:
    """Ray (2.60) reads whether it asks for a token when it is imported, and the token once a process.

    So where Ray was imported before a launch, or a process launches twice, its driver would send no token, or that of
    the cluster before: `InvalidAuthToken`.
    """
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def keep_lines_off_stdout() -> None:
    """Send Ray's reports on its processes to its logs only: dozens of lines, with escape sequences, on our stdout."""
    _worker.print_to_stdstream = lambda data, ignore_prefix: None


def dashboard_url() -> str | None:
    """The address of Ray's dashboard; what `ray.init` returns is a guess until the dashboard runs."""
    url: str | None = _worker.get_dashboard_url()
    return url


def own_processes() -> tuple[dict[str, list[Any]], str]:
    """The processes of a Ray that this process has started, by their kind, and the folder of its logs; else none."""
    node = _worker._global_node
    if node is None:
        return {}, ""
    return {name: [info.process for info in infos] for name, infos in node.all_processes.items()}, (
        node.get_logs_dir_path()
    )


def once_disconnected(call: Callable[[], None]) -> None:
    """Call something when this driver has left its cluster, before it waits for the end of processes that it started.

    There the core worker has just reset SIGTERM to its default, which would end this process on the spot.
    """
    node = _worker._global_node
    ends_processes = node.kill_all_processes

    def ends(*args: Any, **kwargs: Any) -> None:
        call()
        ends_processes(*args, **kwargs)

    node.kill_all_processes = ends


def set_process_title(title: str) -> None:
    """Set the title that Ray's dashboard and `ps` show for this worker."""
    setproctitle(title)


LOOK_S = 0.02


@contextmanager
def starting_at_once(wait_s: float) -> Iterator[Callable[[], str]]:
    """In the block, which a cluster must not outlive, `ray.init` waits for nothing but its node.

    By itself (Ray 2.60) it starts its dashboard and waits 1.5 s for it, then starts the node and asks once a second
    whether it is there. Here the node starts first, the driver's modules are imported meanwhile, the dashboard follows
    while workers import theirs. There is no autoscaler, which has nothing to do on one machine and takes a second to
    stop.

    Args:
        wait_s: How long to wait for the node. `ray.init` raises TimeoutError after that, and its processes are ended.

    Yields a function that waits for the dashboard, and returns why there is none, or nothing.
    """
    originals = Node.start_api_server, Node.start_ray_processes, Node.start_monitor
    start_api_server, start_ray_processes, _ = originals
    answers, is_over, has_node = threading.Event(), threading.Event(), threading.Event()
    answers.set()
    reasons = list[str]()
    logging.getLogger("ray._private.services").addFilter(_is_no_error)  # twenty lines of the dashboard's log

    def start_in_background(node: Any, **options: Any) -> None:
        def start() -> None:
            try:
                if has_node.wait(wait_s):
                    start_api_server(node, **options | {"raise_on_failure": True})
            except Exception as error:  # a sweep can do without
                reasons.append(last_line(str(error)))
            finally:
                answers.set()
            is_over.wait()  # Linux kills the dashboard when the thread that started it ends

        _utils.get_dashboard_dependency_error()  # imports modules, which two threads should not do at a time
        answers.clear()
        threading.Thread(target=start, name="dashboard", daemon=True).start()

    def start_and_import(node: Any) -> None:
        start_ray_processes(node)
        importlib.import_module("orchestrator.ray_engine.tune_engine")
        head, until = node.get_gcs_client(), time.monotonic() + wait_s
        try:
            while not head.get_all_node_info():
                if time.monotonic() > until:
                    raise TimeoutError(f"its node was not there after {wait_s:.0f} s")
                time.sleep(LOOK_S)
        except Exception:
            node.kill_all_processes(check_alive=False, allow_graceful=False)  # Ray keeps them until this process ends
            raise
        has_node.set()

    Node.start_api_server, Node.start_ray_processes = start_in_background, start_and_import
    Node.start_monitor = lambda node: None

    def wait() -> str:
        answers.wait()
        return "".join(reasons)

    try:
        yield wait
    finally:
        logging.getLogger("ray._private.services").removeFilter(_is_no_error)
        Node.start_api_server, Node.start_ray_processes, Node.start_monitor = originals
        is_over.set()


def _is_no_error(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR


def use_started_workers() -> None:
    """From now on Tune's actors need no environment of their own, so that they run in the workers that Ray has.

    Tune asks for environment variables in its workers, which makes Ray discard those that it has just started for new
    ones; on one machine workers inherit the driver's environment anyway.
    """
    from ray.tune.execution import class_cache

    class_cache.DEFAULT_ENV_VARS.clear()
    class_cache.ENV_VARS_TO_PROPAGATE.clear()


def write_to_head(space: str, key: str, value: str) -> None:
    """Write a value. Raises RayError if the head does not answer, as do the others."""
    internal_kv._internal_kv_put(key, value, namespace=space)


def taken_from_head(space: str, keys: list[str]) -> dict[str, bytes]:
    """The values of those keys that have one, which are deleted; one request where none has."""
    written = set(internal_kv._internal_kv_list("", namespace=space))
    values = {}
    for key in keys:
        if key.encode() in written:
            value = internal_kv._internal_kv_get(key, namespace=space)
            internal_kv._internal_kv_del(key, namespace=space)
            if value is not None:
                values[key] = value
    return values


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


@contextmanager
def sigterm_stays_ours() -> Iterator[None]:
    """In the block `ray.init` does not take SIGTERM, which it would turn into an end with code 15 or 1."""
    original, _utils.set_sigterm_handler = _utils.set_sigterm_handler, lambda handler: None
    try:
        yield
    finally:
        _utils.set_sigterm_handler = original


def _first_line(error: Exception) -> str:
    """The message without the lists of processes that follow it."""
    return (str(error).strip().splitlines() or ["Ray killed it because memory ran out"])[0]


def act(controller: Any, trial: Any, decision: str) -> None:
    """Do what a scheduler would have answered to a trial's last result: CONTINUE or STOP."""
    controller._execute_action(trial, decision)


def forget_finished(controller: Any, n_kept: int) -> None:
    """Remove all but the newest `n_kept` finished trials from a `TuneController`, once there are twice as many.

    Tune keeps every trial for a table of results that is not used here: its `Trial` objects hold their config twice,
    the last result and a reference into Ray's object store, 16 KB in all (Ray 2.60, 5,000 trials in one driver). A
    trial that has left its worker is never accessed again: later events refer to the worker's current trial.
    """
    finished_sets = [controller._stopped_trials, controller._failed_trials]
    if sum(map(len, finished_sets)) < 2 * n_kept:
        return
    finished = set(chain(*finished_sets)) - controller._trial_to_actor.keys()
    oldest = set([trial for trial in controller._trials if trial in finished][:-n_kept])
    controller._trials[:] = [trial for trial in controller._trials if trial not in oldest]
    for trials in (*finished_sets, controller._trials_to_cache):
        trials -= oldest
