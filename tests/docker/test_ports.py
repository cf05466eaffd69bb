"""What listens on a head's machine, asked of the kernel: what docker/README.md says, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.chaos.cluster import CHECKOUT, base_environment, namespaces_allowed
from tests.lab.chaos.processes import end_all

ENTRYPOINT = CHECKOUT / "docker" / "entrypoint.py"
TABLE = re.compile(r"^\| (\d+)(?:-(\d+))? \|", re.MULTILINE)
LOOK = """
ip link set lo up; ip link add br0 type bridge; ip addr add 10.77.0.1/24 dev br0; ip link set br0 up
"$1" "$2" head --node-ip-address=10.77.0.1 --num-cpus=0 --no-monitor --disable-usage-stats \
  --object-store-memory=104857600 >log 2>&1 &
for _ in $(seq 120); do "$1" "$2" healthy && break; sleep 0.5; done
"$1" "$2" healthy http://127.0.0.1:8265/api/gcs_healthz || { cat log; exit 1; }
ss -ltnH | awk '{print $4}'
env -u RAY_AUTH_TOKEN "$1" -c "$3"
"""
# Methods that these services have, asked for by somebody who has no token.
STRANGER = """
import grpc, urllib.error, urllib.request
METHODS = {6379: "NodeInfoGcsService/GetAllNodeInfo", 6380: "NodeManagerService/GetNodeStats",
           6381: "ObjectManagerService/Pull", 6382: "ReporterService/GetTraceback",
           10001: "RayletDriver/ClusterInfo"}
for port, method in METHODS.items():
    with grpc.insecure_channel(f"10.77.0.1:{port}") as channel:
        try:
            channel.unary_unary(f"/ray.rpc.{method}")(b"", timeout=10)
            print("asked", port, "OK")
        except grpc.RpcError as error:
            print("asked", port, error.code().name)
for port, path in {8265: "api/jobs/", 6383: "get_or_create_runtime_env", 52365: "api/job_agent/jobs/"}.items():
    try:
        request = urllib.request.Request(f"http://10.77.0.1:{port}/{path}", method="GET" if port == 8265 else "POST")
        print("asked", port, urllib.request.urlopen(request, timeout=10).status)
    except urllib.error.HTTPError as error:
        print("asked", port, error.code)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="ports-", ignore_cleanup_errors=True) as name:
        yield Path(name)
        end_all(Path(name))


@pytest.mark.cluster
@pytest.mark.skipif(not namespaces_allowed(), reason="a network of its own needs the rights for it")
@pytest.mark.skipif(shutil.which("ss") is None, reason="apt-get install iproute2")
def test_a_head_listens_where_the_readme_says_and_nowhere_else(folder: Path) -> None:
    environment = base_environment(folder) | {"RAY_AUTH_TOKEN": "t" * 32}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = ["unshare", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "sh", "-c", LOOK, "-"]
    words += [sys.executable, str(ENTRYPOINT), STRANGER]
    told = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert told.returncode == 0, told.stdout + told.stderr
    lines = told.stdout.splitlines()
    found = {int(line.rpartition(":")[2]) for line in lines if ":" in line}
    readme = (CHECKOUT / "docker" / "README.md").read_text(encoding="utf-8")
    named = {port for low, high in TABLE.findall(readme) for port in range(int(low), int(high or low) + 1)}
    assert found - named == set()
    assert {6379, 6380, 6381, 6382, 6383, 8080, 8265, 10001, 44227, 52365} <= found
    answers = {int(line.split()[1]): line.split()[2] for line in lines if line.startswith("asked")}
    assert answers == dict.fromkeys((6379, 6380, 6381, 6382, 10001), "UNAUTHENTICATED") | dict.fromkeys(
        (8265, 6383, 52365), "401"
    )
