"""Launch a sweep on a remote cluster: submit a job with its files and show the output of its driver."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from orchestrator.config.console import INTERRUPTED, Say
from orchestrator.config.yaml_document import Document
from orchestrator.deploy.ray_session import NO_TOKEN
from orchestrator.ray_backend.jobs import CLUSTER_FILE, Jobs, package_plugins, package_sweep
from orchestrator.sweeps.cluster_spec import ClusterSpec
from trials.errors import ConfigError

_URL = re.compile(r"[a-z0-9]+://")


def submit(
    spec: ClusterSpec,
    document: Document,
    *,
    sweep: str,
    store: str | None,
    flags: Sequence[str],
    detach: bool,
    say: Say,
    write: Say,
) -> int:
    """Submit a sweep to a cluster, and follow it unless detached; returns the exit code of its launch.

    `write` gets the output of its driver, as it comes.

    Raises:
        ConfigError: The cluster cannot reach the store or local files.
        MissingError, RefusedError: The cluster does not answer, or refuses the request.
    """
    if store is None or not (_URL.match(store) or Path(store).is_absolute()):
        raise ConfigError(
            f"--store {store or 'is missing'}: the nodes of a cluster do not share this folder. Give s3:// or gs://, "
            "or the absolute path of a folder that all nodes share."
        )
    jobs = Jobs(spec.address)
    if not jobs.sends_token:
        say(f"note    {NO_TOKEN}.")
    with tempfile.TemporaryDirectory() as folder:
        name = package_sweep(Path(folder), document, spec, Path.cwd())
        flags = [*flags, *package_plugins(Path(folder))]
        # -P: the job's folder holds what the person named, perhaps a `trials.py`
        command = ["python", "-P", "-m", "orchestrator.launch"]
        command += ["--sweep", name, "--cluster", CLUSTER_FILE, "--store", store]
        job = jobs.submit(Path(folder), [*command, *flags], spec, sweep=sweep, store=store)
    say(f"job     {job} at {spec.address}; it runs independently of this terminal")
    if detach:
        say(_next_commands(spec.address, sweep))
        return 0
    return follow(jobs, job, sweep, say, write)


def follow_newest(address: str, sweep: str | None, say: Say, write: Say) -> int:
    """Show the output of the newest job of a sweep, or of the newest job of any, to its end."""
    jobs = Jobs(address)
    job = jobs.newest(sweep)
    return follow(jobs, job.id, job.sweep, say, write)


def follow(jobs: Jobs, job_id: str, sweep: str, say: Say, write: Say) -> int:
    """Show the output of a job to its end; returns its exit code. Ctrl-C stops watching; the sweep continues."""
    try:
        job = jobs.follow(job_id, write, say)
    except KeyboardInterrupt:
        say(f"Stopped watching; the sweep continues.\n{_next_commands(jobs.address, sweep)}")
        return INTERRUPTED
    if job.code:  # its last lines are lost where it ended because its node does
        say(f"job     {job_id} ended with exit code {job.code}")
    return job.code


def _next_commands(address: str, sweep: str) -> str:
    return (
        f"  permafrost status --follow --cluster {address}   # look again\n"
        f"  permafrost stop --sweep {sweep} --cluster {address}      # stop the sweep"
    )
