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
from tests.deployments import DEPLOYMENT
from tests.lab.chaos.cluster import CHECKOUT, base_environment
from tests.lab.chaos.compare import Tables, finished, raw_rows, read_rows, tables
from tests.lab.chaos.ours import Ours
from tests.lab.chaos.subject import N_EPOCHS, write_work
from tests.lab.deploy.slurm_cluster import Slurm, missing

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

    def begun(self) -> set[str]:
        """Trials that were evaluated and have not ended."""
        return {row["trial_id"] for row in raw_rows(self.store, "epochs", ["trial_id"])} - finished(self.store).keys()

    def assert_whole(self, most_lost: int = 1) -> None:
        """It has the rows of an undisturbed run, and each trial was completed once."""
        verdict = self.judge()
        assert verdict.ok(most_lost=most_lost), verdict
        states = raw_rows(self.store, "trials", ["trial_id", "state"])
        assert set(Counter(row["trial_id"] for row in states if row["state"] == "completed").values()) == {1}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, Slurm(Path(name)) as cluster:
        yield cluster


def undisturbed(folder: Path, *, train: int, seeds: int, epochs: int = N_EPOCHS) -> tuple[Path, Tables]:
    """A sweep's file, and its tables after a run without Slurm and Ray."""
    folder.mkdir()
    sweep = write_work(folder, train=train, seeds=seeds, epochs=epochs)
    alone = Ours(sweep, folder, folder / "alone", None)
    subprocess.run(alone.command("inline"), cwd=folder, env=base_environment(folder), check=True)
    return sweep, tables(read_rows(open_store(alone.store)))


@pytest.fixture(scope="module")
def short_trials(slurm: Slurm) -> tuple[Path, Tables]:
    return undisturbed(slurm.folder / "short", train=500, seeds=2)


@pytest.fixture(scope="module")
def long_trials(slurm: Slurm) -> tuple[Path, Tables]:
    return undisturbed(slurm.folder / "long", train=200, seeds=1, epochs=24)


@pytest.fixture
def sweep(slurm: Slurm, short_trials: tuple[Path, Tables], request: pytest.FixtureRequest) -> Sweep:
    return Sweep(slurm, short_trials[0], request.node.name, short_trials[1])


@pytest.fixture
def long_sweep(slurm: Slurm, long_trials: tuple[Path, Tables], request: pytest.FixtureRequest) -> Sweep:
    return Sweep(slurm, long_trials[0], request.node.name, long_trials[1])


def test_a_sweep_on_two_nodes_ends_as_one_without_slurm_and_ray(slurm: Slurm, sweep: Sweep) -> None:
    job = sweep.submit()
    slurm.wait(job, "COMPLETED")
    sweep.assert_whole()


def test_near_the_time_limit_a_trial_stops_at_an_evaluation_and_the_requeued_job_goes_on_from_there(
    slurm: Slurm, long_sweep: Sweep
) -> None:
    job = long_sweep.submit("--nodes=1", "--time=10", "--signal=B:TERM@170")
    long_sweep.wait_for_rows(2)
    # Now the signal is due. The controller looks every 30 s.
    slurm.ask("scontrol", "update", f"JobId={job}", "TimeLimit=3")
    while slurm.job(job)["Restarts"] == "0":
        time.sleep(0.2)
    slurm.ask("scontrol", "update", f"JobId={job}", "TimeLimit=10")
    assert long_sweep.begun()
    assert slurm.wait(job, "COMPLETED")["Restarts"] == "1"
    long_sweep.assert_whole(most_lost=0)


def test_a_job_that_is_cancelled_within_trials_and_submitted_again_ends_the_sweep(
    slurm: Slurm, long_sweep: Sweep
) -> None:
    first = long_sweep.submit()
    long_sweep.wait_for_rows(4)
    slurm.ask("scancel", str(first))
    slurm.wait_until_gone(first, "CANCELLED")
    assert "requeueing" not in slurm.log(first)
    assert long_sweep.begun()
    second = long_sweep.submit()
    slurm.wait(second, "COMPLETED")
    long_sweep.assert_whole()


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
