"""A sweep as a job of a cluster somewhere else: submit it, follow it, find it again.

The driver runs there, so a closed laptop stops nothing. What comes back is what the driver says.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.ray_backend.job_package import our_modules, pinned_packages
from orchestrator.sweeps.cluster_spec import ClusterSpec
from trials.errors import ConfigError, MissingError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

SWEEP, STORE, KIND, DASHBOARD = "permafrost_sweep", "permafrost_store", "permafrost_kind", "permafrost_dashboard"
NAME = "job_name"  # has a column of its own in Ray's list of jobs
DASHBOARD_URL = "PERMAFROST_DASHBOARD_URL"
STOP_S = 900  # `ray job stop` ends the driver with SIGTERM; so long its trials have to reach their next evaluation
RETRY_S, GIVE_UP_S = 2.0, 600.0


@dataclass(frozen=True)
class Job:
    """A submitted sweep.

    Attributes:
        id: Ray's submission id.
        sweep, store: Its name, and where its results go.
        status: ``PENDING``, ``RUNNING``, ``STOPPED``, ``SUCCEEDED`` or ``FAILED``.
        exit_code: Of its driver; None before its end.
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
        """The exit code that a launch from here would have had."""
        if self.exit_code is not None:
            return 128 - self.exit_code if self.exit_code < 0 else self.exit_code
        return {"SUCCEEDED": 0, "STOPPED": 143}.get(self.status, 70)


def told_of(sweep: str, store: str) -> dict[str, str]:
    """What Ray's dashboard shows of a sweep's driver: its name, and where its results are seen.

    That is the address in PERMAFROST_DASHBOARD_URL, or the command that serves a dashboard of this store. The name
    holds it too, as Ray 2.60 shows the other keys of a submitted job only.
    """
    seen = os.environ.get(DASHBOARD_URL) or shlex.join(["permafrost", "dashboard", "--store", store])
    return {NAME: f"{sweep}: {seen}", SWEEP: sweep, STORE: store, DASHBOARD: seen}


class Jobs:
    """The jobs of a cluster, at the address of its dashboard. Ray's token is sent along, as its settings say."""

    def __init__(self, address: str) -> None:
        """Raises MissingError: nobody answers. RefusedError: the token is not right."""
        from ray.job_submission import JobSubmissionClient

        self.address = address
        warnings.filterwarnings("ignore", "ssl=None is deprecated", DeprecationWarning)  # Ray's own call of aiohttp
        with self._told():
            self._client = JobSubmissionClient(address)
        for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
            logging.getLogger(name).setLevel(logging.WARNING)  # it tells of every package twice

    def submit(
        self, folder: Path, words: Sequence[str], spec: ClusterSpec, *, sweep: str, store: str, kind: str = "launch"
    ) -> str:
        """Have a command run on the cluster in a copy of a folder, with this machine's code; the job's id."""
        environment: dict[str, Any] = {
            "working_dir": str(folder),
            "py_modules": our_modules(),
            "env_vars": {
                "PYTHONUNBUFFERED": "1", "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S), **spec.environment.variables
            },
        }  # fmt: skip
        if spec.environment.packages == "pinned":
            environment["pip"] = {"packages": pinned_packages(), "pip_check": False}
        with self._told():
            found: str = self._client.submit_job(
                entrypoint=shlex.join(words),
                submission_id=f"permafrost-{kind}-{sweep}-{uuid.uuid4().hex[:8]}",
                runtime_env=environment,
                metadata=told_of(sweep, store) | {KIND: kind},
            )
        return found

    def job(self, job_id: str) -> Job:
        """How a job is doing."""
        with self._told():
            return _described(self._client.get_job_info(job_id))

    def newest(self, sweep: str | None) -> Job:
        """The sweep that was submitted last. Raises MissingError: there is none."""
        with self._told():
            jobs = self._client.list_jobs()
        ours = [job for job in jobs if (job.metadata or {}).get(KIND) == "launch"]
        named = [job for job in ours if sweep in (None, job.metadata[SWEEP])]
        if not named:
            names = sorted({job.metadata[SWEEP] for job in ours})
            asked = "sweep" if sweep is None else f"sweep {sweep}"
            raise MissingError(f"{self.address}: no {asked} was submitted there. It has: {', '.join(names) or 'none'}.")
        return _described(max(named, key=lambda job: job.start_time or 0))

    def follow(self, job_id: str, write: Callable[[str], None], say: Callable[[str], None]) -> Job:
        """Pass on all that a job prints, until it ends; a connection that breaks is made again.

        Raises:
            MissingError: the cluster has not answered for ten minutes.
        """
        told, lost_s = _Told(write), None
        while True:
            try:
                asyncio.run(self._tail(job_id, told))
                job = self.job(job_id)
                if job.is_over:
                    return job
                lost_s = None
            except (OSError, RuntimeError, MissingError) as error:
                lost_s = lost_s or time.monotonic()
                if time.monotonic() - lost_s > GIVE_UP_S:
                    raise MissingError(f"{self.address}: gave no answer for ten minutes ({error}).") from error
                say(f"{self.address} does not answer; trying again.")
            time.sleep(RETRY_S)

    async def _tail(self, job_id: str, told: _Told) -> None:
        told.from_the_beginning()
        async for text in self._client.tail_job_logs(job_id):
            told.add(text)

    @contextmanager
    def _told(self) -> Iterator[None]:
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError as error:
            raise RefusedError(
                f"{self.address}: the cluster does not accept this token. Give its own in RAY_AUTH_TOKEN, or a file of "
                "it in RAY_AUTH_TOKEN_PATH, with RAY_AUTH_MODE=token."
            ) from error
        except (ConnectionError, RuntimeError) as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise MissingError(f"{self.address}: the cluster cannot be asked ({text}).") from error
        except ValueError as error:
            raise ConfigError(f"{self.address}: {error}") from error


class _Told:
    """Passes on a log that comes from its beginning each time a connection is made, every character once."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._passed, self._seen = write, 0, 0

    def from_the_beginning(self) -> None:
        """A new connection."""
        self._seen = 0

    def add(self, text: str) -> None:
        """The next piece of it."""
        fresh = text[max(0, self._passed - self._seen) :]
        self._seen += len(text)
        if fresh:
            self._passed = self._seen
            self._write(fresh)


def _described(info: Any) -> Job:
    metadata = info.metadata or {}
    return Job(
        str(info.submission_id), metadata.get(SWEEP, ""), metadata.get(STORE, ""), str(info.status.value),
        info.driver_exit_code,
    )  # fmt: skip
