"""Launch a sweep on a cluster somewhere else: what it needs is sent, and what its driver says comes back."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from orchestrator.config.console import INTERRUPTED, say
from orchestrator.config.yaml_document import Document
from orchestrator.ray_backend.job_package import CLUSTER_FILE, package_sweep
from orchestrator.ray_backend.jobs import Jobs
from orchestrator.sweeps.cluster_spec import ClusterSpec
from trials.errors import ConfigError

_URL = re.compile(r"[a-z0-9]+://")


def submit(
    spec: ClusterSpec, document: Document, *, sweep: str, store: str | None, flags: Sequence[str], detach: bool
) -> int:
    """Have a cluster launch a sweep, and follow it unless detached; the exit code of its launch.

    Args:
        spec: The cluster, with its address.
        document: The sweep's file with what was put over it.
        sweep: Its name.
        store: Where its results go; it must mean the same on every node.
        flags: Of the launch there.
        detach: Whether to return as soon as it is submitted.

    Raises:
        ConfigError: the store or local files mean nothing there.
        MissingError, RefusedError: the cluster does not answer, or not to us.
    """
    if store is None or not (_URL.match(store) or Path(store).is_absolute()):
        raise ConfigError(
            f"--store {store or 'is missing'}: a cluster's nodes do not share this folder. Give s3://, gs:// or "
            "hdfs://, or the absolute path of a folder that all of them have."
        )
    jobs = Jobs(spec.address)
    with tempfile.TemporaryDirectory() as folder:
        name = package_sweep(Path(folder), document, spec, Path.cwd())
        words = ["python", "-m", "orchestrator.launch", "--sweep", name, "--cluster", CLUSTER_FILE, "--store", store]
        job = jobs.submit(Path(folder), [*words, *flags], spec, sweep=sweep, store=store)
    say(f"job     {job} at {spec.address}; it goes on whatever happens here")
    if detach:
        say(_how_to_go_on(spec.address, sweep))
        return 0
    return follow(jobs, job, sweep)


def follow_newest(address: str, sweep: str | None) -> int:
    """Show what the driver of the sweep that was submitted last, or of that name, has said and goes on to say."""
    jobs = Jobs(address)
    job = jobs.newest(sweep)
    return follow(jobs, job.id, job.sweep)


def follow(jobs: Jobs, job_id: str, sweep: str) -> int:
    """Show what a submitted sweep's driver says, to its end; Ctrl-C ends only the showing."""
    try:
        return jobs.follow(job_id, _write, say).code
    except KeyboardInterrupt:
        say(f"The sweep goes on without you.\n{_how_to_go_on(jobs.address, sweep)}")
        return INTERRUPTED


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _how_to_go_on(address: str, sweep: str) -> str:
    return (
        f"  permafrost status --follow --cluster {address}   # look again\n"
        f"  permafrost stop {sweep} --cluster {address}      # stop it gracefully"
    )
