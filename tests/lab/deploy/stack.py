"""What `docker compose` makes of a file, in namespaces: each service as declared there, in the order of their needs.

Of an image that no registry gives here the program is another one's; all else of its service is obeyed.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.lab.deploy.container import Container, Mount, Setup
from tests.lab.deploy.image import Image
from tests.lab.deploy.networks import Bridge

# Every key of a service that is obeyed, or means nothing here; with any other the file is refused.
_OBEYED = {
    "cap_add", "cap_drop", "command", "depends_on", "deploy", "entrypoint", "environment", "healthcheck",
    "network_mode", "networks", "pids_limit", "ports", "read_only", "restart", "secrets", "security_opt", "shm_size",
    "stop_grace_period", "tmpfs", "user", "volumes", "working_dir",
}  # fmt: skip
_MEANINGLESS = {"build", "image", "logging"}
_TMPFS = "noexec,nosuid,nodev"  # what Docker adds to the options of a tmpfs
_GRACE_S = 10.0  # of `docker stop`, where the service says nothing
_AGAIN_S = 1.0  # before a container that ended is started again


@dataclass(frozen=True)
class StandIn:
    """A program of this machine in the place of an image.

    Attributes:
        words: In the place of the image's entrypoint and, unless it `takes_command`, of the service's command.
        user: Of the image, where the service names none; its volumes belong to it, as Docker copies them from an image.
    """

    words: Sequence[str]
    user: str = "0:0"
    takes_command: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


class Stack:
    """The services of a file, while its `with` lasts.

    Attributes:
        containers: By service, in the order in which they were made; a service may have any number.
        restarts: How often containers of a service were started again because they had ended.
    """

    def __init__(
        self, file: Path, image: Image, folder: Path, *, stand_ins: Mapping[str, StandIn], places: Mapping[str, Path]
    ) -> None:
        """`places` are folders in the place of those that the file names, by their names there."""
        self.declared: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self._file, self._image, self._folder = file, image, folder
        self._stand_ins, self._places = stand_ins, places
        self.bridge = Bridge(folder)
        self.containers: dict[str, list[Container]] = {}
        self.restarts: dict[str, int] = {}
        self._stopped: set[Container] = set()
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep)

    def __enter__(self) -> Self:
        for name, service in self.declared["services"].items():
            assert set(service) <= _OBEYED | _MEANINGLESS, (name, set(service) - _OBEYED - _MEANINGLESS)
        self.bridge.__enter__()
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._keeper.join()
        for container in self.all():
            container.remove()
        self.bridge.__exit__(kind, error, trace)

    def service(self, name: str) -> dict[str, Any]:
        """As the file declares it."""
        found: dict[str, Any] = self.declared["services"][name]
        return found

    def all(self) -> list[Container]:
        """Every container that was made."""
        return [container for made in self.containers.values() for container in made]

    def up(self, *names: str) -> None:
        """Start services with what they depend on, each when its conditions are met (`compose up --detach`)."""
        for name in names:
            if name in self.containers:
                continue
            self._need(name)
            replicas = self.service(name).get("deploy", {}).get("replicas", 1)
            for _ in range(replicas):
                self._start(name, self.service(name).get("command", []))

    def run(self, name: str, *command: str) -> Container:
        """One more container of a service, with another command (`compose run --rm`)."""
        self._need(name)
        return self._start(name, command)

    def stop(self, container: Container) -> int:
        """SIGTERM, and SIGKILL after the service's grace; it is not started again (`docker stop`). The exit code."""
        name = self.name_of(container)
        self._stopped.add(container)
        code = container.stop(_seconds(self.service(name).get("stop_grace_period"), _GRACE_S))
        self.bridge.forget(container.setup.address)
        return code

    def start(self, container: Container) -> None:
        """Start one that was stopped, and wait until it is healthy (`docker compose up --wait`)."""
        self.bridge.remember(container.setup.address, self.name_of(container))
        container.start()
        self._stopped.discard(container)
        self.wait_healthy(container)

    def name_of(self, container: Container) -> str:
        """The service of a container."""
        return next(name for name, made in self.containers.items() if container in made)

    def wait_healthy(self, container: Container) -> None:
        """Return at the first health check that passes.

        Raises:
            AssertionError: As many in a row failed as make a container unhealthy.
        """
        check = self._check(self.name_of(container))
        began, failed = time.monotonic(), 0
        while failed < check.retries:
            time.sleep(check.interval_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                if container.run(*check.words, timeout=check.timeout_s).returncode == 0:
                    return
            failed += time.monotonic() > began + check.start_s
        raise AssertionError(f"{self.name_of(container)} is unhealthy: {container.said()}")

    def _need(self, name: str) -> None:
        for other, how in self.service(name).get("depends_on", {}).items():
            self.up(other)
            for container in self.containers[other]:
                if how["condition"] == "service_completed_successfully":
                    assert container.wait(60) == 0, container.said()
                else:
                    assert how["condition"] == "service_healthy"
                    self.wait_healthy(container)

    def _start(self, name: str, command: Sequence[str]) -> Container:
        made = self.containers.setdefault(name, [])
        container = Container(self._setup(name, command, f"{name}-{len(made)}"), self._folder / f"{name}-{len(made)}")
        container.start()
        made.append(container)
        return container

    def _setup(self, name: str, command: Sequence[str], hostname: str) -> Setup:
        service, stand_in = self.service(name), self._stand_ins.get(name)
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        entrypoint = service.get("entrypoint", self._image.config["Entrypoint"])
        words, environment, root = [*entrypoint, *command], self._image.environment, self._image.files
        user = service.get("user", self._image.config["User"])
        folder = service.get("working_dir", self._image.config["WorkingDir"])
        if stand_in:
            words = [*stand_in.words, *(command if stand_in.takes_command else [])]
            environment, root, folder = {"PATH": os.environ["PATH"], **stand_in.environment}, Path("/"), "/"
            user = service.get("user", stand_in.user)
        if service.get("network_mode") == "none":
            space, address = self.bridge.apart(), "127.0.0.1"
        else:
            space, address = self.bridge.attach(name)
        for port in service.get("ports", []):
            self.bridge.publish(port, address)
        environment |= {"HOSTNAME": hostname, "HOME": home_of(root, user), **service.get("environment", {})}
        return Setup(
            root, words, environment, user, [word.lower() for word in service.get("cap_add", [])],
            self._mounts(service, stand_in),
            service["read_only"], folder, hostname, address, space, self.bridge.gateway, service.get("shm_size", "64m"),
            _limits(service),
        )  # fmt: skip

    def _mounts(self, service: dict[str, Any], stand_in: StandIn | None) -> list[Mount]:
        found = []
        for place, _, options in (text.partition(":") for text in service.get("tmpfs", [])):
            found.append(Mount(place, None, f"{_TMPFS},{options}"))
        for source, place, *options in (text.split(":") for text in service.get("volumes", [])):
            found.append(Mount(place, self._source(source, stand_in), ",".join(options)))
        for secret in service.get("secrets", []):
            path = self._source(self.declared["secrets"][secret]["file"], None)
            found.append(Mount(f"/run/secrets/{secret}", path, "ro"))
        return found

    def _source(self, source: str, stand_in: StandIn | None) -> Path:
        """A volume, or a file or folder beside the file; one of `places` in its stead, or that it lies in."""
        if source in self.declared["volumes"]:
            folder = self._folder / "volumes" / source
            if not folder.exists():
                folder.mkdir(parents=True)
                if stand_in:
                    os.chown(folder, *map(int, stand_in.user.split(":")))
            return folder
        for name, place in self._places.items():
            if Path(source).is_relative_to(name):
                return place / Path(source).relative_to(name)
        return (self._file.parent / source).resolve(strict=True)

    def _check(self, name: str) -> _Check:
        own, image = self.service(name).get("healthcheck", {}), self._image.config["Healthcheck"]
        kind, *words = own.get("test", image["Test"])
        assert kind == "CMD"
        return _Check(
            words, _seconds(own.get("interval"), image["Interval"] / 1e9),
            _seconds(own.get("timeout"), image["Timeout"] / 1e9), own.get("retries", image["Retries"]),
            _seconds(own.get("start_period"), 0 if own else image["StartPeriod"] / 1e9),
        )  # fmt: skip

    def _keep(self) -> None:
        """Start again what is to run and has ended, until the stack is taken down."""
        while not self._ended.wait(_AGAIN_S):
            for name, made in list(self.containers.items()):
                for container in made:
                    if container in self._stopped or container.exit_code() is None:
                        continue
                    if self.service(name)["restart"] == "unless-stopped":
                        self.restarts[name] = self.restarts.get(name, 0) + 1
                        container.start()


@dataclass(frozen=True)
class _Check:
    words: Sequence[str]
    interval_s: float
    timeout_s: float
    retries: int
    start_s: float


def _seconds(text: str | None, else_s: float) -> float:
    return float(text.removesuffix("s")) if text else else_s


def home_of(root: Path, user: str) -> str:
    """Where `UID:GID` is at home by an image's own list of users, as runtimes set HOME."""
    for line in (root / "etc" / "passwd").read_text(encoding="utf-8").splitlines():
        _, _, number, _, _, home, _ = line.split(":")
        if number == user.partition(":")[0]:
            return home
    return "/"


def _limits(service: dict[str, Any]) -> dict[str, str]:
    limits = service["deploy"]["resources"]["limits"]
    size = re.fullmatch(r"(\d+)([mg])", limits["memory"])
    assert size
    return {
        "memory/memory.limit_in_bytes": str(int(size[1]) << {"m": 20, "g": 30}[size[2]]),
        "cpu/cpu.cfs_quota_us": str(int(float(limits["cpus"]) * 100_000)),
        "pids/pids.max": str(service["pids_limit"]),
    }
