"""Networks of containers as Docker makes them: a bridge, a namespace each, published ports, names that are resolved.

Nothing of this machine's own network is touched: the bridge lies in a namespace that stands for the host's.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

CHECKOUT = Path(__file__).parents[3]
_NUMBERS = itertools.count()


class Bridge:
    """A network with names.

    Attributes:
        host: The namespace where the bridge is and ports are published.
        gateway: The bridge's address, where names are asked for.
    """

    def __init__(self, folder: Path) -> None:
        number = next(_NUMBERS)
        self.host = f"deploy{os.getpid()}-{number}"
        # Ray refuses to start a head at an address that any process of the machine has in its command line.
        self._network = f"10.{128 + os.getpid() // 250 % 64}.{os.getpid() % 250}"
        self.gateway = f"{self._network}.1"
        self._spaces: list[str] = []
        self._addresses = itertools.count(2)
        self._names: dict[str, list[str]] = {}
        self._file = folder / "names.json"
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._add(self.host)
        # With an address of its own, as Docker gives: else it takes the lowest of its ports', which a new container may
        # change, and then nobody's questions of names arrive until each has found out, up to 15 s later.
        ip("-n", self.host, "link", "add", "br0", "address", "02:00:00:00:00:01", "type", "bridge")
        ip("-n", self.host, "addr", "add", f"{self.gateway}/24", "dev", "br0")
        ip("-n", self.host, "link", "set", "br0", "up")
        # What Docker sets to publish a port on the host's loopback.
        self.on_host("sysctl", "-q", "-w", "net.ipv4.conf.br0.route_localnet=1")
        self._write()
        words = [sys.executable, "-m", "tests.lab.deploy.names", self.gateway, str(self._file)]
        self._server = subprocess.Popen(["ip", "netns", "exec", self.host, *words], cwd=CHECKOUT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server:
            self._server.kill()
            self._server.wait()
        for space in reversed(self._spaces):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

    def on_host(self, *words: str) -> str:
        """What a command prints that runs on the host of the containers.

        Raises:
            subprocess.CalledProcessError: It failed.
        """
        return self.inside(self.host, *words)

    def inside(self, space: str, *words: str) -> str:
        """What a command prints that runs in the network of a namespace.

        Raises:
            subprocess.CalledProcessError: It failed.
        """
        entered = ["ip", "netns", "exec", space, *words]
        return subprocess.run(entered, check=True, capture_output=True, text=True).stdout

    def attach(self, *names: str) -> tuple[str, str]:
        """A namespace with an address that the names stand for, beside others of that name; both."""
        number = next(self._addresses)
        space, address = f"{self.host}-{number}", f"{self._network}.{number}"
        self._add(space)
        ip("-n", self.host, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("-n", self.host, "link", "set", f"v{number}", "master", "br0", "up")
        ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "route", "add", "default", "via", self.gateway)
        for name in names:
            self._names.setdefault(name, []).append(address)
        self._write()
        return space, address

    def apart(self) -> str:
        """A namespace with loopback only (`network_mode: none`)."""
        space = f"{self.host}-{next(self._addresses)}"
        self._add(space)
        return space

    def forget(self, address: str) -> None:
        """The names of a container that has ended no longer stand for its address."""
        for addresses in self._names.values():
            with contextlib.suppress(ValueError):
                addresses.remove(address)
        self._write()

    def remember(self, address: str, *names: str) -> None:
        """They do again."""
        for name in names:
            if address not in self._names.setdefault(name, []):
                self._names[name].append(address)
        self._write()

    def publish(self, published: str, address: str) -> int:
        """Publish as `ports` in Compose says, `IP:PORT:CONTAINER_PORT`; the port of the host."""
        host, port, inner = published.split(":")
        rule = ["-p", "tcp", "-d", host, "--dport", port, "-j", "DNAT", "--to-destination", f"{address}:{inner}"]
        self.on_host("iptables", "-t", "nat", "-A", "OUTPUT", *rule)
        self.on_host("iptables", "-t", "nat", "-A", "POSTROUTING", "-s", host, "-d", address, "-j", "MASQUERADE")
        return int(port)

    def _add(self, space: str) -> None:
        ip("netns", "add", space)
        self._spaces.append(space)
        ip("-n", space, "link", "set", "lo", "up")

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._names), encoding="utf-8")
        new.replace(self._file)


def ip(*words: str) -> None:
    """`ip`, which has to succeed."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def wait_until(ready: object, within_s: float, what: str) -> None:
    """Ask until the answer is true.

    Raises:
        AssertionError: It was not in time.
    """
    assert callable(ready)
    deadline = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.5)
