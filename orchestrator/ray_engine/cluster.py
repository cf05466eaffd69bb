"""Start or join the Ray cluster that a sweep runs on; its nodes and its dashboard."""

from __future__ import annotations

import atexit
import errno
import itertools
import logging
import math
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib import import_module
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
ENDING_S, SHUTDOWN_S, SIGNALS_S = 8.0, 5.0, 0.005
SILENT_LOOKS = 45  # without an answer of the head; after 60 s of it Ray aborts the process
_WATCHED = ("raylet", "gcs_server")


class ClusterLostError(PermafrostError):
    """No node of the cluster is left."""

    exit_code = 1


@contextmanager
def ending_without_nodes(
    end: Callable[[Exception], None], desert: Callable[[Exception], None], logs: str = ""
) -> Iterator[None]:
    """While the block runs, call `end` once, in a thread, with the error if no node of the connected Ray is left.

    If the block has not ended some seconds later, as it is in a call of Ray that waits for the head, call `desert`.
    Tune hears nothing of it and would wait for its workers without end. A local Ray is watched by its processes; of
    another one the head is asked which nodes are alive. As long as one is, Tune hears of the workers that were lost
    with the others, and their trials are retried.
    """
    has_ended, killed_before = threading.Event(), oom_kills()
    with ExitStack() as stack:
        look = _local(logs) or _remote(stack)

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


def _local(logs: str) -> Callable[[], str | None] | None:
    """Says which process of a Ray that this process has started is gone; None if it has started none."""
    processes = {name: pid for name, pid in _children().items() if name in _WATCHED}

    def look() -> str | None:
        for name, pid in processes.items():
            if (ended := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                how = "ended with code" if ended.si_code == os.CLD_EXITED else "was killed by signal"
                where = f"; its logs are in {logs}" if logs else ""
                return f"the local Ray is gone: its process {name} {how} {ended.si_status}{where}"
        return None

    return look if processes else None


def _children() -> dict[str, int]:
    """The processes that this one has started, by the names of their programs or scripts."""
    found = dict[str, int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                words = (folder / "cmdline").read_text(errors="replace").split("\0")
                found |= {Path(word).name: int(folder.name) for word in words[:3]}
    return found


def _send(name: str, number: signal.Signals) -> bool:
    if child := _children().get(name):
        os.kill(child, number)
    return child is not None


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
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "0",  # seconds that the start of a Ray waits for its dashboard; default 60
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # any line: Ray would print dozens on its processes on our stdout
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
        logs: Where those of a local one are.
    """

    dashboard: str
    token_hint: str
    logs: str = ""

    def nodes(self) -> list[Node]:
        """The nodes that are alive now."""
        import ray

        return [node_of(node["Resources"]) for node in ray.nodes() if node["Alive"]]


@contextmanager
def local_cluster(
    staged: Path | None = None,
    take_back: Callable[[], None] = lambda: None,
    *,
    preload: bool = False,
    cpus: int | None = None,
    gpus: int = 0,
) -> Iterator[Cluster]:
    """A Ray cluster on this machine, on loopback and with a token of its own; shut down afterwards.

    Args:
        staged: The working folder of its workers, each of which gets a copy; None for that of this process.
        take_back: Has this process handle its signals again, which Ray resets at its end.
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
            os.environ.pop(ray_session.MODE, None)  # Ray asks for a token then, even where it was imported before
            os.environ[ray_session.TOKEN_PATH] = str(token)
            hint = f"token: {token}"

        def failed(error: str) -> Exception:
            logs = folder / "session_latest" / "logs"
            if getrlimit(RLIMIT_AS)[0] != RLIM_INFINITY:  # its processes reserve much more than they use
                return MemoryError(f"Ray did not start ({error}); its logs are in {logs}")
            return EngineStartError(
                f"--cluster local: Ray did not start ({error}); its logs are in {logs}. --cluster inline needs none."
            )

        # Ray drops its handle of the dashboard with its settings above.
        warnings.filterwarnings("ignore", "subprocess .* is still running", ResourceWarning)
        port = next(port for port in itertools.count(8265) if _is_free(port))
        where = {"address": "local", "dashboard_host": "127.0.0.1", "dashboard_port": port, "_temp_dir": str(folder)}
        size = {"num_cpus": cpus or usable_cores(), "num_gpus": gpus}
        with _connected(staged, hint, failed, take_back, **where, **size) as cluster:
            yield replace(cluster, dashboard=f"http://127.0.0.1:{port}", logs=str(folder / "session_latest" / "logs"))


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


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
def own_cluster(staged: Path | None = None, take_back: Callable[[], None] = lambda: None) -> Iterator[Cluster]:
    """The Ray cluster that this machine belongs to, or that RAY_ADDRESS names; it keeps running afterwards.

    Args:
        staged, take_back: As of `local_cluster`.

    Raises:
        ConfigError: the cluster does not exist, or RAY_AUTH_MODE has an unknown value.
        RefusedError: other users of this machine can read the cluster's token.
    """
    has_token = not _is_connected() and ray_session.check_client_token()
    hint = "token: `ray get-auth-token`" if has_token else ray_session.NO_TOKEN

    def failed(error: str) -> PermafrostError:
        return ConfigError(f"--cluster auto: Ray is not running here ({error}). Start it, or use --cluster local.")

    with _connected(staged, hint, failed, take_back, address="auto") as cluster:
        yield cluster


@contextmanager
def _ray(take_back: Callable[[], None], *, is_new: bool, **options: Any) -> Iterator[Any]:
    """Ray in a thread of its own, from its start to its end: what `ray.init` returns.

    Outside of the main thread Ray does not take SIGTERM for itself. And Linux kills the processes of a local Ray with
    the thread that started them, also those of a start that failed half-way.

    Args:
        take_back: Handles signals again: at its end Ray resets SIGTERM to its default, which would end this process.
        is_new: Whether Ray was imported with our settings, so that it does not wait for its dashboard, which then waits
            for it: both at a time would need twice as long for what trials need.
    """
    import ray

    context, is_over, most_s = Future[Any](), threading.Event(), math.inf

    def live() -> None:
        try:
            context.set_result(ray.init(logging_level=logging.CRITICAL, log_to_driver=False, **options))
            is_over.wait()
        except Exception as error:  # Ray raises its own, and any that a wrong setting of its many causes
            context.set_exception(error)
        finally:
            ray.shutdown()

    thread = threading.Thread(target=live, name="ray", daemon=True)
    thread.start()
    try:
        while is_new and not context.done() and not _send("dashboard.py", signal.SIGSTOP):
            time.sleep(SIGNALS_S)
        _send("monitor.py", signal.SIGKILL)  # an autoscaler has nothing to do here, and takes a second to end
        import_module("orchestrator.ray_engine.tune_engine")  # while Ray starts
        result = context.result()
        _send("dashboard.py", signal.SIGCONT)
        yield result
    except ClusterLostError:
        most_s = SHUTDOWN_S
        raise
    finally:
        _send("dashboard.py", signal.SIGTERM)  # as Ray does not, which has not waited for it
        is_over.set()
        until = time.monotonic() + most_s
        while thread.is_alive() and time.monotonic() < until:
            thread.join(SIGNALS_S)
            take_back()
        if thread.is_alive():  # it waits for the head, and ends with the process
            atexit.register(_end_process)


def _end_process() -> None:
    """End before Ray's own end, which was registered before."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ClusterLostError.exit_code)


# Seconds that a local Ray has until its node is there, at each try: a busy machine may need minutes, and a Ray that
# starts while another of this machine's runs may talk to a process of the other, which knows another token (seen once
# in ten starts).
NODE_S = (60.0, 180.0)


@contextmanager
def _connected(
    staged: Path | None,
    token_hint: str,
    failed: Callable[[str], Exception],
    take_back: Callable[[], None],
    **options: Any,
) -> Iterator[Cluster]:
    is_new = "ray" not in sys.modules
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # noqa: F401  # only now: importing it takes seconds, and it reads the settings above

    from orchestrator.ray_engine.ray_internals import OwnPathJob, node_has, read_token_again

    if _is_connected():
        if options["address"] == "local":
            raise EngineStartError(
                "--cluster local: this process is connected to a Ray already and cannot start another. Use --cluster "
                "auto, which runs on it, or call `ray.shutdown()` before."
            )
        yield Cluster("as this process's Ray has it", "token: its own")  # whoever has started it ends it
        return
    read_token_again()
    options |= {"job_config": OwnPathJob()} | ({"runtime_env": {"working_dir": str(staged)}} if staged else {})
    with ExitStack() as stack:
        for wait_s in NODE_S:
            try:
                with node_has(wait_s):
                    context = stack.enter_context(_ray(take_back, is_new=is_new, **options))
                break
            except Exception as error:
                if wait_s == NODE_S[-1] or options["address"] != "local":
                    raise failed((str(error).strip().splitlines() or [type(error).__name__])[0]) from error
        yield Cluster(f"http://{context.dashboard_url}" if context.dashboard_url else "off: Ray has none", token_hint)
