"""What a local sweep opens: nothing to other machines, and nothing but metrics to other users of this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.end_to_end.test_ray import n_rows, wait_until, write_long_sweep
from tests.lab.chaos.cluster import CHECKOUT, base_environment, namespaces_allowed
from tests.lab.chaos.processes import end_all

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not namespaces_allowed(), reason="this user may not make network namespaces"),
]
HERE, THERE = "10.77.0.1", "10.77.0.2"
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@dataclass(frozen=True)
class Running:
    """A local sweep on a machine of its own, and another machine that reaches it.

    Attributes:
        here, there: Words before a command on either machine.
        folder: Where Ray's files are.
        ports: Everything that listens, as `address:port`.
        environment: For further commands.
    """

    here: list[str]
    there: list[str]
    folder: Path
    ports: list[str]
    environment: dict[str, str]

    def knock(self, machine: list[str], address: str) -> dict[str, str]:
        """What each port answers to another user, who has no token; a worker that is starting is asked again."""
        ports = [f"{address}:{one.rpartition(':')[2]}" for one in self.ports]
        words = [*machine, *AS_NOBODY, sys.executable, "-m", "tests.end_to_end.knock", *ports]
        outside = self.environment | {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
        answers = {"": "silent"}
        while "silent" in answers.values():
            done = subprocess.run(words, cwd=CHECKOUT, env=outside, capture_output=True, text=True, check=True)
            answers = json.loads(done.stdout)
        return answers


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[list[str], list[str]]]:
    """Words before a command on each of two machines that reach each other."""
    spaces = [f"pf{os.getpid()}-{n}" for n in range(2)]
    here, there = spaces
    commands = [
        *(f"netns add {space}" for space in spaces),
        f"-n {here} link add v0 type veth peer name v0 netns {there}",
        *(f"-n {space} addr add {address}/24 dev v0" for space, address in zip(spaces, (HERE, THERE), strict=True)),
        *(f"-n {space} link set {link} up" for space in spaces for link in ("lo", "v0")),
        f"-n {here} route add default via {THERE}",  # Ray takes the address that leads to the world for its node's
    ]
    try:
        for words in commands:
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        yield ["ip", "netns", "exec", here], ["ip", "netns", "exec", there]
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)


@pytest.fixture(scope="module")
def running(machines: tuple[list[str], list[str]]) -> Iterator[Running]:
    """A sweep under way, in an environment that names another cluster and a token that is not there."""
    here, there = machines
    with tempfile.TemporaryDirectory(prefix="pf-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        write_long_sweep(folder)
        other = {"RAY_ADDRESS": f"{THERE}:6379", "RAY_REDIS_ADDRESS": f"{THERE}:1", "RAY_AUTH_TOKEN_PATH": "/absent"}
        world = base_environment(folder) | other
        words = [*here, sys.executable, "-m", "orchestrator.launch", "--sweep", "long.yaml", "--store", "store"]
        many = ["--set", "space.optim.epochs=[2000]"]
        launch = subprocess.Popen(
            [*words, *many], cwd=folder, env=world, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            wait_until(lambda: len(n_rows(folder / "store")) == 2, launch)
            shown = subprocess.run([*here, "ss", "-Hltun"], check=True, capture_output=True, text=True).stdout
            yield Running(here, there, folder / "ray", [line.split()[4] for line in shown.splitlines()], world)
            assert launch.poll() is None
            launch.send_signal(signal.SIGINT)
            assert launch.wait(60) == 130
        finally:
            launch.kill()
            launch.communicate()
            end_all(folder)


def test_a_local_sweep_answers_no_other_machine_and_no_other_user_without_its_token(running: Running) -> None:
    hosts = {one.rpartition(":")[0].strip("[]").removeprefix("::ffff:") for one in running.ports}
    assert len(running.ports) > 8
    assert all(ip_address(host).is_loopback for host in hosts), running.ports

    assert set(running.knock(running.there, HERE).values()) == {"closed"}

    local = running.knock(running.here, "127.0.0.1")
    assert sorted(local.values()).count("200") == 2, local  # metrics of the node and of Ray's dashboard
    assert set(local.values()) <= {"200", "401", "403", "UNAUTHENTICATED", "closed"}, local  # a worker may have ended


def test_another_user_can_read_no_file_of_a_local_ray(running: Running) -> None:
    (folder,) = running.folder.glob("pf-*")
    (token,) = folder.glob("0/token")
    assert (folder.stat().st_mode & 0o777, token.stat().st_mode & 0o777) == (0o700, 0o600)
    words = ["find", str(running.folder), "-type", "f", "-o", "-type", "s"]
    assert len(subprocess.run(words, capture_output=True, check=True).stdout.splitlines()) > 20
    assert not subprocess.run([*AS_NOBODY, *words], capture_output=True, check=False).stdout
