"""Drivers share a store or have it alone: errors name who is in the way; the dead are removed and may not commit."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from orchestrator.claims import BusyStoreError, Membership, RemovedError, Timing, join
from orchestrator.claims.holder import Holder, this_process
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import open_store
from tests.examples import examples
from tests.orchestrator.claims.join_race import race
from tests.orchestrator.store.rows import epoch, trial
from trials.errors import StoreError

QUICK = Timing(beat_s=0.05, stale_s=1.0, poll_s=0.05, pause_s=0.01, exit_s=5.0)
NEVER = Timing(beat_s=1000.0, stale_s=2000.0, poll_s=0.05, pause_s=0.01, exit_s=5.0)  # no beats but what `check` makes
ME = this_process()
ELSEWHERE = replace(ME, sweep="s", host="node7", user="ada", pid=4711, system="another boot")
CHECKOUT = Path(__file__).parents[3]


def left(storage: Storage) -> list[str]:
    return list(storage.at("drivers").files())


def alone(
    storage: Storage, timing: Timing = QUICK, say: Callable[[str], None] = print, me: Holder | None = None
) -> AbstractContextManager[Membership]:
    """A driver that has the store to itself."""
    return join(storage, "s", alone=True, say=say, timing=timing, me=me)


def refused(storage: Storage, timing: Timing = QUICK) -> str:
    """The error that a second driver gets."""
    with pytest.raises(BusyStoreError) as caught, alone(storage, timing):
        pass
    return str(caught.value)


def set_by(now_s: list[float]) -> Timing:
    """No beats but what `check` makes, by a clock that the test sets."""
    return replace(NEVER, now=lambda: now_s[0])


# --- Taking and giving back


def test_the_second_driver_is_refused_with_the_sweep_the_process_the_times_and_the_way_out(storage: Storage) -> None:
    with alone(storage) as membership:
        message = refused(storage)
        membership.check()
    for words in ("runs sweep s there since 20", f"{ME.user}@{ME.host} (process {os.getpid()})", "UTC", "stop that"):
        assert words in message
    assert (BusyStoreError.exit_code, RemovedError.exit_code) == (3, 3)


def test_any_number_of_drivers_share_a_store_and_none_of_them_may_be_alone(storage: Storage) -> None:
    with (
        join(storage, "s", say=print, timing=QUICK) as one,
        join(storage, "s", say=print, timing=QUICK) as two,
        join(storage, "t", say=print, timing=QUICK) as three,
    ):
        for membership in (one, two, three):
            membership.check()
        assert "runs sweep" in refused(storage)
        assert len(one.others()) == 2
        assert [one.is_first(), two.is_first(), three.is_first()].count(True) == 1


def test_while_a_command_has_a_store_alone_no_driver_starts(storage: Storage) -> None:
    with (
        join(storage, say=print, alone=True, timing=QUICK),
        pytest.raises(BusyStoreError, match="maintains the store"),
        join(storage, "s", say=print, timing=QUICK),
    ):
        pass


def test_two_sweeps_that_share_a_store_lose_none_of_their_rows(storage: Storage) -> None:
    open_store(storage.address, must_exist=False).append("trials", [trial("first")])
    errors: list[Exception] = []

    def drive(sweep: str) -> None:
        store = open_store(storage.address)
        try:
            with join(storage, sweep, say=print, timing=QUICK) as membership:
                for number in range(6):
                    membership.check()
                    for trial_id in (f"{sweep}{number}", "shared"):
                        store.append("epochs", [epoch(trial_id, step=number + 1)])
                        store.append("trials", [trial(trial_id)])
                    store.compact()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=drive, args=(sweep,)) for sweep in "st"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    store = open_store(storage.address)
    assert store.completed_ids() == {"first", "shared", *(f"{sweep}{n}" for sweep in "st" for n in range(6))}
    assert len(store.epochs()) == 6 + 2 * 6  # the trial that both ran reads as one


def test_eight_processes_that_ask_at_once_give_one_holder_each_time(local_storage: FolderStorage) -> None:
    drivers, rounds = 8, examples(20)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(drivers), context.Queue()
    processes = [
        context.Process(target=race, args=(local_storage.folder, rounds, barrier, results)) for _ in range(drivers)
    ]
    for process in processes:
        process.start()
    ends = [results.get() for _ in range(drivers * rounds)]
    for process in processes:
        process.join()
    for number in range(rounds):
        words = sorted(word for of_round, word in ends if of_round == number)
        assert words == ["held"] + ["refused"] * (drivers - 1), number
    assert left(local_storage) == []


# --- Dead and silent holders


def holding(folder: Path, host: str = "", stale_s: float = 60.0) -> subprocess.Popen[str]:
    """A process that has the store alone, tells "held", and checks for each line until one fails."""
    words = [sys.executable, "-m", "tests.orchestrator.claims.join_race", str(folder), host, str(stale_s)]
    process = subprocess.Popen(words, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("waited_for", [True, False])
def test_after_a_kill_the_next_launch_does_not_wait(local_storage: FolderStorage, waited_for: bool) -> None:
    with holding(local_storage.folder) as process:
        process.kill()
        if waited_for:
            process.wait()
        else:  # a zombie, once it is dead
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        said: list[str] = []
        with alone(local_storage, NEVER, said.append):
            assert len(left(local_storage)) == 1
    assert [f"(process {process.pid}) has ended" in line for line in said] == [True]


def test_a_living_process_here_is_a_reason_to_refuse_at_once(local_storage: FolderStorage) -> None:
    with holding(local_storage.folder) as process:
        assert f"(process {process.pid})" in refused(local_storage, replace(NEVER, sleep=_no_waiting))
        process.communicate()


def _no_waiting(seconds: float) -> None:
    raise AssertionError(f"waits {seconds} s")


def test_a_living_driver_elsewhere_is_a_reason_to_refuse_at_its_next_beat(storage: Storage) -> None:
    with alone(storage, me=ELSEWHERE) as membership:
        said: list[str] = []
        slow = replace(QUICK, stale_s=1000.0)
        with pytest.raises(BusyStoreError, match="ada@node7"), alone(storage, slow, said.append):
            pass
        membership.check()
    assert [f"ada@node7 (process 4711) runs sweep s there since {ELSEWHERE.since}" in line for line in said] == [True]
    assert "waiting 1000 s" in said[0]


def test_a_silent_driver_elsewhere_is_taken_over_after_a_while(storage: Storage) -> None:
    said: list[str] = []
    with alone(storage, NEVER, me=ELSEWHERE):
        began = time.monotonic()
        with alone(storage, say=said.append) as membership:
            assert time.monotonic() - began >= QUICK.stale_s
            membership.check()
    assert ["waiting 1 s" in said[0], "sent no heartbeat for 1 s" in said[1]] == [True, True]


def test_one_that_only_asked_and_died_elsewhere_is_taken_over_too(local_storage: FolderStorage) -> None:
    folder = local_storage.at("drivers")
    folder.write("0123456789abcdef-00000001-asks.json", ELSEWHERE.as_json())
    with alone(local_storage):
        assert all(not name.startswith("0123456789abcdef") for name in folder.files())


def test_time_in_which_the_watcher_itself_slept_does_not_count(local_storage: FolderStorage) -> None:
    now_s, naps = [0.0], [0.05] * 4 + [10_000.0] + [0.05] * 4

    def sleep(_seconds: float) -> None:
        now_s[0] += naps.pop()
        if not naps:
            raise TimeoutError

    watcher = replace(QUICK, now=lambda: now_s[0], sleep=sleep)
    with alone(local_storage, NEVER, me=ELSEWHERE), pytest.raises(TimeoutError), alone(local_storage, watcher):
        pass


def test_what_cannot_be_understood_counts_as_ended_once_it_was_silent(local_storage: FolderStorage) -> None:
    folder = local_storage.at("drivers")
    folder.write("0123456789abcdef-00000001-alone.json", b'{"pid": 1}')
    said: list[str] = []
    with alone(local_storage, say=said.append):
        assert all(not name.startswith("0123456789abcdef") for name in folder.files())
    assert [line.startswith("a driver sent no heartbeat for 1 s") for line in said] == [True]


def test_files_of_others_do_not_disturb(local_storage: FolderStorage) -> None:
    local_storage.at("drivers").write("README.txt", b"hands off")
    with alone(local_storage) as membership:
        membership.check()
    assert left(local_storage) == ["README.txt"]


# --- Keeping it and losing it


class CountingStorage(FolderStorage):
    """Counts what it is asked, and can be broken.

    Attributes:
        asked: Operations of all folders.
        broken: Whether it answers none.
        hangs: What a call waits for.
    """

    asked = 0
    broken = False
    hangs: threading.Event | None = None

    def at(self, name: str) -> CountingStorage:
        return CountingStorage(self.folder / name)

    def files(self, *names: str) -> dict[str, int]:
        self._count()
        return super().files(*names)

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        self._count()
        super().write(name, content)

    @staticmethod
    def _count() -> None:
        CountingStorage.asked += 1
        if CountingStorage.hangs is not None:
            CountingStorage.hangs.wait()
        if CountingStorage.broken:
            raise StoreError("does not answer")


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[CountingStorage]:
    yield CountingStorage(tmp_path)
    CountingStorage.asked, CountingStorage.broken, CountingStorage.hangs = 0, False, None


def test_while_beats_succeed_a_check_asks_the_storage_nothing_and_after_a_long_silence_once(
    counting: CountingStorage,
) -> None:
    now_s = [0.0]
    with alone(counting, set_by(now_s)) as membership:
        asked = CountingStorage.asked
        for _ in range(1000):
            membership.check()
        assert CountingStorage.asked == asked
        now_s[0] = NEVER.stale_s / 2
        membership.check()
        assert CountingStorage.asked > asked
        asked = CountingStorage.asked
        membership.check()
        assert CountingStorage.asked == asked


def test_a_storage_that_does_not_answer_stops_commits_until_it_does(counting: CountingStorage) -> None:
    now_s = [0.0]
    with alone(counting, set_by(now_s)) as membership:
        CountingStorage.broken = True
        membership.check()
        now_s[0] = 2 * NEVER.stale_s
        with pytest.raises(StoreError, match="does not answer"):
            membership.check()
        CountingStorage.broken = False
        membership.check()
        assert len(left(counting)) == 1


def test_beats_that_fail_are_tried_again(counting: CountingStorage) -> None:
    with alone(counting) as membership:
        CountingStorage.broken, failing = True, CountingStorage.asked + 3
        while CountingStorage.asked < failing:
            time.sleep(0.01)
        before = FolderStorage(counting.folder)
        names, CountingStorage.broken = left(before), False
        while set(left(before)) & set(names):
            time.sleep(0.01)
        membership.check()
        assert left(before)


def test_one_that_was_taken_over_may_not_commit_and_leaves_the_other_alone(storage: Storage) -> None:
    now_s = [0.0]
    sleeper = set_by(now_s)
    with alone(storage, sleeper, me=ELSEWHERE) as lost, alone(storage) as membership:
        now_s[0] = NEVER.stale_s
        for _ in range(2):
            with pytest.raises(RemovedError, match="removed this driver"):
                lost.check()
        membership.check()
        assert refused(storage)


def test_the_heart_itself_notices_that_it_was_removed(local_storage: FolderStorage) -> None:
    with alone(local_storage) as membership:
        while membership.is_sure:
            for path in (local_storage.folder / "drivers").glob("[!.]*"):
                path.unlink(missing_ok=True)
        with pytest.raises(RemovedError):
            membership.check()


@pytest.mark.parametrize("hangs", [True, False])
def test_a_presence_that_cannot_be_deleted_is_reported_and_hangs_no_exit(
    counting: CountingStorage, hangs: bool
) -> None:
    said, hung = list[str](), threading.Event()
    with alone(counting, replace(NEVER, exit_s=0.1) if hangs else NEVER, said.append):
        CountingStorage.hangs, CountingStorage.broken = (hung if hangs else None), not hangs
    why = "could not be deleted" if hangs else "could not be deleted (does not answer)"
    assert [why in line for line in said] == [True]
    hung.set()


def test_ctrl_c_while_asking_or_before_the_first_heartbeat_leaves_nothing(
    local_storage: FolderStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(FolderStorage):
        left = 2  # listings: the first look, and the one after asking

        def at(self, name: str) -> Interrupted:
            return Interrupted(self.folder / name)

        def files(self, *names: str) -> dict[str, int]:
            Interrupted.left -= 1
            if Interrupted.left == 0:
                raise KeyboardInterrupt
            return super().files(*names)

    def interrupted(_membership: Membership) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), alone(Interrupted(local_storage.folder)):
        pass
    assert left(local_storage) == []
    monkeypatch.setattr(Membership, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt), alone(local_storage):
        pass
    assert left(local_storage) == []


def test_a_store_that_cannot_be_written_or_read_is_an_error(local_storage: FolderStorage) -> None:
    class Unreadable(FolderStorage):
        def at(self, name: str) -> Unreadable:
            return Unreadable(self.folder / name)

        def files(self, *names: str) -> dict[str, int]:
            raise PermissionError(13, "Permission denied")

    with (
        pytest.raises(StoreError, match=r"cannot be read \(.*Permission denied"),
        alone(Unreadable(local_storage.folder)),
    ):
        pass
    (local_storage.folder / "drivers").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"), alone(local_storage):
        pass
