"""Start the Ray that a sweep runs on, and say how to look at it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.sweep import Resources
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
}


@dataclass(frozen=True)
class Cluster:
    """A Ray that is up.

    Attributes:
        slots: Trials that can run at the same time.
        dashboard: Address of Ray's dashboard.
        token_hint: How to get in.
    """

    slots: int
    dashboard: str
    token_hint: str


@contextmanager
def local_cluster(resources: Resources) -> Iterator[Cluster]:
    """A Ray on this machine's cores and GPUs, its dashboard on loopback; gone afterwards.

    Raises:
        ConfigError: a trial asks for more than this machine has.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # only now: importing it takes seconds, and it reads the settings above

    context = ray.init(
        include_dashboard=True,
        dashboard_host="127.0.0.1",
        logging_level=logging.ERROR,
        log_to_driver=False,
        configure_logging=True,
    )
    try:
        found = ray.cluster_resources()
        slots = _slots(found.get("CPU", 0.0), found.get("GPU", 0.0), resources)
        yield Cluster(slots, f"http://{context.dashboard_url}", "token: `ray get-auth-token`")
    finally:
        ray.shutdown()


def _slots(cpus: float, gpus: float, resources: Resources) -> int:
    slots = int(cpus // resources.cpus)
    if resources.gpus:
        slots = min(slots, int(gpus / resources.gpus + 1e-9))
    if slots < 1:
        raise ConfigError(
            f"resources: a trial asks for {resources.cpus} CPUs and {resources.gpus:g} GPUs, but the cluster has "
            f"{cpus:g} and {gpus:g}. Lower resources.cpus or resources.gpus.",
            exit_code=3,
        )
    return slots
