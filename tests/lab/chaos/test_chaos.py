"""The short form of `make chaos`: a sweep that loses a worker and its driver, and drivers that share a store."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from tests.lab.chaos import compare
from tests.lab.chaos.__main__ import Kill, endure, undisturbed, write_work
from tests.lab.chaos.cluster import Cluster, Inline, Local
from tests.lab.chaos.processes import end_all, inside
from trials.record import State


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose name leaves room for Ray's sockets, whose paths are limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("cluster", "n_drivers", "kills"),
    [
        pytest.param(Local, 1, [Kill("worker", 2, 0.2), Kill("driver", 6, 0)], marks=pytest.mark.cluster),
        (Inline, 2, [Kill("driver", 2, 0.1), Kill("driver", 6, 0.1)]),
    ],
)
def test_a_sweep_that_lost_processes_ends_as_if_it_had_not(
    cluster: type[Cluster], n_drivers: int, kills: list[Kill], short_path: Path
) -> None:
    sweep = write_work(short_path, train=64, n_trials=4)
    expected = undisturbed(sweep, short_path / "u")
    outcome = endure(sweep, short_path / "h", cluster, kills, Random(0), expected, n_drivers)
    assert (outcome.problems, outcome.killed) == ([], [kill.kind for kill in kills])
    assert outcome.exit_codes.count(0) == n_drivers
    assert -9 in outcome.exit_codes


def test_a_lost_row_a_changed_number_a_foreign_trial_and_a_row_told_twice_are_each_counted(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    recorder = Recorder(store)
    for seed in (0, 1):
        recorder.started(make_spec(seed=seed), 1)
        for step in (13, 26, 39):
            recorder.evaluated(make_spec(seed=seed), make_record(step=step, epoch=step / 13, last=step == 39))
        recorder.ended(End(make_spec(seed=seed), State.COMPLETED))
    recorder.close()
    rows = compare.read_rows(store)
    expected = compare.tables(rows)
    rows["epochs"][0]["dev_loss"] += 1e-9
    del rows["trials"][0]
    rows["epochs"] += [{**rows["epochs"][1], "trial_id": "another"}, rows["epochs"][2]]
    found = compare.compare(expected, rows)
    assert (found.missing, found.different, found.surplus, found.duplicate) == (1, 1, 1, 1)
    assert found.problems()[0] == "rows: 1 missing, 1 surplus, 1 different, 1 twice"


def test_processes_are_known_by_where_they_work_and_no_others_are_ended(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    sleepers = [subprocess.Popen(["sleep", "60"], cwd=tmp_path / name) for name in ("in", "out")]
    try:
        assert [process.pid for process in inside(tmp_path / "in")] == [sleepers[0].pid]
        assert end_all(tmp_path / "in") == 1
        assert (sleepers[0].wait(), sleepers[1].poll()) == (-9, None)
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
