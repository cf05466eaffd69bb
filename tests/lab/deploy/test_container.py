"""What runs containers here keeps to what Docker promises: rights, mounts, names, published ports, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.chaos.cluster import namespaces_allowed
from tests.lab.deploy.container import Container, Mount, Setup
from tests.lab.deploy.networks import Bridge, ip, wait_until

pytestmark = pytest.mark.skipif(not namespaces_allowed(), reason="containers need root and network namespaces")
PATH = {"PATH": os.environ["PATH"]}
SERVE = ("python3", "-m", "http.server", "9000")
Start = Callable[..., Container]


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    with Bridge(tmp_path) as bridge:
        yield bridge


@pytest.fixture
def start(bridge: Bridge, tmp_path: Path) -> Iterator[Start]:
    """Starts a container on this machine's own files, as Docker would on an image's."""
    started: list[Container] = []

    def one(name: str, *words: str, **more: object) -> Container:
        space, address = bridge.attach(name)
        setup = Setup(Path("/"), words, PATH, space=space, address=address, nameserver=bridge.gateway, **more)  # type: ignore[arg-type]
        started.append(Container(setup, tmp_path / name))
        started[-1].start()
        return started[-1]

    yield one
    for container in started:
        container.kill()


def test_it_has_no_rights_and_writes_only_where_something_is_mounted(start: Start, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o777)
    (tmp_path / "folder").chmod(0o777)
    mounts = [Mount("/data", tmp_path / "folder"), Mount("/scratch"), Mount("/fixed", tmp_path / "folder", "ro")]
    container = start("one", "sleep", "60", mounts=mounts)
    assert container.run("id", "-u").stdout == "10001\n"
    assert "CapBnd:\t0000000000000000" in container.run("cat", "/proc/self/status").stdout
    wrote = [container.run("touch", f"{place}/x").returncode for place in ("", "/usr", "/fixed", "/data", "/scratch")]
    assert wrote == [1, 1, 1, 0, 0]
    assert container.run("sh", "-c", "ls -d /proc/[0-9]*").stdout.startswith("/proc/1\n")


def test_only_a_capability_that_is_added_is_there(start: Start, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for number, (kept, code) in enumerate(((["chown"], 0), ([], 1))):
        mounts = [Mount("/data", tmp_path / "folder")]
        words = ("chown", f"{number + 7}:7", "/data")
        assert start(f"c{number}", *words, user="0:0", capabilities=kept, mounts=mounts).wait(30) == code
    assert (tmp_path / "folder").stat().st_uid == 7


def test_names_are_resolved_to_all_their_containers_and_forgotten_with_them(start: Start, bridge: Bridge) -> None:
    one = start("one", "sleep", "60")
    addresses = [bridge.attach("many")[1] for _ in range(2)]
    found = one.run("getent", "ahostsv4", "many").stdout
    assert {line.split()[0] for line in found.splitlines()} == set(addresses)
    bridge.forget(addresses[0])
    assert addresses[0] not in one.run("getent", "ahostsv4", "many").stdout
    assert one.run("getent", "ahostsv4", "nobody").returncode == 2


def test_the_bridge_stays_where_containers_know_it_whatever_others_join(bridge: Bridge) -> None:
    def address() -> str:
        return bridge.on_host("cat", "/sys/class/net/br0/address")

    first = address()
    ip("-n", bridge.host, "link", "add", "low", "address", "00:00:00:00:00:02", "type", "veth", "peer", "name", "end")
    ip("-n", bridge.host, "link", "set", "low", "master", "br0", "up")
    assert address() == first


def test_a_port_is_open_on_the_host_where_it_is_published_and_nowhere_else(start: Start, bridge: Bridge) -> None:
    container = start("one", *SERVE)
    bridge.publish("127.0.0.1:8050:9000", container.setup.address)
    dial = "import socket, sys; sys.exit(socket.socket().connect_ex(('127.0.0.1', int(sys.argv[1]))))"

    def answers(port: int) -> bool:
        words = ["ip", "netns", "exec", bridge.host, sys.executable, "-c", dial, str(port)]
        return subprocess.run(words, check=False).returncode == 0

    wait_until(lambda: answers(8050), 30, container.said())
    assert not answers(9000)


def test_a_process_1_that_awaits_no_signal_is_killed_after_the_grace(start: Start) -> None:
    container = start("one", "sh", "-c", "echo up; exec sleep 60")
    wait_until(lambda: "up" in container.said(), 30, "it runs")
    assert container.stop(grace_s=1) == -signal.SIGKILL


def test_a_container_that_is_killed_leaves_no_process(start: Start) -> None:
    container = start("one", "sh", "-c", "sleep 60 & sleep 60")
    first = Path(f"/proc/{container.first()}")
    container.kill()
    # fails after 30 s
    wait_until(lambda: not first.exists() or "Z" in (first / "stat").read_text().split()[2], 30, "process 1 ends")
