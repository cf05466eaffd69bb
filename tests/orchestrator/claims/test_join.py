"""Drivers share a store or have it alone: errors name who is in the way; the dead are removed and may not commit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from orchestrator.claims import BusyStoreError, Membership, RemovedError, Timing, join
from orchestrator.claims.roster import Holder, this_process
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import open_store
from tests.examples import examples, first
from tests.orchestrator.claims.join_race import race
from tests.orchestrator.store.rows import epoch, trial
from tests.s3_server import ENVIRONMENT, S3Process
from trials.errors import StoreError

QUICK = Timing(beat_s=0.05, stale_s=1.0, poll_s=0.05, pause_s=0.01, exit_s=5.0)
NEVER = Timing(beat_s=1000.0, stale_s=2000.0, poll_s=0.05, pause_s=0.01, exit_s=5.0)  # no beats but what `check` makes
ME = this_process()
ELSEWHERE = replace(ME, sweep="s", host="node7", user="ada", pid=4711, system="another boot")
CHECKOUT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def s3_process() -> Iterator[S3Process]:
    with S3Process() as process:
        yield process


@pytest.fixture(params=first(1, ["local", "s3"]))
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    if request.param == "local":
        return FolderStorage(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    process: S3Process = request.getfixturevalue("s3_process")
    return open_storage(process.address(f"drivers/{tmp_path.name}"))


def left(storage: Storage) -> list[str]:
    return list(storage.at("drivers").files())


def refused(storage: Storage, timing: Timing = QUICK, me: Holder = ME) -> str:
    """The error that a second driver gets."""
    with pytest.raises(BusyStoreError) as caught, join(storage, "s", alone=True, say=print, timing=timing, me=me):
        pass
    return str(caught.value)


# --- Taking and giving back


def test_the_second_driver_is_refused_and_the_first_one_goes_on(storage: Storage) -> None:
    with join(storage, "s", alone=True, say=print, timing=QUICK) as membership:
        refused(storage)
        membership.check()


def test_a_refusal_names_the_sweep_the_process_the_times_and_the_way_out(tmp_path: Path) -> None:
    with join(FolderStorage(tmp_path), "s", alone=True, say=print):
        message = refused(FolderStorage(tmp_path))
    for words in ("runs sweep s there since 20", f"{ME.user}@{ME.host} (process {os.getpid()})", "UTC", "stop that"):
        assert words in message


def test_a_refusal_ends_the_command_with_3() -> None:
    assert (BusyStoreError.exit_code, RemovedError.exit_code) == (3, 3)


def test_after_its_end_the_next_one_may_be_alone_and_nothing_stays(storage: Storage) -> None:
    for _ in range(3):
        with join(storage, "s", alone=True, say=print, timing=QUICK):
            assert len(left(storage)) in (1, 2)  # two while it beats
        assert left(storage) == []


def test_an_error_in_the_block_ends_the_presence(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), join(FolderStorage(tmp_path), "s", alone=True, say=print):
        raise ZeroDivisionError
    assert left(FolderStorage(tmp_path)) == []


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
                for number in range(15):
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
    assert store.completed_ids() == {"first", "shared", *(f"{sweep}{n}" for sweep in "st" for n in range(15))}
    assert len(store.epochs()) == 15 + 2 * 15  # the trial that both ran reads as one


def test_eight_processes_that_ask_at_once_give_one_holder_each_time(tmp_path: Path) -> None:
    drivers, rounds = 8, examples(20)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(drivers), context.Queue()
    processes = [context.Process(target=race, args=(tmp_path, rounds, barrier, results)) for _ in range(drivers)]
    for process in processes:
        process.start()
    ends = [results.get() for _ in range(drivers * rounds)]
    for process in processes:
        process.join()
    for number in range(rounds):
        words = sorted(word for of_round, word in ends if of_round == number)
        assert words == ["held"] + ["refused"] * (drivers - 1), number
    assert left(FolderStorage(tmp_path)) == []


# --- Dead and silent holders


def holding(folder: Path, host: str = "", stale_s: float = 60.0) -> subprocess.Popen[str]:
    """A process that has the store alone, tells "held", and checks for each line until one fails."""
    words = [sys.executable, "-m", "tests.orchestrator.claims.join_race", str(folder), host, str(stale_s)]
    process = subprocess.Popen(words, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("waited_for", [True, False])
def test_after_a_kill_the_next_launch_does_not_wait(tmp_path: Path, waited_for: bool) -> None:
    with holding(tmp_path) as process:
        process.kill()
        if waited_for:
            process.wait()
        else:  # a zombie, once it is dead
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        said: list[str] = []
        with join(FolderStorage(tmp_path), "s", alone=True, say=said.append, timing=NEVER):
            assert len(left(FolderStorage(tmp_path))) == 1
    assert [f"(process {process.pid}) has ended" in line for line in said] == [True]


def test_a_living_process_here_is_a_reason_to_refuse_at_once(tmp_path: Path) -> None:
    with holding(tmp_path) as process:
        assert f"(process {process.pid})" in refused(FolderStorage(tmp_path), replace(NEVER, sleep=_no_waiting))
        process.communicate()


def _no_waiting(seconds: float) -> None:
    raise AssertionError(f"waits {seconds} s")


def test_a_living_driver_elsewhere_is_a_reason_to_refuse_at_its_next_beat(storage: Storage) -> None:
    with join(storage, "s", alone=True, say=print, timing=QUICK, me=ELSEWHERE) as membership:
        said: list[str] = []
        slow = replace(QUICK, stale_s=1000.0)
        with (
            pytest.raises(BusyStoreError, match="ada@node7"),
            join(storage, "s", alone=True, say=said.append, timing=slow),
        ):
            pass
        membership.check()
    assert [f"ada@node7 (process 4711) runs sweep s there since {ELSEWHERE.since}" in line for line in said] == [True]
    assert "waiting 1000 s" in said[0]


def test_a_silent_driver_elsewhere_is_taken_over_after_a_while(storage: Storage) -> None:
    said: list[str] = []
    with join(storage, "s", alone=True, say=print, timing=NEVER, me=ELSEWHERE):
        began = time.monotonic()
        with join(storage, "s", alone=True, say=said.append, timing=QUICK) as membership:
            assert time.monotonic() - began >= QUICK.stale_s
            membership.check()
    assert ["waiting 1 s" in said[0], "sent no heartbeat for 1 s" in said[1]] == [True, True]


def test_one_that_only_asked_and_died_elsewhere_is_taken_over_too(tmp_path: Path) -> None:
    folder = FolderStorage(tmp_path).at("drivers")
    folder.write("0123456789abcdef-00000001-asks.json", ELSEWHERE.as_json())
    with join(FolderStorage(tmp_path), "s", alone=True, say=print, timing=QUICK):
        assert all(not name.startswith("0123456789abcdef") for name in folder.files())


def test_time_in_which_the_watcher_itself_slept_does_not_count(tmp_path: Path) -> None:
    now_s, naps = [0.0], [0.05] * 4 + [10_000.0] + [0.05] * 4

    def sleep(_seconds: float) -> None:
        now_s[0] += naps.pop()
        if not naps:
            raise TimeoutError

    watcher = replace(QUICK, now=lambda: now_s[0], sleep=sleep)
    with (
        join(FolderStorage(tmp_path), "s", alone=True, say=print, timing=NEVER, me=ELSEWHERE),
        pytest.raises(TimeoutError),
        join(FolderStorage(tmp_path), "s", alone=True, say=print, timing=watcher),
    ):
        pass


def test_what_cannot_be_understood_counts_as_ended_once_it_was_silent(tmp_path: Path) -> None:
    folder = FolderStorage(tmp_path).at("drivers")
    folder.write("0123456789abcdef-00000001-alone.json", b'{"pid": 1}')
    said: list[str] = []
    with join(FolderStorage(tmp_path), "s", alone=True, say=said.append, timing=QUICK):
        assert all(not name.startswith("0123456789abcdef") for name in folder.files())
    assert [line.startswith("a driver sent no heartbeat for 1 s") for line in said] == [True]


def test_files_of_others_do_not_disturb(tmp_path: Path) -> None:
    FolderStorage(tmp_path).at("drivers").write("README.txt", b"hands off")
    with join(FolderStorage(tmp_path), "s", alone=True, say=print, timing=QUICK) as membership:
        membership.check()
    assert left(FolderStorage(tmp_path)) == ["README.txt"]


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


def test_while_beats_succeed_a_check_asks_the_storage_nothing(counting: CountingStorage) -> None:
    with join(counting, "s", alone=True, say=print, timing=NEVER) as membership:
        asked = CountingStorage.asked
        for _ in range(1000):
            membership.check()
        assert CountingStorage.asked == asked


def test_after_a_long_silence_a_check_asks_the_storage(counting: CountingStorage) -> None:
    now_s = [0.0]
    with join(counting, "s", alone=True, say=print, timing=replace(NEVER, now=lambda: now_s[0])) as membership:
        asked, now_s[0] = CountingStorage.asked, NEVER.stale_s / 2
        membership.check()
        assert CountingStorage.asked > asked
        asked = CountingStorage.asked
        membership.check()
        assert CountingStorage.asked == asked


def test_a_storage_that_does_not_answer_stops_commits_until_it_does(counting: CountingStorage) -> None:
    now_s = [0.0]
    with join(counting, "s", alone=True, say=print, timing=replace(NEVER, now=lambda: now_s[0])) as membership:
        CountingStorage.broken = True
        membership.check()
        now_s[0] = 2 * NEVER.stale_s
        with pytest.raises(StoreError, match="does not answer"):
            membership.check()
        CountingStorage.broken = False
        membership.check()
        assert len(left(counting)) == 1


def test_beats_that_fail_are_tried_again(counting: CountingStorage) -> None:
    with join(counting, "s", alone=True, say=print, timing=QUICK) as membership:
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
    sleeper = replace(NEVER, now=lambda: now_s[0])
    with (
        join(storage, "s", alone=True, say=print, timing=sleeper, me=ELSEWHERE) as lost,
        join(storage, "s", alone=True, say=print, timing=QUICK) as membership,
    ):
        now_s[0] = NEVER.stale_s
        for _ in range(2):
            with pytest.raises(RemovedError, match="removed this driver"):
                lost.check()
        membership.check()
        assert refused(storage)


def test_a_process_that_was_stopped_and_taken_over_finds_it_lost(tmp_path: Path) -> None:
    with holding(tmp_path, host="node7", stale_s=1.0) as process:
        assert process.stdin is not None
        process.send_signal(signal.SIGSTOP)
        with join(FolderStorage(tmp_path), "s", alone=True, say=print, timing=QUICK) as membership:
            process.send_signal(signal.SIGCONT)
            printed, _ = process.communicate("check\n")
            assert (printed, process.returncode) == ("lost\n", 3)
            membership.check()


def test_a_presence_that_was_deleted_by_hand_is_lost(tmp_path: Path) -> None:
    now_s = [0.0]
    with join(
        FolderStorage(tmp_path), "s", alone=True, say=print, timing=replace(NEVER, now=lambda: now_s[0])
    ) as membership:
        for name in left(FolderStorage(tmp_path)):
            (tmp_path / "drivers" / name).unlink()
        now_s[0] = NEVER.stale_s / 2
        with pytest.raises(RemovedError, match="another driver or user"):
            membership.check()
        assert left(FolderStorage(tmp_path)) == []


def test_the_heart_itself_notices_that_it_was_removed(tmp_path: Path) -> None:
    with join(FolderStorage(tmp_path), "s", alone=True, say=print, timing=QUICK) as membership:
        while membership.is_sure:
            for path in (tmp_path / "drivers").glob("[!.]*"):
                path.unlink(missing_ok=True)
        with pytest.raises(RemovedError):
            membership.check()


def test_a_storage_that_hangs_does_not_hang_the_exit(counting: CountingStorage) -> None:
    said: list[str] = []
    with join(counting, "s", alone=True, say=said.append, timing=replace(NEVER, exit_s=0.1)):
        CountingStorage.hangs = hung = threading.Event()
    assert ["could not be deleted" in line for line in said] == [True]
    hung.set()


def test_a_presence_that_cannot_be_deleted_is_reported(counting: CountingStorage) -> None:
    said: list[str] = []
    with join(counting, "s", alone=True, say=said.append, timing=NEVER):
        CountingStorage.broken = True
    assert ["could not be deleted (does not answer)" in line for line in said] == [True]


def test_ctrl_c_while_asking_leaves_nothing(tmp_path: Path) -> None:
    class Interrupted(FolderStorage):
        left = 2  # listings: the first look, and the one after asking

        def at(self, name: str) -> Interrupted:
            return Interrupted(self.folder / name)

        def files(self, *names: str) -> dict[str, int]:
            Interrupted.left -= 1
            if Interrupted.left == 0:
                raise KeyboardInterrupt
            return super().files(*names)

    with pytest.raises(KeyboardInterrupt), join(Interrupted(tmp_path), "s", alone=True, say=print, timing=QUICK):
        pass
    assert left(FolderStorage(tmp_path)) == []


def test_ctrl_c_before_the_first_heartbeat_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_membership: Membership) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Membership, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt), join(FolderStorage(tmp_path), "s", alone=True, say=print, timing=QUICK):
        pass
    assert left(FolderStorage(tmp_path)) == []


def test_a_store_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "drivers").write_text("in the way")
    with (
        pytest.raises(StoreError, match="cannot be written"),
        join(FolderStorage(tmp_path), "s", alone=True, say=print),
    ):
        pass


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    class Unreadable(FolderStorage):
        def at(self, name: str) -> Unreadable:
            return Unreadable(self.folder / name)

        def files(self, *names: str) -> dict[str, int]:
            raise PermissionError(13, "Permission denied")

    with (
        pytest.raises(StoreError, match=r"cannot be read \(.*Permission denied"),
        join(Unreadable(tmp_path), "s", alone=True, say=print),
    ):
        pass
