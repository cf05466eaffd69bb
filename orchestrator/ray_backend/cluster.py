"""Start or join the Ray cluster that a sweep runs on; its nodes and its dashboard."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from orchestrator.execution.slots import Node, Share, Slots
from trials.errors import ConfigError

# Read by Ray at import: Tune must not write log files, change the working directory, or handle Ctrl-C itself.
_SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # nothing reads Tune's snapshot
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_events_max_num_task_in_gcs": "10000",  # of 4 KB in the head's memory, five per trial; default 100,000
}
_ACCELERATOR = "accelerator_type:"


@dataclass(frozen=True)
class Cluster:
    """A running Ray cluster.

    Attributes:
        dashboard: Address of Ray's dashboard.
        token_hint: How to get its token.
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
            f"resources: a trial needs {share.cpus} CPUs and {share.gpus:g} GPUs, but the largest node of the "
            f"cluster has {most_cpus:g} and {most_gpus:g}. Lower resources.cpus or resources.gpus.",
            exit_code=3,
        )
    return slots


@contextmanager
def local_cluster(metadata: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A Ray cluster on this machine's cores and GPUs, with its dashboard on loopback; shut down afterwards.

    Args:
        metadata: Shown by Ray's dashboard for this driver, in its list of jobs.
    """
    with _connected(metadata, include_dashboard=True, dashboard_host="127.0.0.1") as cluster:
        yield cluster


@contextmanager
def own_cluster(metadata: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """The Ray cluster that this machine belongs to, or that RAY_ADDRESS names; it keeps running afterwards.

    Args:
        metadata: As for `local_cluster`. That of a submitted job takes precedence.

    Raises:
        ConfigError: there is no such cluster.
    """
    try:
        with _connected(metadata, address="auto") as cluster:
            yield cluster
    except ConnectionError as error:
        raise ConfigError(
            f"--cluster auto: Ray is not running here ({error}). Start it, or use --cluster local."
        ) from error


@contextmanager
def _connected(metadata: Mapping[str, str] | None, **options: Any) -> Iterator[Cluster]:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # only now: importing it takes seconds, and it reads the settings above
    from ray.job_config import JobConfig

    job = JobConfig(metadata=dict(metadata or {}))
    context = ray.init(
        logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, job_config=job, **options
    )
    try:
        dashboard = f"http://{context.dashboard_url}" if context.dashboard_url else "off"
        node_id = ray.get_runtime_context().get_node_id()
        yield Cluster(dashboard, "token: `ray get-auth-token`", node_id)
    finally:
        ray.shutdown()
