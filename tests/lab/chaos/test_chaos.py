"""The short form of `make chaos`: a sweep that loses a worker and its driver, read all the while; its judges' sight."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.store import ResultStore, open_store
from tests.builders import make_record, make_spec
from tests.lab.chaos import compare, day, drivers
from tests.lab.chaos.cluster import Local, small_disk
from tests.lab.chaos.endure import Endurance, Moment, Told, is_ok, plan
from tests.lab.chaos.events import HARMS, World, disk_full
from tests.lab.chaos.ours import Ours
from tests.lab.chaos.processes import end_all, inside
from tests.lab.chaos.readers import Reader
from tests.lab.chaos.subject import Verdict, write_work
from tests.lab.chaos.wall_clock import WallClock, compiler
from tests.s3_server import ENVIRONMENT, S3Process
from trials.state import State

STEPS = (13, 26, 39)
OPENS = 40


class Inline(Local):
    """Without Ray: the uninterrupted run, which any other must equal to the bit."""

    name = "inline"


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


def filled(folder: Path) -> ResultStore:
    """A store of two completed trials of three epochs."""
    store = ResultStore(folder)
    for seed in (0, 1):
        _attempt(store, seed, 1, time_s=0.0)
    return store


def _attempt(store: ResultStore, seed: int, attempt: int, *, time_s: float, steps: tuple[int, ...] = STEPS) -> None:
    recorder, spec = Recorder(store), make_spec(seed=seed)
    recorder.started(spec, attempt)
    for step in steps:
        record = make_record(step=step, epoch=step / 13, last=step == STEPS[-1])
        recorder.evaluated(spec, replace(record, time=record.time + time_s))
    if steps == STEPS:
        recorder.ended(spec, State.COMPLETED, None)
    recorder.flush()


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


def test_an_attempt_at_a_finished_trial_is_counted_if_it_was_claimed_after_the_end_and_ran(tmp_path: Path) -> None:
    store, history = filled(tmp_path / "store"), drivers.History(tmp_path / "history")
    before, after, twice = (
        f"claims/{make_spec(seed=seed).trial_id}-00000{n}.json" for seed, n in [(0, 2), (1, 2), (0, 1)]
    )
    history.note(before, b"")
    _noted(history, store)
    for name in (after, twice):
        history.note(name, b"")
    _attempt(store, 0, 2, time_s=60.0)
    _noted(history, store)
    assert (history.ran_again, history.ended_twice()) == (set(), 1)
    _attempt(store, 1, 2, time_s=60.0)
    _noted(history, store)
    assert history.ran_again == {(make_spec(seed=1).trial_id, 2)}


def _noted(history: drivers.History, store: ResultStore) -> None:
    for part in compare.parts_of(store.root):
        history.note(f"{part.parent.name}/{part.name}", part.read_bytes())


def judged(store: ResultStore, expected: compare.Tables) -> compare.Difference:
    return compare.compare(expected, compare.read_rows(store))


def test_stores_that_differ_in_times_and_attempts_only_are_the_same(tmp_path: Path) -> None:
    expected = compare.tables(compare.read_rows(filled(tmp_path / "one")))
    other = filled(tmp_path / "other")
    _attempt(other, 0, 2, time_s=60.0)
    assert judged(other, expected) == compare.Difference(0, 0, 0, 0)


def test_a_lost_part_a_changed_number_and_a_foreign_trial_are_each_counted(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    rows = compare.read_rows(store)
    expected = compare.tables(rows)
    rows["epochs"][0]["dev_loss"] += 1e-9
    del rows["trials"][0]
    rows["epochs"].append({**rows["epochs"][1], "trial_id": "another"})
    rows["epochs"].append(rows["epochs"][2])
    found = compare.compare(expected, rows)
    assert (found.missing, found.different, found.surplus, found.duplicate) == (1, 1, 1, 1)
    assert "dev_loss" in found.examples[-1]


def test_evaluations_done_again_are_told_from_those_carried_over_by_their_time(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    _attempt(store, 0, 1, time_s=0.0, steps=STEPS[:2])
    _attempt(store, 0, 2, time_s=0.0)
    assert compare.lost_intervals(store.root) == 0
    _attempt(store, 1, 1, time_s=0.0, steps=STEPS[:2])
    _attempt(store, 1, 2, time_s=60.0)
    assert compare.lost_intervals(store.root) == 2
    assert compare.lost_intervals(store.root, spared=[make_spec(seed=1).trial_id]) == 0


@pytest.mark.slow
def test_a_finished_trial_that_ran_again_is_no_good_verdict(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    subject = Ours(tmp_path / "none.yaml", tmp_path, tmp_path, None)
    subject.interrupted()
    assert subject.judge().finished_again == 0
    _attempt(open_store(tmp_path / "store"), 1, 2, time_s=60.0)
    verdict = subject.judge()
    assert (verdict.finished_again, verdict.ok()) == (1, False)


@pytest.mark.slow
def test_a_spoiled_part_is_noticed_and_its_trials_are_spared(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    subject = Ours(tmp_path / "none.yaml", tmp_path, tmp_path, compare.tables(compare.read_rows(store)))
    part = next(part for part in subject.parts() if part.parent.name == "trials")
    subject.spoil(part, part.stat().st_size // 2)
    assert subject.heal()
    verdict = subject.judge()
    assert (verdict.undetected, verdict.ok()) == (0, False)
    assert verdict.missing > 0


def test_a_reader_complains_of_a_trial_without_its_last_epoch_and_of_one_that_is_gone(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    reader = Reader(store.root, Random(0))
    reader.look()
    assert not reader.problems
    shutil.rmtree(tmp_path / "store" / "epochs")
    reader.look()
    assert any("its last epoch is not there" in problem for problem in reader.problems)
    shutil.rmtree(tmp_path / "store" / "trials")
    reader.look()
    assert "2 completed trials no longer are" in reader.problems


def test_a_plan_is_the_same_for_the_same_seed_and_in_the_order_of_its_moments() -> None:
    plans = [plan(Random("0 7"), list(HARMS)) for _ in range(2)]
    assert plans[0] == plans[1]
    many = [plan(Random(f"0 {number}"), list(HARMS)) for number in range(50)]
    assert {len(one) for one in many} == {1, 2, 3}
    assert all([m.rows for m in one] == sorted(m.rows for m in one) for one in many)
    assert {moment.harm for one in many for moment in one} == set(HARMS)


def test_more_than_one_lost_interval_is_no_good_verdict_unless_there_was_no_room_to_keep_it() -> None:
    assert Verdict(lost_intervals=1).ok()
    assert not Verdict(lost_intervals=2).ok()
    assert Verdict(lost_intervals=2).ok(most_lost=None)


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


def test_a_full_disk_takes_no_more_rows_until_it_is_given_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as own:
        if not own:
            pytest.skip("a disk of its own needs the right to mount one")
        with Local(tmp_path / "run") as nodes:
            subject = Ours(tmp_path / "none.yaml", tmp_path, tmp_path / "disk", None)
            full = disk_full(World(tmp_path, tmp_path / "disk", True, nodes, subject, Random(0)))
        assert full is not None
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "disk" / "row").write_bytes(b"x" * 4096)
        full.undo()
        assert (tmp_path / "disk" / "row").write_bytes(b"x" * 4096) == 4096


@pytest.mark.skipif(compiler() is None, reason="moving a process's wall clock needs a C compiler")
def test_a_moved_wall_clock_moves_under_a_running_process_and_its_monotonic_clock_does_not(tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    code = "import time\nfor _ in iter(input, 'end'): print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=clock.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        for seconds in (0, 3600, -3600):
            clock.move(seconds)
            began = time.time(), time.monotonic()
            process.stdin.write("now\n")
            process.stdin.flush()
            wall, monotonic = (float(word) for word in process.stdout.readline().split())
            assert began[0] - 1 <= wall - seconds <= time.time() + 1
            assert began[1] - 1 <= monotonic <= time.monotonic() + 1
        process.stdin.write("end\n")
        process.stdin.close()


def test_a_days_verdict_tells_growth_from_a_level_that_is_reached() -> None:
    level = [_sample(n, driver_mb=200 + min(n, 1000) / 100, store_files=40 + n % 7) for n in range(100, 5001, 100)]
    leak = [
        _sample(n, driver_mb=200 + n / 20, store_files=4 * n, open_files=30 + n / 100) for n in range(100, 5001, 100)
    ]
    promises = ("memory_flat", "files_bounded", "open_files_flat")
    assert [day.verdict(level)[name] for name in promises] == [True, True, True]
    assert [day.verdict(leak)[name] for name in promises] == [False, False, False]
    assert day.growth(leak, "driver_mb") == 50.0


def _sample(n: int, **figures: float) -> day.Sample:
    names = ("seconds", "driver_mb", "open_files", "store_files", "tune_files", "ray_files")
    return {**dict.fromkeys(names, 30.0), "trials": n, **figures}
