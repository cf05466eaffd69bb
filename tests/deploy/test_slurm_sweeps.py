"""Sweeps that the batch script runs on a real Slurm with a real Ray: disturbed, they end as an undisturbed one."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store import open_store
from tests.chaos.cluster import CHECKOUT, base_environment
from tests.chaos.compare import Tables, raw_rows, read_rows, tables
from tests.chaos.ours import Ours
from tests.chaos.subject import write_work
from tests.deploy.slurm_cluster import Slurm, missing
from tests.deployments import DEPLOYMENT

pytestmark = [
    DEPLOYMENT,
    pytest.mark.cluster,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(reason := missing()), reason=str(reason)),
]
SCRIPT = CHECKOUT / "docker" / "slurm" / "permafrost.sbatch"


class Sweep(Ours):
    """A sweep that jobs of a Slurm run into one store."""

    def __init__(self, slurm: Slurm, sweep: Path, name: str, expected: Tables) -> None:
        super().__init__(sweep, slurm.folder, slurm.folder / name, expected)
        self._slurm, self._variables = slurm, {"STORE": str(self.store), "SWEEP": str(sweep)}

    def submit(self, *options: str) -> int:
        return self._slurm.submit(SCRIPT, ["--cpus-per-task=1", "--mem=4G", *options], **self._variables)

    def wait_for_rows(self, n: int = 1) -> None:
        """Return when there are rows in the store; pytest's own limit ends what never has any."""
        while self.n_rows() < n:
            time.sleep(0.1)
        self.interrupted()

    def assert_whole(self) -> None:
        """It has the rows of an undisturbed run, and each trial was completed once."""
        verdict = self.judge()
        assert verdict.ok(), verdict
        states = raw_rows(self.store, "trials", ["trial_id", "state"])
        assert set(Counter(row["trial_id"] for row in states if row["state"] == "completed").values()) == {1}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, Slurm(Path(name)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def undisturbed(slurm: Slurm) -> tuple[Path, Tables]:
    """A sweep's file, and its tables after a run without Slurm and Ray."""
    sweep = write_work(slurm.folder, train=500, seeds=2)
    alone = Ours(sweep, slurm.folder, slurm.folder / "alone", None)
    subprocess.run(alone.command("inline"), cwd=slurm.folder, env=base_environment(slurm.folder), check=True)
    return sweep, tables(read_rows(open_store(alone.store)))


@pytest.fixture
def sweep(slurm: Slurm, undisturbed: tuple[Path, Tables], request: pytest.FixtureRequest) -> Sweep:
    return Sweep(slurm, undisturbed[0], request.node.name, undisturbed[1])


def test_a_sweep_on_two_nodes_ends_as_one_without_slurm_and_ray(slurm: Slurm, sweep: Sweep) -> None:
    job = sweep.submit()
    slurm.wait(job, "COMPLETED")
    sweep.assert_whole()


def test_near_the_time_limit_the_job_is_requeued_and_its_second_run_ends_the_sweep(slurm: Slurm, sweep: Sweep) -> None:
    # The controller looks every 30 s, and sends the signal up to 30 s early: perhaps before Ray has started.
    job = sweep.submit("--nodes=1", "--time=1", "--signal=B:TERM@25")
    while slurm.job(job)["Restarts"] == "0":
        time.sleep(0.2)
    slurm.ask("scontrol", "update", f"JobId={job}", "TimeLimit=10")
    assert slurm.wait(job, "COMPLETED")["Restarts"] == "1"
    sweep.assert_whole()


def test_a_cancelled_job_that_is_submitted_again_ends_the_sweep(slurm: Slurm, sweep: Sweep) -> None:
    first = sweep.submit()
    sweep.wait_for_rows()
    slurm.ask("scancel", str(first))
    slurm.wait_until_gone(first, "CANCELLED")
    assert "requeueing" not in slurm.log(first)
    second = sweep.submit()
    slurm.wait(second, "COMPLETED")
    sweep.assert_whole()


def test_a_job_that_loses_its_first_node_is_requeued_and_ends_the_sweep(slurm: Slurm, sweep: Sweep) -> None:
    job = sweep.submit()
    sweep.wait_for_rows()
    slurm.set_node("n1", "DOWN")
    slurm.wait(job, "PENDING")
    slurm.set_node("n1", "RESUME")
    assert slurm.wait(job, "COMPLETED")["Restarts"] == "1"
    sweep.assert_whole()


def test_the_jobs_of_an_array_share_a_sweep_and_one_is_requeued_without_the_other(slurm: Slurm, sweep: Sweep) -> None:
    array = sweep.submit("--array=1-2")
    sweep.wait_for_rows()
    slurm.ask("scancel", "--batch", "--signal=TERM", f"{array}_2")  # the one with the array's own number
    restarts = [slurm.wait(f"{array}_{task}", "COMPLETED")["Restarts"] for task in (1, 2)]
    assert restarts == ["0", "1"]
    sweep.assert_whole()


def test_when_one_of_two_jobs_on_the_same_nodes_is_cancelled_the_other_ends_the_sweep(
    slurm: Slurm, sweep: Sweep
) -> None:
    first, second = sweep.submit(), sweep.submit()
    sweep.wait_for_rows()
    slurm.ask("scancel", str(first))
    slurm.wait(second, "COMPLETED")
    assert "Ray on" not in slurm.log(second)  # as it says where one ended by itself
    sweep.assert_whole()
