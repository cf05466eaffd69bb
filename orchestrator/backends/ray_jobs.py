"""Launches as jobs of a Ray cluster, by the address of its dashboard: submitted with their files, followed, stopped."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from orchestrator.backends.backend import REMOTES, Submission
from orchestrator.config.console import INTERRUPTED, Say
from orchestrator.deploy.ray_session import NO_TOKEN
from orchestrator.ray_backend.job_package import CLUSTER_FILE, package_plugins, package_sweep
from orchestrator.ray_backend.jobs import Jobs
from orchestrator.sweeps.cluster_spec import ClusterSpec
from trials.errors import ConfigError, NothingMatchedError

_URL = re.compile(r"[a-z0-9]+://")


class RayJobs:
    """The `RemoteCluster` of Ray."""

    def submit(self, cluster: ClusterSpec, launch: Submission, *, detach: bool, say: Say, write: Say) -> int:
        """Submit it with its files and plug-ins, and show the output of its driver."""
        document, sweep, store, flags = launch
        if store is None or not (_URL.match(store) or Path(store).is_absolute()):
            raise ConfigError(
                f"--store {store or 'is missing'}: the nodes of a cluster do not share this folder. Give s3:// or "
                "gs://, or the absolute path of a folder that all nodes share."
            )
        jobs = Jobs(cluster.address)
        if not jobs.sends_token:
            say(f"note    {NO_TOKEN}.")
        with tempfile.TemporaryDirectory() as folder:
            name = package_sweep(Path(folder), document, cluster, Path.cwd())
            flags = [*flags, *package_plugins(Path(folder))]
            # -P: the job's folder holds what the person named, perhaps a `trials.py`
            command = ["python", "-P", "-m", "orchestrator.launch"]
            command += ["--sweep", name, "--cluster", CLUSTER_FILE, "--store", store]
            job = jobs.submit(Path(folder), [*command, *flags], cluster, sweep=sweep, store=store)
        say(f"job     {job} at {cluster.address}; it runs independently of this terminal")
        if detach:
            say(_next_commands(cluster.address, sweep))
            return 0
        return follow(jobs, job, sweep, say, write)

    def follow_newest(self, address: str, sweep: str | None, say: Say, write: Say) -> int:
        """Show the output of the newest job of a sweep, or of the newest job of any, to its end."""
        jobs = Jobs(address)
        job = jobs.newest(sweep)
        return follow(jobs, job.id, job.sweep, say, write)

    def stop(self, address: str, sweep: str | None, *, wait: bool, say: Say, write: Say) -> int:
        """Run the command that stops a sweep as a job of the cluster, from where the store can be reached."""
        jobs = Jobs(address)
        newest = jobs.newest(sweep)
        sweep = newest.sweep
        if newest.is_over:
            raise NothingMatchedError(
                f"sweep {sweep}: its driver at {address} has already ended ({newest.status.lower()})."
            )
        # Not the console script: a job has the source of `orchestrator` and `trials`, but they are not installed.
        command = "from orchestrator.commands.app import app; app()"
        arguments = ["python", "-c", command, "stop", newest.store, sweep]
        with tempfile.TemporaryDirectory() as folder:
            words, there = arguments if wait else [*arguments, "--no-wait"], ClusterSpec(address=address)
            job = jobs.submit(Path(folder), words, there, sweep=sweep, store=newest.store, kind="stop")
            return follow(jobs, job, sweep, say, write)


REMOTES.register("ray")(RayJobs())


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
