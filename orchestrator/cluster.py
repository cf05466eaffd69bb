"""Start the Ray that a sweep runs on, and say how to look at it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
class Share:
    """What one trial gets of a cluster.

    Attributes:
        cpus: Cores, and threads of its arithmetic.
        gpus: GPUs; a fraction shares one.
    """

    cpus: int = 1
    gpus: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """A Ray that is up.

    Attributes:
        cpus: Cores of all nodes.
        gpus: GPUs of all nodes.
        dashboard: Address of Ray's dashboard.
        token_hint: How to get in.
    """

    cpus: float
    gpus: float
    dashboard: str
    token_hint: str

    def slots(self, share: Share) -> int:
        """Trials that can run at the same time. Raises ConfigError where one asks for more than there is."""
        slots = int(self.cpus // share.cpus)
        if share.gpus:
            slots = min(slots, int(self.gpus / share.gpus + 1e-9))
        if slots < 1:
            raise ConfigError(
                f"resources: a trial asks for {share.cpus} CPUs and {share.gpus:g} GPUs, but the cluster has "
                f"{self.cpus:g} and {self.gpus:g}. Lower resources.cpus or resources.gpus.",
                exit_code=3,
            )
        return slots


@contextmanager
def local_cluster() -> Iterator[Cluster]:
    """A Ray on this machine's cores and GPUs, its dashboard on loopback; gone afterwards."""
    with _connected(include_dashboard=True, dashboard_host="127.0.0.1") as cluster:
        yield cluster


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """The Ray that this machine belongs to, or that RAY_ADDRESS names; it stays when the sweep is over.

    Raises:
        ConfigError: there is none.
    """
    try:
        with _connected(address="auto") as cluster:
            yield cluster
    except ConnectionError as error:
        raise ConfigError(f"--cluster auto: no Ray runs here ({error}). Start one, or use --cluster local.") from error


@contextmanager
def _connected(**options: Any) -> Iterator[Cluster]:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # only now: importing it takes seconds, and it reads the settings above

    context = ray.init(logging_level=logging.ERROR, log_to_driver=False, configure_logging=True, **options)
    try:
        found = ray.cluster_resources()
        dashboard = f"http://{context.dashboard_url}" if context.dashboard_url else "off"
        yield Cluster(found.get("CPU", 0.0), found.get("GPU", 0.0), dashboard, "token: `ray get-auth-token`")
    finally:
        ray.shutdown()
