"""Start or join the Ray cluster that a sweep runs on; its nodes and its dashboard."""

from __future__ import annotations

import atexit
import errno
import logging
import os
import re
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any

from orchestrator.deploy import ray_session
from orchestrator.deploy.ray_session import new_token, session_folder, temporary_files_in
from orchestrator.execution.engine import EngineStartError
from orchestrator.execution.stop_request import polling
from orchestrator.ray_engine.slots import Node, node_of
from trials.errors import ConfigError, MissingError, PermafrostError
from trials.hardware.machine import show_gpus, usable_cores

LOOK_S = 1.0
ENDING_S, SHUTDOWN_S = 8.0, 5.0
SILENT_LOOKS = 45  # without an answer of the head; after 60 s of it Ray aborts the process
_WATCHED = ("raylet", "gcs_server")


class ClusterLostError(PermafrostError):
    """No node of the cluster is left."""

    exit_code = 1


@contextmanager
def ending_without_nodes(end: Callable[[Exception], None], desert: Callable[[Exception], None]) -> Iterator[None]:
    """While the block runs, call `end` once, in a thread, with the error if no node of the connected Ray is left.

    If the block has not ended some seconds later, as it is in a call of Ray that waits for the head, call `desert`.
    Tune hears nothing of it and would wait for its workers without end. A local Ray is watched by its processes; of
    another one the head is asked which nodes are alive. As long as one is, Tune hears of the workers that were lost
    with the others, and their trials are retried.
    """
    has_ended, killed_before = threading.Event(), oom_kills()
    with ExitStack() as stack:
        look = _local() or _remote(stack)

        def is_over() -> bool:
            if (why := look()) is None:
                return False
            error = ClusterLostError(
                f"{why}. {_out_of_memory(killed_before, oom_kills())}What was committed is in the store, checkpoints "
                "too. Run the same command to resume."
            )
            end(error)
            if not has_ended.wait(ENDING_S):
                desert(error)
            return True

        stack.enter_context(polling(is_over, LOOK_S, "nodes"))
        stack.callback(has_ended.set)
        yield


def leave_behind() -> None:
    """Shut Ray down after a `ClusterLostError`; what waits for its head all the same ends with the process."""
    import ray

    leaving = threading.Thread(target=ray.shutdown, name="ray shutdown", daemon=True)
    leaving.start()
    leaving.join(SHUTDOWN_S)
    if leaving.is_alive():
        atexit.register(_end_process)


def _end_process() -> None:
    """End before Ray's own end, which was registered before."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ClusterLostError.exit_code)


def _local() -> Callable[[], str | None] | None:
    """Says which process of a Ray that this process has started is gone; None if it has started none."""
    from orchestrator.ray_engine.ray_internals import own_processes

    started, logs = own_processes()
    processes = {name: process for name in _WATCHED for process in started.get(name, [])}

    def look() -> str | None:
        for name, process in processes.items():
            if (code := process.poll()) is not None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                return f"the local Ray is gone: its process {name} {how}; its logs are in {logs}"
        return None

    return look if processes else None


def _remote(stack: ExitStack) -> Callable[[], str | None]:
    """Says that no node of the cluster is alive; a thread asks, as the head may not answer."""
    import ray

    alive, silent = True, 0

    def ask() -> bool:
        nonlocal alive, silent
        with suppress(Exception):  # of Ray's own kinds, which are many
            alive, silent = any(node["Alive"] for node in ray.nodes()), 0
        return False

    def look() -> str | None:
        nonlocal silent
        silent += 1  # looks rather than seconds: this process may have been stopped
        if not alive:
            return "no node of the cluster is alive"
        return "the head of the cluster does not answer" if silent > SILENT_LOOKS else None

    stack.enter_context(polling(ask, LOOK_S, "head"))
    return look


def oom_kills() -> dict[str, int]:
    """How many processes the kernel has killed as memory ran out, by what counted them: the machine, our cgroup."""
    counts = {}
    for path in (Path("/proc/vmstat"), _cgroup() / "memory.events"):
        with suppress(OSError, ValueError):
            lines = dict(line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines())
            counts[str(path)] = int(lines.get("oom_kill", 0))
    return counts


def _cgroup() -> Path:
    own = ""
    with suppress(OSError):
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").partition("0::/")[2].split("\n")[0]
    root = Path("/sys/fs/cgroup")
    return root / own if (root / own).exists() else root


def _out_of_memory(before: dict[str, int], now: dict[str, int]) -> str:
    n = max((now[path] - before.get(path, now[path]) for path in now), default=0)
    killed = "1 process" if n == 1 else f"{n:,} processes"
    return f"The kernel killed {killed} meanwhile, as memory ran out. " if n else ""


# Read by Ray at import.
_SETTINGS = {
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # nothing reads Tune's snapshot
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",  # slots limit the trials; by default one worker starts after the other
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker that was given no GPU sees none; by default it sees all
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",  # in a job submitted with a folder, workers get that of the launch
    "RAY_idle_worker_killing_time_threshold_ms": "60000",  # default 1 s: before the first trial needs them
    "RAY_task_events_max_num_task_in_gcs": "10000",  # 4 KB each in the head's memory, five per trial; default 100,000
}
# What makes Ray's processes part of another cluster, or open to another machine. A local Ray is on its own.
_OF_OTHER_CLUSTERS = (
    "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_CLIENT_MODE", "RAY_ENABLE_GCS_LEADER_ELECTION",
    "RAY_GCS_SERVER_PORT", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_JOB_ID", "RAY_NAMESPACE", "RAY_NODE_ID",
    "RAY_OVERRIDE_DASHBOARD_URL", "RAY_OVERRIDE_NODE_ID_FOR_TESTING", "RAY_RAYLET_PID", "RAY_REDIS_ADDRESS",
    "RAY_RUNTIME_ENV_HOOK", "RAY_USE_TLS",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",  # a worker would see all GPUs
)  # fmt: skip
# Ray calls a node by an address that other machines can reach, and opens its ports to them, unless this is off, as it
# is by default on Windows and macOS. Then the node is 127.0.0.1, and so is what all of its processes listen on.
_ON_ONE_MACHINE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "PYTHONSAFEPATH": "1",  # a random.py in the working folder is no module of Ray's processes
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",  # `lost_nodes` notices at once; Ray would abort this process
}
_OF_TRIALS = "orchestrator.ray_engine.preload"


@dataclass(frozen=True)
class Cluster:
    """A running Ray cluster.

    Attributes:
        token_hint: Where its token is, or that it asks for none.
    """

    dashboard: str
    token_hint: str

    def nodes(self) -> list[Node]:
        """The nodes that are alive now."""
        import ray

        return [node_of(node["Resources"]) for node in ray.nodes() if node["Alive"]]


@contextmanager
def local_cluster(
    staged: Path | None = None, *, preload: bool = False, cpus: int | None = None, gpus: int = 0
) -> Iterator[Cluster]:
    """A Ray cluster on this machine, on loopback and with a token of its own; shut down afterwards.

    Args:
        staged: The working folder of its workers, each of which gets a copy; None for that of this process.
        preload: Whether the workers, which Ray starts at once, one per core, import what trials need.
        cpus: Its cores; all that this process may use by default.
        gpus: Its GPUs, the first that this process sees. Without any, they are hidden from all of its processes.

    Raises:
        ConfigError: RAY_AUTH_MODE or RAY_TMPDIR is set to something that Ray would not take as it was meant, or Ray
            cannot start this Python.
        MissingError, RefusedError: there is no place for its files.
        EngineStartError: it does not start, not even with more time.
    """
    if re.search(r"['\"\\]", sys.executable):  # a node starts its workers by a command line, which it splits again
        raise ConfigError(
            f"--cluster local: Ray cannot start {sys.executable}, a path with quotes or backslashes. Make the "
            "environment in another folder, or use --cluster inline."
        )
    has_token = ray_session.is_required(os.environ)
    hidden = nullcontext() if gpus else show_gpus(())
    check_loopback_and_files()
    with session_folder() as folder, room_in(folder), temporary_files_in(folder / "tmp"), hidden:
        for name in (*_OF_OTHER_CLUSTERS, ray_session.TOKEN, ray_session.TOKEN_PATH):
            os.environ.pop(name, None)
        os.environ |= _ON_ONE_MACHINE | {"RAY_preload_python_modules": _OF_TRIALS if preload else ""}
        hint = ray_session.NO_TOKEN
        if has_token:
            token = new_token(folder)
            os.environ |= {ray_session.MODE: "token", ray_session.TOKEN_PATH: str(token)}
            hint = f"token: {token}"

        def failed(error: str) -> Exception:
            logs = folder / "session_latest" / "logs"
            if getrlimit(RLIMIT_AS)[0] != RLIM_INFINITY:  # its processes reserve much more than they use
                return MemoryError(f"Ray did not start ({error}); its logs are in {logs}")
            return EngineStartError(
                f"--cluster local: Ray did not start ({error}); its logs are in {logs}. --cluster inline needs none."
            )

        where = {"address": "local", "include_dashboard": True, "dashboard_host": "127.0.0.1", "_temp_dir": str(folder)}
        size = {"num_cpus": cpus or usable_cores(), "num_gpus": gpus}
        with _connected(staged, hint, failed, **where, **size) as cluster:
            from orchestrator.ray_engine.ray_internals import use_started_workers

            use_started_workers()
            yield cluster


FEWEST_FILES = 256  # that a process may open: below it Ray's own do not start
_FEWEST_BYTES = 20_000_000  # what a session needs for logs and sockets


def check_loopback_and_files() -> None:
    """Raise EngineStartError where Ray's processes could not reach each other, or not open their files."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if soft < FEWEST_FILES <= hard:
        setrlimit(RLIMIT_NOFILE, (FEWEST_FILES, hard))
    if hard < FEWEST_FILES and hard != RLIM_INFINITY:
        raise EngineStartError(
            f"--cluster local: a process here may open {hard:,} files, too few for Ray's. Raise the limit (`ulimit -n "
            "4096`, in a job by its scheduler), or use --cluster inline."
        )
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        raise EngineStartError(
            f"--cluster local: 127.0.0.1 does not answer ({error.strerror or error}), by which Ray's processes reach "
            "each other. Bring the loopback up (`ip link set lo up`), or use --cluster inline."
        ) from error


@contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Say that Ray's folder is full where it is, or what the block raises comes of it. Raises MissingError."""
    full = (
        f"--cluster local: {folder}, the folder of Ray's temporary files, is full. Make room there, or name another "
        "folder with RAY_TMPDIR."
    )
    if shutil.disk_usage(folder).free < _FEWEST_BYTES:
        raise MissingError(full)
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC and shutil.disk_usage(folder).free < _FEWEST_BYTES:
            raise MissingError(full) from error
        raise


def _is_connected() -> bool:
    """Whether this process uses Ray already, as a notebook may."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


@contextmanager
def own_cluster(staged: Path | None = None) -> Iterator[Cluster]:
    """The Ray cluster that this machine belongs to, or that RAY_ADDRESS names; it keeps running afterwards.

    Args:
        staged: As of `local_cluster`.

    Raises:
        ConfigError: the cluster does not exist, or RAY_AUTH_MODE has an unknown value.
        RefusedError: other users of this machine can read the cluster's token.
    """
    has_token = not _is_connected() and ray_session.check_client_token()
    hint = "token: `ray get-auth-token`" if has_token else ray_session.NO_TOKEN

    def failed(error: str) -> PermafrostError:
        return ConfigError(f"--cluster auto: Ray is not running here ({error}). Start it, or use --cluster local.")

    with _connected(staged, hint, failed, address="auto") as cluster:
        yield cluster


# Seconds for the node of a local Ray at its first start and the second: a busy machine needs more than a minute, and a
# Ray that starts while another of this machine's runs may talk to a process of the other, which knows another token
# (seen once in ten starts).
NODE_S = (60.0, 180.0)


@contextmanager
def _connected(
    staged: Path | None, token_hint: str, failed: Callable[[str], Exception], **options: Any
) -> Iterator[Cluster]:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # only now: importing it takes seconds, and it reads the settings above

    from orchestrator.ray_engine.ray_internals import (
        OwnPathJob,
        dashboard_url,
        keep_lines_off_stdout,
        read_token_again,
        sigterm_stays_ours,
        starting_at_once,
    )

    if _is_connected():
        if options["address"] == "local":
            raise EngineStartError(
                "--cluster local: this process is connected to a Ray already and cannot start another. Use --cluster "
                "auto, which runs on it, or call `ray.shutdown()` before."
            )
        url = dashboard_url()
        yield Cluster(
            f"http://{url}" if url else "off: Ray has none", "token: that of this process's Ray"
        )  # whoever has started it ends it
        return
    read_token_again()
    keep_lines_off_stdout()
    options |= {"job_config": OwnPathJob()} | ({"runtime_env": {"working_dir": str(staged)}} if staged else {})
    with ExitStack() as starting:
        for wait_s in NODE_S:
            wait_for_dashboard = starting.enter_context(starting_at_once(wait_s))
            try:
                with sigterm_stays_ours():
                    ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
                break
            except Exception as error:  # Ray raises its own, and any that a wrong setting of its many causes
                if wait_s == NODE_S[-1] or options["address"] != "local":
                    raise failed((str(error).strip().splitlines() or [type(error).__name__])[0]) from error
                ray.shutdown()
                starting.close()
        shut_down = ray.shutdown
        try:
            why_off = wait_for_dashboard()
            url = dashboard_url()
            yield Cluster(f"http://{url}" if url else f"off: {why_off or 'Ray has none'}", token_hint)
        except ClusterLostError:
            shut_down = leave_behind
            raise
        finally:
            shut_down()
