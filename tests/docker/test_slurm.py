"""The batch script, on one machine in place of an allocation: a sweep, the signal before the limit, the requeueing.

tests/deploy/test_slurm_script.py shows what the script does under a real Slurm.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import compare
from tests.chaos.cluster import CHECKOUT, base_environment, namespaces_allowed
from tests.chaos.processes import end_all, inside
from tests.chaos.subject import write_work
from tests.deployments import DEPLOYMENT

SCRIPT = CHECKOUT / "docker" / "slurm" / "permafrost.sbatch"
# Of an allocation: the node's names, the job's state, and a note of what was asked for. `srun` becomes its command, on
# one node, and `scancel` signals it and what it has started.
TOOLS = {
    "scontrol": 'case "$2" in job) echo JobState=RUNNING;; hostnames) echo 10.77.0.1;; *) echo "$@" >>"$ASKED"; esac',
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done; echo $$ >"$ASKED.step"; SLURM_NODEID=0 exec "$@"',
    "scancel": 'step=$(cat "$ASKED.step"); kill -TERM $(cat "/proc/$step/task/$step/children") "$step"',
}
NETWORK = "ip link set lo up; ip link add br0 type bridge; ip addr add 10.77.0.1/24 dev br0; ip link set br0 up"
SPACES = [
    "unshare",
    "--pid",
    "--net",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
    f'{NETWORK}; exec "$@"',
    "-",
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for Ray's sockets; with the tools in it."""
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as name:
        for tool, script in TOOLS.items():
            path = Path(name) / "bin" / tool
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        yield Path(name)
        end_all(Path(name))


def allocation(folder: Path, **more: str) -> dict[str, str]:
    """The environment that Slurm gives."""
    tools = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return base_environment(folder) | {
        "PATH": tools, "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "localhost", "SLURM_JOB_NUM_NODES": "1",
        "SLURM_CPUS_PER_TASK": "2", "VENV": str(Path(sys.prefix)), "STORE": str(folder / "store"),
        "ASKED": str(folder / "asked"), "RAY_worker_niceness": "0", **more,
    }  # fmt: skip


def test_without_a_store_or_outside_an_allocation_it_says_so_and_does_nothing(folder: Path) -> None:
    for name, said in (("STORE", "say where the results go"), ("SLURM_JOB_ID", "start it with sbatch")):
        environment = {key: value for key, value in allocation(folder).items() if key != name}
        told = subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)
        assert (told.returncode != 0, said in told.stderr) == (True, True)


def test_what_slurm_reads_asks_for_requeueing_and_for_the_signal_to_the_script_alone_before_the_limit() -> None:
    options = {line.split()[1] for line in SCRIPT.read_text().splitlines() if line.startswith("#SBATCH")}
    assert {"--requeue", "--signal=B:TERM@120", "--open-mode=append"} <= options


@DEPLOYMENT
@pytest.mark.cluster
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not namespaces_allowed(), reason="namespaces of its own need the rights for them")
def test_a_job_whose_time_is_over_is_put_back_and_its_second_run_ends_the_sweep(folder: Path) -> None:
    sweep = write_work(folder, train=400, seeds=2)
    environment = allocation(folder, SWEEP=str(sweep))
    with (folder / "log").open("wb") as log:
        words = [*SPACES, "bash", str(SCRIPT)]
        with subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log) as job:
            wait_for_rows(folder, job)
            script = next(p for p in inside(folder) if p.title == f"bash {SCRIPT}")
            os.kill(script.pid, signal.SIGTERM)
            assert job.wait(timeout=200) == 143, (folder / "log").read_text()[-3000:]
        assert (folder / "asked").read_text() == "requeue 4711\n"
        before = compare.finished(folder / "store")
        again = subprocess.run(words, cwd=folder, env=environment, stdout=log, stderr=log, check=False, timeout=400)
    assert again.returncode == 0, (folder / "log").read_text()[-3000:]
    assert (folder / "asked").read_text() == "requeue 4711\n"
    after = compare.finished(folder / "store")
    assert len(after) == 4 > len(before)
    assert compare.lost_intervals(folder / "store") <= 1


def wait_for_rows(folder: Path, job: subprocess.Popen[bytes]) -> None:
    while not compare.count_rows(folder / "store"):
        assert job.poll() is None, (folder / "log").read_text()[-3000:]
        time.sleep(0.1)
