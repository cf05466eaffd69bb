"""Join or start the Ray that a sweep runs on, and say what it is made of and how to look at it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from orchestrator.execution.slots import Node, Share, Slots
from trials.errors import ConfigError

# Read by Ray at import: Tune shall not log to files of its own, change the working directory, or take Ctrl-C from us.
_SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # nobody reads Tune's snapshot
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_events_max_num_task_in_gcs": "10000",  # of 4 KB in the head's memory; Ray keeps 100,000, a trial has five
}
_ACCELERATOR = "accelerator_type:"


@dataclass(frozen=True)
class Cluster:
    """A Ray that is up.

    Attributes:
        dashboard: Address of Ray's dashboard.
        token_hint: How to get in.
        node_id: The node that this driver is on, where planned paths hold.
    """

    dashboard: str
    token_hint: str
    node_id: str

    def nodes(self) -> list[Node]:
        """The nodes that are up at this moment."""
        import ray

        return [_node(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def _node(resources: dict[str, float]) -> Node:
    kinds = sorted(name.removeprefix(_ACCELERATOR) for name in resources if name.startswith(_ACCELERATOR))
    gpus = resources.get("GPU", 0.0)
    return Node(kinds[0] if kinds else "gpu" if gpus else "cpu", resources.get("CPU", 0.0), gpus)


def resources_of(kind: str, share: Share) -> dict[str, float]:
    """What a trial asks Ray for; a sliver of its kind of accelerator pins it to nodes that have one."""
    pinned = {f"{_ACCELERATOR}{kind}": 0.001} if kind not in ("", "cpu", "gpu") else {}
    return {"CPU": share.cpus, "GPU": share.gpus, **pinned}


def checked(slots: Slots, cluster: Cluster, *, may_grow: bool) -> Slots:
    """The slots. Raises ConfigError where a trial asks for more than any node has, and none will be added."""
    if slots.total() < 1 and not may_grow:
        share = next(iter(slots.shares.values()))
        nodes = cluster.nodes()
        most_cpus, most_gpus = max((n.cpus for n in nodes), default=0), max((n.gpus for n in nodes), default=0)
        raise ConfigError(
            f"resources: a trial asks for {share.cpus} CPUs and {share.gpus:g} GPUs, but the largest node of the "
            f"cluster has {most_cpus:g} and {most_gpus:g}. Lower resources.cpus or resources.gpus.",
            exit_code=3,
        )
    return slots


@contextmanager
def local_cluster(told: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A Ray on this machine's cores and GPUs, its dashboard on loopback; gone afterwards.

    Args:
        told: What Ray's dashboard shows of this driver, in its list of jobs.
    """
    with _connected(told, include_dashboard=True, dashboard_host="127.0.0.1") as cluster:
        yield cluster


@contextmanager
def own_cluster(told: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """The Ray that this machine belongs to, or that RAY_ADDRESS names; it stays when the sweep is over.

    Args:
        told: As for `local_cluster`. What a submitted driver was submitted with comes before it.

    Raises:
        ConfigError: there is none.
    """
    try:
        with _connected(told, address="auto") as cluster:
            yield cluster
    except ConnectionError as error:
        raise ConfigError(f"--cluster auto: no Ray runs here ({error}). Start one, or use --cluster local.") from error


@contextmanager
def _connected(told: Mapping[str, str] | None, **options: Any) -> Iterator[Cluster]:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # only now: importing it takes seconds, and it reads the settings above
    from ray.job_config import JobConfig

    job = JobConfig(metadata=dict(told or {}))
    context = ray.init(
        logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, job_config=job, **options
    )
    try:
        dashboard = f"http://{context.dashboard_url}" if context.dashboard_url else "off"
        node_id = ray.get_runtime_context().get_node_id()
        yield Cluster(dashboard, "token: `ray get-auth-token`", node_id)
    finally:
        ray.shutdown()
