"""What the batch script does with a real Slurm's signals and nodes; Ray and the driver are stand-ins that note words.

tests/lab/deploy/test_slurm_sweeps.py has sweeps on a real Ray.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.chaos.cluster import CHECKOUT
from tests.lab.deploy.slurm_cluster import NODES, Slurm, missing

pytestmark = [pytest.mark.skipif(bool(reason := missing()), reason=str(reason)), pytest.mark.timeout(280)]

SCRIPT = CHECKOUT / "docker" / "slurm" / "permafrost.sbatch"
# The head listens, and all note where and with which words they run; SIGTERM ends them.
RAY = f"""#!{sys.executable}
import os, socket, sys, time
port = next((int(word.split("=")[1]) for word in sys.argv if word.startswith("--port=")), None)
listens = port and socket.create_server(("", port))
open(f"ray-{{socket.gethostname()}}", "a").write(" ".join(sys.argv[1:]) + chr(10))
time.sleep(1000)
"""
# It notes its signals, and goes with 143 after as many as PATIENCE says, or with END when the file `end` is there.
DRIVER = """#!/bin/bash
trap 'n=$((n + 1)); echo "driver: signal $n"; [ "$n" -lt "${PATIENCE:-1}" ] || exit 143' TERM
echo "driver: $* of $RAY_ADDRESS"
until [ -e end ]; do sleep 0.1 || true; done
exit "${END:-0}"
"""


@pytest.fixture
def slurm() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        for program, text in (("ray", RAY), ("permafrost", DRIVER)):
            path = folder / "bin" / program
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        with Slurm(folder) as cluster:
            yield cluster


def submit(slurm: Slurm, *options: str, **variables: str) -> int:
    words = ["--cpus-per-task=2", "--mem=1G", *options]
    return slurm.submit(SCRIPT, words, STORE="/shared/results", VENV=str(slurm.folder), **variables)


def wait_for(slurm: Slurm, job: int, words: str) -> None:
    """Return when a job has written this; pytest's own limit ends what never does."""
    while words not in slurm.log(job):
        time.sleep(0.1)


def wait_for_work(slurm: Slurm, job: int) -> None:
    """Return when the driver and a Ray on each node have started."""
    wait_for(slurm, job, "driver: launch")
    while not all((slurm.folder / f"ray-{name}").exists() for name in NODES):
        time.sleep(0.1)


def end_driver(slurm: Slurm) -> None:
    (slurm.folder / "end").touch()


def test_without_a_store_or_outside_an_allocation_it_says_so_and_does_nothing() -> None:
    for name, said in (("STORE", "say where the results go"), ("SLURM_JOB_ID", "start it with sbatch")):
        given = {"PATH": os.environ["PATH"], "STORE": "results", "SLURM_JOB_ID": "1"}
        del given[name]
        told = subprocess.run(["bash", SCRIPT], env=given, capture_output=True, text=True, check=False)
        assert (told.returncode, said in told.stderr) == (1, True)


@pytest.mark.parametrize(("given", "told"), [({}, "configs/clusters/slurm.yaml"), ({"CLUSTER": "auto"}, "auto")])
def test_in_a_checkout_the_cluster_file_for_slurm_is_read(slurm: Slurm, given: dict[str, str], told: str) -> None:
    (slurm.folder / "configs" / "clusters").mkdir(parents=True)
    (slurm.folder / "configs" / "clusters" / "slurm.yaml").touch()
    job = submit(slurm, **given)
    wait_for_work(slurm, job)
    end_driver(slurm)
    slurm.wait(job, "COMPLETED")
    assert slurm.log(job).startswith(f"driver: launch --cluster {told} --store /shared/results of ")


def test_each_node_has_a_ray_with_the_jobs_cpus_and_nothing_of_it_stays(slurm: Slurm) -> None:
    job = submit(slurm, SWEEP="my.yaml")
    wait_for_work(slurm, job)
    end_driver(slurm)
    slurm.wait(job, "COMPLETED")
    place = f"{slurm.addresses['n1']}:{20_000 + 2 * job}"
    assert slurm.log(job).splitlines() == [
        f"driver: launch --cluster auto --store /shared/results --sweep my.yaml of {place}"
    ]
    head, worker = ((slurm.folder / f"ray-{name}").read_text() for name in NODES)
    assert [word in head for word in ("--head", "--num-cpus=2", f"--port={20_000 + 2 * job}")] == [True] * 3
    assert [word in worker for word in (f"--address={place}", "--num-cpus=2")] == [True] * 2
    assert "--include-dashboard" not in worker  # which Ray refuses there
    assert list(Path("/tmp").glob(f"permafrost-{job}-*")) == []


def test_a_driver_that_does_not_end_within_the_grace_is_asked_again(slurm: Slurm) -> None:
    job = submit(slurm, PATIENCE="2", GRACE_S="1")
    wait_for_work(slurm, job)
    slurm.ask("scancel", "--batch", "--signal=TERM", str(job))
    wait_for(slurm, job, "trials are left, requeueing")
    assert slurm.log(job).count("driver: signal") == 2


def test_a_sweep_that_ends_with_143_by_itself_is_not_requeued(slurm: Slurm) -> None:
    """As after `permafrost stop`, or at a limit of the sweep's own."""
    job = submit(slurm, END="143")
    wait_for_work(slurm, job)
    end_driver(slurm)
    told = slurm.wait(job, "FAILED")
    assert (told["ExitCode"], told["Restarts"]) == ("143:0", "0")


def test_without_kill_a_job_that_loses_another_node_than_the_first_continues(slurm: Slurm) -> None:
    job = submit(slurm, "--no-kill")
    wait_for_work(slurm, job)
    slurm.set_node("n2", "DOWN")
    wait_for(slurm, job, "Node failure on n2")
    end_driver(slurm)
    told = slurm.wait(job, "COMPLETED")
    assert (told["NodeList"], told["Restarts"]) == ("n1", "0")
    assert slurm.log(job).count("driver: launch") == 1


def test_a_port_that_is_taken_is_named_before_anything_starts(slurm: Slurm) -> None:
    first = submit(slurm, PORT="21000")
    wait_for(slurm, first, "driver: launch")
    second = submit(slurm, PORT="21000")
    slurm.wait(second, "FAILED")
    assert slurm.log(second) == "permafrost: port 21000 of n1 is in use; choose another, PORT=31000\n"
