"""What a local Ray needs of its machine: room for its files, a loopback, and files that it may open."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ray._private import services

from orchestrator.ray_engine.cluster import local_cluster, room_in
from orchestrator.ray_engine.ray_internals import node_has
from trials.errors import MissingError

CHECK = "from orchestrator.ray_engine.cluster import check_loopback_and_files as check; check(); print('passed')"


def checked(before: str) -> str:
    """What the check says in a shell after a command."""
    command = f"{before} && exec {shlex.join([sys.executable, '-c', CHECK])}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=dict(os.environ))
    return done.stdout + done.stderr


def test_too_few_files_are_said_and_a_low_soft_limit_is_raised() -> None:
    assert "a process here may open 64 files, too few for Ray's. Raise the limit (`ulimit -n" in checked("ulimit -n 64")
    assert checked("ulimit -Sn 64") == "passed\n"


def test_a_loopback_that_is_down_is_said() -> None:
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a network of their own")
    command = ["unshare", "-rn", sys.executable, "-c", CHECK]
    said = subprocess.run(command, capture_output=True, text=True).stderr
    assert "127.0.0.1 does not answer (Network is unreachable)" in said
    assert "ip link set lo up" in said


def test_a_full_temporary_folder_is_named_before_ray_starts_and_when_it_fills_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    with pytest.raises(OSError, match="No space"), room_in(tmp_path):  # of another folder
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(MissingError, match="is full") as filled, room_in(tmp_path):  # noqa: PT012
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1_000))
        raise OSError(errno.ENOSPC, "No space left on device")
    assert filled.value.exit_code == 3
    with pytest.raises(
        MissingError, match=r"--cluster local: /.*, the folder of Ray's temporary files, is full.*RAY_TMPDIR"
    ):
        local_cluster().__enter__()


REFUSED = """
import sys, ray
from orchestrator.ray_engine.cluster import local_cluster
init, left = ray.init, [int(sys.argv[1])]
def refused(**options):
    context = init(**options)
    if left[0]:
        left[0] -= 1
        raise RuntimeError("InvalidAuthToken: Authentication token is missing or incorrect" + 15 * "\\n  a line of C++")
    return context
ray.init = refused
for _ in range(2):
    with local_cluster() as cluster:
        print(len(ray.nodes()), "node", cluster.dashboard[:7])
"""


def with_refusals(times: int) -> subprocess.CompletedProcess[str]:
    """A process that has imported Ray and makes two clusters, while some of its starts are refused."""
    return subprocess.run([sys.executable, "-c", REFUSED, str(times)], capture_output=True, text=True)


@pytest.mark.cluster
def test_a_process_that_knows_ray_makes_two_clusters_one_of_them_at_the_second_try() -> None:
    done = with_refusals(1)
    assert done.stdout == 2 * "1 node http://\n", done.stderr


LATE = """
import os, ray, subprocess
from ray._private import services
from orchestrator.ray_engine.cluster import local_cluster
get_node, starts = services.get_node, []
def late_once(*where):
    starts.append(where)
    if len(starts) == 1:
        raise TimeoutError("its node is not there")
    return get_node(*where)
services.get_node = late_once
with local_cluster():
    ours = ["pgrep", "-c", "-P", str(os.getpid()), "-f", "/raylet"]
    print(len(ray.nodes()), "node,", subprocess.run(ours, capture_output=True, text=True).stdout.strip(), "raylet")
"""


@pytest.mark.cluster
def test_a_node_that_is_not_there_in_time_is_started_once_more_and_nothing_of_it_is_left() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True)
    assert done.stdout == "1 node, 1 raylet\n", done.stderr


def test_a_node_that_is_slow_is_asked_for_again_until_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([RuntimeError("not yet"), RuntimeError("not yet"), None])

    def get_node(head: str, node: str) -> str:
        if (error := next(answers)) is not None:
            raise error
        return node

    monkeypatch.setattr(services, "get_node", get_node)
    with node_has(60.0):
        assert services.get_node("head", "node") == "node"
    answers = iter([RuntimeError("not there")])
    with pytest.raises(RuntimeError, match="not there"), node_has(-1.0):
        services.get_node("head", "node")
    assert services.get_node is get_node
