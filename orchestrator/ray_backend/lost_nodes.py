"""Notices that no node of a cluster is left, of which Tune hears nothing: it would wait for its workers without end.

A local Ray is watched by its processes; of another one the head is asked which nodes are alive. As long as one is,
Tune hears of the workers that were lost with the others, and their trials are retried.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from orchestrator.execution.stop_request import polling
from trials.errors import PermafrostError

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
    """
    from ray.tune.execution.tune_controller import TuneController

    has_ended = threading.Event()
    killed_before, cleanup = oom_kills(), TuneController.cleanup
    with ExitStack() as stack:
        stack.callback(setattr, TuneController, "cleanup", cleanup)
        look = _local() or _remote(stack)

        def is_over() -> bool:
            if (why := look()) is None:
                return False
            # Tune would wait for the head, which may be gone.
            TuneController.cleanup = lambda controller: None
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
    from ray._private.worker import _global_node

    started: dict[str, list[Any]] = {} if _global_node is None else _global_node.all_processes
    logs = "" if _global_node is None else _global_node.get_logs_dir_path()
    processes = {name: info.process for name in _WATCHED for info in started.get(name, [])}

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
