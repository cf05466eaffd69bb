"""The short form of `make chaos`: a sweep that loses a worker and its driver, and drivers that share a bucket."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.store import ResultStore, open_store
from tests.builders import make_record, make_spec
from tests.lab.chaos import compare, drivers
from tests.lab.chaos.cluster import Inline, Local
from tests.lab.chaos.endure import Endurance, Moment, Told, is_ok
from tests.lab.chaos.events import World
from tests.lab.chaos.ours import Ours
from tests.lab.chaos.processes import end_all, inside
from tests.lab.chaos.readers import Reader
from tests.lab.chaos.subject import write_work
from tests.s3_server import ENVIRONMENT, S3Process
from trials.state import State

OPENS = 40


def endured(cluster: type[Local], sweep: Path, folder: Path, expected: compare.Tables | None, *moments: Moment) -> Told:
    with cluster(folder) as nodes:
        subject = Ours(sweep, folder, folder, expected)
        return Endurance(World(folder, folder, False, nodes, subject, Random(0)), moments).go()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose name leaves room for Ray's sockets, whose paths are limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.slow  # test_ray has each loss by itself
@pytest.mark.cluster
@pytest.mark.timeout(280)
def test_a_sweep_that_lost_a_worker_and_its_driver_ends_as_if_it_had_not_and_every_look_at_it_was_whole(
    short_path: Path,
) -> None:
    base = short_path
    sweep = write_work(base, train=64, seeds=2)
    assert endured(Inline, sweep, base / "u", None).exit_codes == [0]
    expected = compare.tables(compare.read_rows(open_store(base / "u" / "store")))
    reader, over = Reader(base / "h" / "store", Random(0)), threading.Event()
    looking = threading.Thread(target=_look, args=(reader, over))
    looking.start()
    try:
        told = endured(
            Local, sweep, base / "h", expected, Moment("worker_killed", 2, 0.2), Moment("driver_killed", 6, 0)
        )
    finally:
        over.set()
        looking.join()
    assert told.exit_codes == [-9, 0], told.log_tail
    assert not told.not_done
    assert told.verdict.ok(), told.verdict
    assert (reader.problems, reader.opens >= OPENS) == ([], True)


def _look(reader: Reader, over: threading.Event) -> None:
    while not over.is_set():
        over.wait(reader.rng.uniform(0, 0.4))
        if compare.count_rows(reader.store):
            reader.look()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_drivers_that_share_a_bucket_and_come_to_harm_of_each_kind_leave_what_one_alone_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with S3Process() as s3, drivers.fleet(tmp_path, 3, s3.url) as fleet:
        fleet.undisturbed()
        told, _ = fleet.run([Moment(harm, 3 * n, 0.2) for n, harm in enumerate(drivers.HARMS)], "short")
    assert is_ok(told), (told.verdict, told.log_tail)
    assert [harm.partition(":")[0] for harm in told.harms] == list(drivers.HARMS)


def test_a_lost_row_a_changed_number_a_foreign_trial_and_a_row_told_twice_are_each_counted(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    recorder = Recorder(store)
    for seed in (0, 1):
        recorder.started(make_spec(seed=seed), 1)
        for step in (13, 26, 39):
            recorder.evaluated(make_spec(seed=seed), make_record(step=step, epoch=step / 13, last=step == 39))
        recorder.ended(make_spec(seed=seed), State.COMPLETED, None)
    recorder.close()
    rows = compare.read_rows(store)
    expected = compare.tables(rows)
    rows["epochs"][0]["dev_loss"] += 1e-9
    del rows["trials"][0]
    rows["epochs"] += [{**rows["epochs"][1], "trial_id": "another"}, rows["epochs"][2]]
    found = compare.compare(expected, rows)
    assert (found.missing, found.different, found.surplus, found.duplicate) == (1, 1, 1, 1)


@pytest.mark.parametrize(("is_late", "lost"), [(False, 4), (True, 0)])
def test_an_evaluation_done_again_is_lost_if_it_was_in_the_store_when_another_driver_took_over(
    tmp_path: Path, *, is_late: bool, lost: int
) -> None:
    history = drivers.History(tmp_path)

    def evaluated(attempt: int) -> None:
        content = BytesIO()
        rows = [{"trial_id": "a", "attempt": attempt, "step": step, "time": float(attempt)} for step in range(4)]
        pq.write_table(pa.Table.from_pylist(rows), content)
        history.note(f"epochs/part-{attempt}.parquet", content.getvalue())

    history.note("claims/a-1.json", b"")
    if not is_late:
        evaluated(1)
    history.note("claims/a-2.json", b"")
    evaluated(2)
    if is_late:
        evaluated(1)
    assert compare.lost_intervals(tmp_path, late=history.late) == lost


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
