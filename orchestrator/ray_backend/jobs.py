"""Sweeps as jobs of a remote cluster: submit one, follow its output, find it again.

The driver runs on the cluster, so the sweep continues when the laptop is closed. Its output is sent back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.deploy.ray_session import check_client_token
from orchestrator.ray_backend.job_package import our_modules, pinned_packages
from orchestrator.sweeps.cluster_spec import ClusterSpec
from trials.errors import ConfigError, MissingError, RefusedError

SWEEP, STORE, KIND, DASHBOARD = "permafrost_sweep", "permafrost_store", "permafrost_kind", "permafrost_dashboard"
NAME = "job_name"  # a column of Ray's list of jobs
DASHBOARD_URL = "PERMAFROST_DASHBOARD_URL"
STOP_S = 900  # after `ray job stop` (SIGTERM), for running trials to reach their next evaluation
RETRY_S, GIVE_UP_S = 2.0, 600.0


@dataclass(frozen=True)
class Job:
    """A submitted sweep.

    Attributes:
        sweep, store: The name of the sweep and the address of its store.
        status: ``PENDING``, ``RUNNING``, ``STOPPED``, ``SUCCEEDED`` or ``FAILED``.
        exit_code: Its driver's; None while it runs.
    """

    id: str
    sweep: str
    store: str
    status: str
    exit_code: int | None

    @property
    def is_over(self) -> bool:
        """Whether its driver has ended."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")

    @property
    def code(self) -> int:
        """The exit code that a local launch would have had."""
        if self.exit_code is not None:
            return 128 - self.exit_code if self.exit_code < 0 else self.exit_code
        return {"SUCCEEDED": 0, "STOPPED": 143}.get(self.status, 70)


def job_metadata(sweep: str, store: str) -> dict[str, str]:
    """What Ray's dashboard shows for a sweep's driver: its name, and where to see its results.

    That is the address in PERMAFROST_DASHBOARD_URL, or the command that serves a dashboard of this store. It is also
    part of the name, as Ray 2.60 shows the other keys for submitted jobs only.
    """
    seen = os.environ.get(DASHBOARD_URL) or shlex.join(["permafrost", "dashboard", "--store", store])
    return {NAME: f"{sweep}: {seen}", SWEEP: sweep, STORE: store, DASHBOARD: seen}


class Jobs:
    """The jobs of a cluster, by the address of its dashboard. Ray sends its token according to its own settings."""

    def __init__(self, address: str) -> None:
        """A client of that cluster.

        Raises:
            ConfigError: RAY_AUTH_MODE has an unknown value, or RAY_AUTH_TOKEN_PATH names no file.
            MissingError: the cluster does not answer.
            RefusedError: it rejects the token, or other users of this machine can read it.
        """
        from ray.job_submission import JobSubmissionClient

        self.address, self.sends_token = address, check_client_token()
        for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):  # Ray would submit there instead
            os.environ.pop(name, None)
        warnings.filterwarnings("ignore", "ssl=None is deprecated", DeprecationWarning)  # Ray's own call of aiohttp
        with self._translated_errors():
            self._client = JobSubmissionClient(address)
        for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
            logging.getLogger(name).setLevel(logging.WARNING)  # it logs every package twice

    def submit(
        self, folder: Path, command: Sequence[str], spec: ClusterSpec, *, sweep: str, store: str, kind: str = "launch"
    ) -> str:
        """Run a command on the cluster in a copy of a folder, with this machine's code; the job's id."""
        environment: dict[str, Any] = {
            "working_dir": str(folder),
            "py_modules": our_modules(),
            "env_vars": {
                "PYTHONUNBUFFERED": "1", "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S), **spec.environment.variables
            },
        }  # fmt: skip
        if spec.environment.packages == "pinned":
            environment["pip"] = {"packages": pinned_packages(), "pip_check": False}
        with self._translated_errors():
            job_id: str = self._client.submit_job(
                entrypoint=shlex.join(command),
                submission_id=f"permafrost-{kind}-{re.sub(r'[^A-Za-z0-9_.-]', '-', sweep)}-{uuid.uuid4().hex[:8]}",
                runtime_env=environment,
                metadata=job_metadata(sweep, store) | {KIND: kind},
            )
        return job_id

    def job(self, job_id: str) -> Job:
        """The current state of a job."""
        with self._translated_errors():
            return _job(self._client.get_job_info(job_id))

    def newest(self, sweep: str | None) -> Job:
        """The job that was submitted last. Raises MissingError: there is none."""
        with self._translated_errors():
            jobs = self._client.list_jobs()
        ours = [job for job in jobs if (job.metadata or {}).get(KIND) == "launch"]
        named = [job for job in ours if sweep in (None, job.metadata[SWEEP])]
        if not named:
            names = sorted({job.metadata[SWEEP] for job in ours})
            asked = "sweep" if sweep is None else f"sweep {sweep}"
            raise MissingError(f"{self.address}: no {asked} was submitted there. It has: {', '.join(names) or 'none'}.")
        return _job(max(named, key=lambda job: job.start_time or 0))

    def follow(self, job_id: str, write: Callable[[str], None], say: Callable[[str], None]) -> Job:
        """Write a job's output until it ends, reconnecting if the connection breaks.

        Raises:
            MissingError: the cluster has not answered for ten minutes, or was restarted, so that the job is gone.
        """
        from aiohttp import ClientError  # of ray[default], whose client it is

        output, lost_s = _Output(write), None
        while True:
            try:
                asyncio.run(self._tail(job_id, output))
                job = self.job(job_id)
                if job.is_over:
                    return job
                lost_s = None
            except (ClientError, OSError, RuntimeError, MissingError) as error:
                if self._has_forgotten(job_id):
                    raise MissingError(
                        f"{self.address}: the cluster was restarted and no longer has this job. Run the same launch "
                        "again to resume the sweep."
                    ) from error
                if lost_s is None or output.is_heard:
                    lost_s = time.monotonic()
                    say(f"{self.address} does not answer; trying again for ten minutes.")
                if time.monotonic() - lost_s > GIVE_UP_S:
                    raise MissingError(f"{self.address}: did not answer for ten minutes ({error}).") from error
            time.sleep(RETRY_S)

    def _has_forgotten(self, job_id: str) -> bool:
        """Whether the cluster answers and has no such job: a head keeps its jobs in memory."""
        try:
            with self._translated_errors():
                return all(job.submission_id != job_id for job in self._client.list_jobs())
        except (OSError, MissingError):
            return False

    async def _tail(self, job_id: str, output: _Output) -> None:
        output.restart()
        async for text in self._client.tail_job_logs(job_id):
            output.add(text)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError as error:
            raise RefusedError(
                f"{self.address}: the cluster rejects this token. Set RAY_AUTH_MODE=token and put the cluster's token "
                "into RAY_AUTH_TOKEN, or the path of a file with it into RAY_AUTH_TOKEN_PATH."
            ) from error
        except (ConnectionError, RuntimeError) as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise MissingError(f"{self.address}: the request failed ({text}).") from error
        except ValueError as error:
            raise ConfigError(f"{self.address}: {error}") from error


class _Output:
    """Writes each character of a log once, although each connection sends the log from its beginning."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._written, self._seen = write, 0, 0

    @property
    def is_heard(self) -> bool:
        """Whether this connection has sent anything."""
        return self._seen > 0

    def restart(self) -> None:
        """Call this for each new connection."""
        self._seen = 0

    def add(self, text: str) -> None:
        """Add the next piece of the log."""
        fresh = text[max(0, self._written - self._seen) :]
        self._seen += len(text)
        if fresh:
            self._written = self._seen
            self._write(fresh)


def _job(info: Any) -> Job:
    metadata = info.metadata or {}
    return Job(
        str(info.submission_id), metadata.get(SWEEP, ""), metadata.get(STORE, ""), str(info.status.value),
        info.driver_exit_code,
    )  # fmt: skip
