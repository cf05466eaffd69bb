"""Sweeps as jobs of a remote cluster: submit one, follow its output, find it again.

The driver runs on the cluster, so the sweep continues when the laptop is closed. Its output is sent back. What goes
with a job is the sweep's file, the local data and models that it names, and our own code.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import os
import re
import shlex
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from orchestrator.config.yaml_document import Document
from orchestrator.deploy.ray_session import check_client_token
from orchestrator.deploy.requirements import requirements
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.named_paths import each_path, existing
from trials.errors import ConfigError, MissingError, RefusedError
from trials.outside.plain_files import digest_of
from trials.plugins.loading import loaded

MOST_BYTES = 400 << 20  # Ray refuses packages above 500 MiB
CLUSTER_FILE = "cluster.yaml"


def package_sweep(folder: Path, document: Document, spec: ClusterSpec, here: Path) -> str:
    """Write the files that a job needs into its working directory; the name of the sweep's file there.

    Args:
        folder: The working directory, empty.
        here: The folder that relative paths refer to; they are the same in `folder`.

    Raises:
        ConfigError: local files are outside of `here`, or too large to be sent.
        RefusedError: a link in a corpus or model leads out of its folder.
    """
    files = {file for path in _local_paths(document, here) for file in _files(path)}
    n_bytes = sum(file.stat().st_size for file in files)
    if n_bytes > MOST_BYTES:
        raise ConfigError(
            f"{document.path}: names {n_bytes >> 20:,} MiB of local files, and at most {MOST_BYTES >> 20} are sent. "
            "Put them where the cluster's nodes can read them and name that absolute path, or use a hub's dataset.",
            exit_code=3,
        )
    for file in files:
        target = folder / file.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    name = f"{document.path.stem}.sweep.yaml"
    content = {key: value for key, value in document.content.items() if key != "plugins"}  # see `package_plugins`
    (folder / name).write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    there = spec.model_copy(update={"address": "auto"}).model_dump(mode="json", exclude_unset=True)
    (folder / CLUSTER_FILE).write_text(yaml.safe_dump(there | {"address": "auto"}), encoding="utf-8")
    return name


def _local_paths(document: Document, here: Path) -> Iterator[Path]:
    """Existing paths that a sweep names. Raises ConfigError: one is outside of `here`."""
    candidates: list[str] = []

    def note(word: str, _: object) -> str:
        candidates.append(word)
        return word

    each_path({key: document.content.get(key) for key in ("trial", "space")}, note)
    for word in candidates:
        path = existing(word, here)
        if path is not None and not (path.is_relative_to(here) and path.resolve().is_relative_to(here)):
            raise ConfigError(
                f"{word}: lies outside of {here}, so it is not sent. Launch from a folder that contains it and use a "
                "path relative to that.",
                exit_code=3,
            )
        if path not in (None, here):
            yield path


def _files(path: Path) -> Iterator[Path]:
    """The file, or the files below the folder. Raises RefusedError: a link in it leads elsewhere."""
    if path.is_file():
        yield path
    for parent, folders, names in os.walk(path):
        for entry in (Path(parent) / name for name in (*folders, *names)):
            if entry.is_symlink() and not (entry.is_file() and entry.resolve().is_relative_to(path.resolve())):
                raise RefusedError(
                    f"{entry}: a link to {entry.readlink()}. Only links to files in {path} are sent; put the file "
                    "there."
                )
            if entry.is_file():
                yield entry


def package_plugins(folder: Path) -> list[str]:
    """Write the files of all plug-ins that are loaded here into a job's working directory; the options that load them.

    Raises:
        ConfigError: They are too large, or one has the name of a file that the sweep names.
    """
    plugins = loaded()
    for name, path in plugins.files().items():
        target = folder / name
        if target.exists() and digest_of(target) != digest_of(path):
            raise ConfigError(f"{path}: a plug-in's file has the name of another that the sweep names. Rename it.")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return [word for module in plugins.modules for word in ("--plugin", module)]


def our_modules() -> list[str]:
    """The folders of our packages, which a driver and its workers run."""
    import orchestrator
    import trials

    return [str(Path(str(module.__file__)).parent) for module in (orchestrator, trials)]


def pinned_packages() -> list[str]:
    """`name==version` of everything that this project requires, as installed here, except Ray."""
    versions: dict[str, str] = {}
    waiting = _names(requirements())
    while waiting:
        try:
            distribution = importlib.metadata.distribution(waiting.pop())
        except importlib.metadata.PackageNotFoundError:
            continue  # required on other systems only
        name = distribution.metadata["Name"].lower()
        if name in versions:
            continue
        versions[name] = distribution.version
        waiting += _names(distribution.requires or ())
    return [f"{name}=={version}" for name, version in sorted(versions.items()) if name != "ray"]  # the nodes have it


def _names(wanted: Iterable[str]) -> list[str]:
    """The names of the requirements that always apply."""
    found = map(Requirement, wanted)
    return [each.name for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]


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
