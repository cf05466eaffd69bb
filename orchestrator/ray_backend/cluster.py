"""Start or join the Ray cluster that a sweep runs on; its nodes and its dashboard."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit
from typing import Any

from orchestrator.config.quantities import counted
from orchestrator.deploy import ray_token
from orchestrator.deploy.ray_session import new_token, session_folder, temporary_files_in
from orchestrator.execution.slots import Node, Share, Slots
from orchestrator.ray_backend.lost_nodes import ClusterLostError, leave_behind
from trials.errors import ConfigError, MissingError, PermafrostError
from trials.hardware.machine import hidden_gpus, usable_cores

# Read by Ray at import: Tune must not write log files, change the working directory, or handle Ctrl-C itself.
_SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # nothing reads Tune's snapshot
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker that was given no GPU sees none; by default it sees all
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_idle_worker_killing_time_threshold_ms": "60000",  # default 1 s: before the first trial needs them
    "RAY_task_events_max_num_task_in_gcs": "10000",  # of 4 KB in the head's memory, five per trial; default 100,000
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
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",  # `lost_nodes` notices at once; Ray would abort this process
}
_ACCELERATOR = "accelerator_type:"
# What takes a worker some four seconds of CPU to import, in the time in which the driver gets ready.
_OF_TRIALS = "orchestrator.ray_backend.trainable,trials.run"


@dataclass(frozen=True)
class Cluster:
    """A running Ray cluster.

    Attributes:
        token_hint: Where its token is, or that it asks for none.
        node_id: This driver's node, on which the paths of planned trials are valid.
    """

    dashboard: str
    token_hint: str
    node_id: str

    def nodes(self) -> list[Node]:
        """The nodes that are alive now."""
        import ray

        return [_node(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def _node(resources: dict[str, float]) -> Node:
    kinds = sorted(name.removeprefix(_ACCELERATOR) for name in resources if name.startswith(_ACCELERATOR))
    gpus = resources.get("GPU", 0.0)
    return Node(kinds[0] if kinds else "gpu" if gpus else "cpu", resources.get("CPU", 0.0), gpus)


def resources_of(kind: str, share: Share) -> dict[str, float]:
    """The resources that a trial requests from Ray; a fraction of an accelerator pins it to nodes of its kind."""
    pinned = {f"{_ACCELERATOR}{kind}": 0.001} if kind not in ("", "cpu", "gpu") else {}
    return {"CPU": share.cpus, "GPU": share.gpus, **pinned}


def checked(slots: Slots, cluster: Cluster, *, may_grow: bool) -> Slots:
    """The slots. Raises ConfigError if a trial needs more than any node has, and no node will be added."""
    if slots.total() < 1 and not may_grow:
        share = next(iter(slots.shares.values()))
        nodes = cluster.nodes()
        most_cpus, most_gpus = max((n.cpus for n in nodes), default=0), max((n.gpus for n in nodes), default=0)
        raise ConfigError(
            f"resources: a trial needs {counted(share.cpus, 'CPU')} and {share.gpus:g} GPUs, but the largest node of "
            f"the cluster has {most_cpus:g} and {most_gpus:g}. Lower resources.cpus or resources.gpus.",
            exit_code=3,
        )
    return slots


@contextmanager
def local_cluster(
    metadata: Mapping[str, str] | None = None, *, preload: bool = False, cpus: int | None = None, gpus: int = 0
) -> Iterator[Cluster]:
    """A Ray cluster on this machine, on loopback and with a token of its own; shut down afterwards.

    Args:
        metadata: Shown by Ray's dashboard for this driver, in its list of jobs.
        preload: Whether the workers, which Ray starts at once, one per core, import what trials need.
        cpus: Its cores; all that this process may use by default.
        gpus: Its GPUs, the first that this process sees. Without any, they are hidden from all of its processes.

    Raises:
        ConfigError: RAY_AUTH_MODE or RAY_TMPDIR is set to something that Ray would not take as it was meant, or Ray
            cannot start this Python.
        MissingError, RefusedError: there is no place for its files, or it does not start.
    """
    if re.search(r"['\"\\]", sys.executable):  # a node starts its workers by a command line, which it splits again
        raise ConfigError(
            f"--cluster local: Ray cannot start {sys.executable}, a path with quotes or backslashes. Make the "
            "environment in another folder, or use --cluster inline."
        )
    has_token = ray_token.is_required(os.environ)
    hidden = nullcontext() if gpus else hidden_gpus()
    with session_folder() as folder, temporary_files_in(folder / "tmp"), hidden:
        for name in (*_OF_OTHER_CLUSTERS, ray_token.TOKEN, ray_token.TOKEN_PATH):
            os.environ.pop(name, None)
        os.environ |= _ON_ONE_MACHINE | {"RAY_preload_python_modules": _OF_TRIALS if preload else ""}
        hint = ray_token.NO_TOKEN
        if has_token:
            token = new_token(folder)
            os.environ |= {ray_token.MODE: "token", ray_token.TOKEN_PATH: str(token)}
            hint = f"token: {token}"

        def failed(error: Exception) -> Exception:
            logs = folder / "session_latest" / "logs"
            if getrlimit(RLIMIT_AS)[0] != RLIM_INFINITY:  # its processes reserve much more than they use
                return MemoryError(f"Ray did not start ({error}); its logs are in {logs}")
            return MissingError(f"--cluster local: Ray did not start ({error}); its logs are in {logs}.")

        where = {"address": "local", "include_dashboard": True, "dashboard_host": "127.0.0.1", "_temp_dir": str(folder)}
        size = {"num_cpus": cpus or usable_cores(), "num_gpus": gpus}
        with _connected(metadata, hint, failed, **where, **size) as cluster:
            from orchestrator.ray_backend.startup_patch import use_started_workers

            use_started_workers()
            yield cluster


@contextmanager
def own_cluster(metadata: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """The Ray cluster that this machine belongs to, or that RAY_ADDRESS names; it keeps running afterwards.

    Args:
        metadata: As for `local_cluster`. That of a submitted job takes precedence.

    Raises:
        ConfigError: the cluster does not exist, or RAY_AUTH_MODE has an unknown value.
        RefusedError: other users of this machine can read the cluster's token.
    """
    hint = "token: `ray get-auth-token`" if ray_token.check_client_token() else ray_token.NO_TOKEN

    def failed(error: Exception) -> PermafrostError:
        return ConfigError(f"--cluster auto: Ray is not running here ({error}). Start it, or use --cluster local.")

    with _connected(metadata, hint, failed, address="auto") as cluster:
        yield cluster


@contextmanager
def _connected(
    metadata: Mapping[str, str] | None, token_hint: str, failed: Callable[[Exception], Exception], **options: Any
) -> Iterator[Cluster]:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # only now: importing it takes seconds, and it reads the settings above

    from orchestrator.ray_backend.startup_patch import starting_at_once
    from orchestrator.ray_backend.worker_path import OwnPathJob

    # What Ray says of its processes is for its logs: dozens of lines, with escape sequences, on stdout, which is ours.
    ray._private.worker.print_to_stdstream = lambda data, ignore_prefix: None
    job = OwnPathJob(metadata=dict(metadata or {}))
    with starting_at_once() as wait_for_dashboard:
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, job_config=job, **options)
        except Exception as error:  # Ray raises its own, and any that a wrong setting of its many causes
            raise failed(error) from error
        shut_down = ray.shutdown
        try:
            why_off = wait_for_dashboard()
            url = ray._private.worker.get_dashboard_url()  # what `ray.init` returns is a guess until then
            node_id = ray.get_runtime_context().get_node_id()
            yield Cluster(f"http://{url}" if url else f"off: {why_off or 'Ray has none'}", token_hint, node_id)
        except ClusterLostError:
            shut_down = leave_behind
            raise
        finally:
            shut_down()
