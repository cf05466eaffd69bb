"""A Ray cluster of several nodes on this machine: a head and two workers, each started with `ray start`.

With the rights for it every node gets a network namespace of its own, joined by a bridge inside the head's, so that no
port is taken twice and nothing of the machine's own network is touched. Without them all nodes share loopback.

    with Nodes(Path("/tmp/a-folder")) as nodes:      # everything that was started is gone afterwards
        subprocess.run([*nodes.prefix, ...], env=nodes.environment, cwd=nodes.driver_folder)
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.lab.chaos.processes import end_all, of_kind
from tests.server_programs import free_port

CHECKOUT = Path(__file__).parents[3]
N_NODES = 3  # the head is node 0
_PORT, _DASHBOARD = 6379, 8265
_NUMBERS = itertools.count()

# A lost node, or a lost head, is noticed after seconds and not after minutes, so that a run takes less than one.
_SETTINGS = {
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_worker_niceness": "0",  # at Ray's 15 whatever else a machine does starves the trials
}


class Nodes:
    """The cluster that `--cluster auto` joins.

    Attributes:
        environment: For drivers.
        prefix: Words before a driver's command.
        driver_folder: Where drivers work.
        isolated: Whether nodes have networks of their own.
        client_prefix: Words before a command of someone who is on no node.
        dashboard: Address of Ray's dashboard, where jobs are submitted; only with `dashboard`.
    """

    name = "auto"

    def __init__(self, folder: Path, *, dashboard: bool = False) -> None:
        self._folder, self.driver_folder = folder, folder / "driver"
        self._with_dashboard = dashboard
        self.isolated = namespaces_allowed()
        number = next(_NUMBERS)
        self._spaces = [f"chaos{os.getpid()}-{number}-{node}" for node in range(N_NODES + dashboard)]
        # Ray refuses to start a head at an address that any process of the machine has in its command line.
        self._network = f"10.{64 + os.getpid() // 250 % 64}.{os.getpid() % 250}"
        self.environment = base_environment(folder) | _SETTINGS | {"RAY_AUTH_TOKEN": uuid.uuid4().hex}
        self.prefix, self.client_prefix = self._enter(0), self._enter(N_NODES if dashboard else 0)
        self.dashboard = f"http://{self._address(0)}:{_DASHBOARD}" if dashboard else ""

    def __enter__(self) -> Nodes:
        try:
            for node in range(N_NODES):
                self.node_folder(node).mkdir(parents=True)
            self.driver_folder.mkdir()
            if self.isolated:
                self._join_networks()
            self.mend()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process, and take the networks away."""
        try:
            end_all(self._folder)
        finally:
            for space in self._spaces if self.isolated else ():
                subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

    def mend(self) -> list[int]:
        """Start the nodes again that are down, as whoever runs a cluster would; their numbers.

        Without its head a cluster is lost, so then all are started anew.
        """
        down = [node for node in range(N_NODES) if not self._is_up(node)]
        if 0 in down:
            down = list(range(N_NODES))
        for node in down:
            end_all(self.node_folder(node))
        for node in down:
            if not self._start(node):
                end_all(self.node_folder(node))
                self._start(node, last_try=True)
        return down

    def node_folder(self, node: int) -> Path:
        """Where a node's processes work."""
        return self._folder / f"node{node}"

    def set_link(self, node: int, state: str) -> None:
        """Take a worker node's network away (`down`) or give it back (`up`)."""
        assert self.isolated
        _ip("-n", self._spaces[0], "link", "set", f"v{node}", state)

    def _is_up(self, node: int) -> bool:
        folder = self.node_folder(node)
        return bool(of_kind(folder, "raylet")) and (node > 0 or bool(of_kind(folder, "gcs")))

    def _address(self, node: int) -> str:
        return f"{self._network}.{node + 1}" if self.isolated else "127.0.0.1"

    def _enter(self, node: int) -> list[str]:
        return ["ip", "netns", "exec", self._spaces[node]] if self.isolated else []

    def _join_networks(self) -> None:
        head, *others = self._spaces
        for space in self._spaces:
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", head, "link", "add", "br0", "type", "bridge")
        _ip("-n", head, "addr", "add", f"{self._address(0)}/24", "dev", "br0")
        _ip("-n", head, "link", "set", "br0", "up")
        for node, space in enumerate(others, start=1):
            _ip("-n", head, "link", "add", f"v{node}", "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("-n", head, "link", "set", f"v{node}", "master", "br0", "up")
            _ip("-n", space, "addr", "add", f"{self._address(node)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def _dashboard_words(self) -> list[str]:
        if not self._with_dashboard:
            return ["--include-dashboard=false"]
        assert self.isolated
        return ["--include-dashboard=true", f"--dashboard-host={self._address(0)}", f"--dashboard-port={_DASHBOARD}"]

    def _start(self, node: int, *, last_try: bool = False) -> bool:
        if node == 0:
            port = _PORT if self.isolated else free_port()
            self.environment["RAY_ADDRESS"] = f"{self._address(0)}:{port}"
            role = ["--head", f"--port={port}", f"--temp-dir={self._folder / 'ray'}", *self._dashboard_words()]
            role += [] if self.isolated else [f"--ray-client-server-port={free_port()}"]
        else:
            role = [f"--address={self.environment['RAY_ADDRESS']}"]
        words = [
            *self._enter(node), str(Path(sys.executable).with_name("ray")), "start", *role,
            f"--node-ip-address={self._address(node)}", "--num-cpus=1", f"--object-store-memory={100 << 20}",
            "--disable-usage-stats", "--include-log-monitor=false",
        ]  # fmt: skip
        environment = {name: value for name, value in self.environment.items() if node or name != "RAY_ADDRESS"}
        if self._with_dashboard:  # nodes of different machines share no cache, and nothing that is sent to one
            environment["PERMAFROST_CACHE"] = str(self.node_folder(node) / "cache")
            words += [f"--temp-dir={self._folder / f'ray{node}'}"] if node else []
        log = self._folder / "ray-start.log"
        with log.open("a") as file:
            done = subprocess.run(
                words, cwd=self.node_folder(node), env=environment, stdout=file, stderr=file, check=False, timeout=90
            )
        if done.returncode and last_try:
            raise RuntimeError(f"`ray start` of node {node} ended with {done.returncode}: {log.read_text()[-2000:]}")
        return not done.returncode


class Local:
    """`--cluster local`: each driver starts a Ray of its own, so there is nothing to start or mend."""

    name = "local"

    def __init__(self, folder: Path) -> None:
        self._folder, self.driver_folder, self.prefix = folder, folder / "driver", list[str]()
        self.environment = base_environment(folder) | _SETTINGS

    def __enter__(self) -> Local:
        self.driver_folder.mkdir(parents=True)
        return self

    def __exit__(self, *unused: object) -> None:
        end_all(self._folder)

    def mend(self) -> list[int]:
        """What is left of a dead driver's Ray would only be in the way."""
        if not of_kind(self._folder, "driver"):
            end_all(self._folder)
        return []


class Inline(Local):
    """`--cluster inline`: no Ray, as in the uninterrupted run that any other must equal to the bit."""

    name = "inline"


Cluster = Nodes | Local


def base_environment(folder: Path) -> dict[str, str]:
    """This process's environment, with everything temporary inside a folder and plain output."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    own = {
        "PYTHONPATH": str(CHECKOUT), "PYTHONWARNINGS": "default", "NO_COLOR": "1", "COLUMNS": "80",
        "TMPDIR": str(temporary), "RAY_TMPDIR": str(folder / "ray"), "PERMAFROST_CACHE": str(folder / "cache"),
        "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**inherited, **own}


@cache
def namespaces_allowed() -> bool:
    """Whether this user may make network namespaces and join them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    space = f"chaos{os.getpid()}-try"
    tries = [["netns", "add", space], ["-n", space, "link", "add", "br0", "type", "bridge"]]
    tries.append(["-n", space, "link", "add", "v0", "type", "veth", "peer", "name", "v1"])
    try:
        return all(subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0 for words in tries)
    finally:
        subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """A file system of its own of this size at a folder, which is made; yields whether it could be mounted."""
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        deadline = time.monotonic() + 10
        while mounted and time.monotonic() < deadline:
            mounted = subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode != 0
            time.sleep(0.1 if mounted else 0)
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
