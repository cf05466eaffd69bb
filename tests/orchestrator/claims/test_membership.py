"""Who works on a store: drivers share it, one at a time has a search, the dead are removed and may not commit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestrator.claims import (
    CLAIMS,
    BusyStoreError,
    Claims,
    Membership,
    RemovedError,
    Timing,
    hold_search,
    running_drivers,
)
from orchestrator.claims.membership import Holder, this_process
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import open_store
from tests.examples import each
from tests.orchestrator.store.rows import epoch, trial
from trials.errors import StoreError

QUICK = Timing(beat_s=0.05, stale_s=1.0, poll_s=0.05, exit_s=5.0)
NEVER = Timing(beat_s=1000.0, stale_s=2000.0, poll_s=0.05, exit_s=5.0)  # no beats but what `check` makes
ME = this_process("s")
ELSEWHERE = ME.model_copy(update={"host": "node7", "user": "ada", "pid": 4711})


def left(storage: Storage) -> list[str]:
    return list(storage.subfolder("drivers").files())


def set_by(now_s: list[float]) -> Timing:
    """No beats but what `check` makes, by a clock that the test sets."""
    return replace(NEVER, now=lambda: now_s[0])


# --- Beside each other


def test_any_number_of_drivers_share_a_store_and_lose_none_of_their_rows(storage: Storage) -> None:
    open_store(storage.address, must_exist=False).append("trials", [trial("first")])
    errors: list[Exception] = []

    def drive(sweep: str) -> None:
        store = open_store(storage.address)
        try:
            with Membership(storage, sweep, say=print, timing=QUICK) as membership:
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


def test_one_of_those_that_are_present_is_the_first(storage: Storage) -> None:
    with (
        Membership(storage, "s", say=print, timing=QUICK) as one,
        Membership(storage, "t", say=print, timing=QUICK) as two,
    ):
        assert (one.others(), two.others()) == (frozenset({two.token}), frozenset({one.token}))
        assert [one.is_first(), two.is_first()].count(True) == 1
    assert left(storage) == []


def test_each_running_driver_is_found_with_its_trials_and_where_its_ray_is(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    with Membership(storage, "s", say=print, timing=QUICK) as one, Membership(storage, "other", say=print) as two:
        for membership, trial_ids in ((one, "ab"), (two, "bc")):
            claims = Claims(storage.subfolder(CLAIMS), membership)
            claims.refresh()
            for trial_id in trial_ids:
                claims.take(trial_id)
        hold_search(storage, one, "s")  # is no trial
        trials = {driver.holder.sweep: driver.trials for driver in running_drivers(storage)}
        assert trials == {"s": {"a", "b"}, "other": {"c"}}
        (found,) = running_drivers(storage, "s")
        assert (found.token, found.holder.ray, str(found).endswith(", 2 trials")) == (one.token, "", True)
        one.announce(ray="http://127.0.0.1:8265")
        while not (drivers := running_drivers(storage, "s")) or not drivers[0].holder.ray:
            pass
        assert drivers[0].holder.ray == "http://127.0.0.1:8265"
    assert running_drivers(storage) == []


@pytest.mark.parametrize(("alive", "runs"), [("2020-01-01 00:00:00 UTC", False), ("now", True), ("no time", False)])
def test_for_display_the_last_sign_of_life_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: str, runs: bool
) -> None:
    storage = FolderStorage(tmp_path)
    if alive != "now":
        monkeypatch.setattr("orchestrator.claims.membership._utc_now", lambda: alive)
    storage.subfolder("drivers").write(f"{'0' * 16}-00000001.json", ELSEWHERE.as_json())
    assert bool(running_drivers(storage, "s")) == runs


@each(
    "name, value",
    [
        *(("pid", pid) for pid in (0, -1, 2**31, 1.5, True, "1")),
        *((name, ["ab"]) for name in ("sweep", "user", "host", "alive", "ray")),
        ("most", 1.5),
    ],
)
def test_a_process_has_a_number_and_names_of_text(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Holder(**(ME.model_dump() | {name: value}))


# --- One at a time


def test_a_second_driver_of_a_search_is_told_who_has_it_in_one_line_and_takes_over_when_that_one_ends(
    storage: Storage,
) -> None:
    said: list[str] = []
    with Membership(storage, "s", say=print, timing=QUICK) as one:
        hold_search(storage, one, "s")
        with Membership(storage, "s", say=said.append, timing=replace(QUICK, stale_s=1000.0)) as two:
            hold_search(storage, two, "t")
            with pytest.raises(BusyStoreError) as refused:
                hold_search(storage, two, "s")
    for words in (
        f"{ME.user}@{ME.host} (process {os.getpid()}) runs sweep s there since 20",
        "One driver at a time can have a search",
    ):
        assert words in str(refused.value)
    assert (said, "\n" in str(refused.value), refused.value.exit_code) == ([], False, 3)
    with Membership(storage, "s", say=print, timing=NEVER) as next_one:
        hold_search(storage, next_one, "s")
    assert list(storage.subfolder("searches").files()) == ["s-000002.json", "t-000001.json"]


def test_after_a_kill_the_next_driver_has_the_search_when_the_dead_one_was_silent_for_long_enough(
    storage: Storage,
) -> None:
    said: list[str] = []
    with Membership(storage, "s", say=print, timing=NEVER, me=ELSEWHERE) as killed:
        hold_search(storage, killed, "s")
        began = time.monotonic()
        with Membership(storage, "s", say=said.append, timing=QUICK) as membership:
            hold_search(storage, membership, "s")
            assert time.monotonic() - began >= QUICK.stale_s
            membership.check()
    assert ["ada@node7 (process 4711)" in said[0], "sent no heartbeat for 1 s" in said[1]] == [True, True]


def test_drivers_that_want_a_search_at_once_are_never_two(local_storage: FolderStorage) -> None:
    holding, most, words = list[str](), [0], list[str]()
    start = threading.Barrier(4)

    def want(name: str) -> None:
        with Membership(local_storage, "s", say=lambda _: None, timing=QUICK) as membership:
            start.wait()
            try:
                hold_search(local_storage, membership, "s")
            except BusyStoreError:
                words.append("refused")
                return
            holding.append(name)
            most[0] = max(most[0], len(holding))
            words.append("held")
            while len(words) < 4:
                time.sleep(0.01)
            holding.remove(name)

    threads = [threading.Thread(target=want, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(words), most) == (["held", "refused", "refused", "refused"], [1])


def test_time_in_which_the_watcher_itself_slept_does_not_count(local_storage: FolderStorage) -> None:
    now_s, naps = [0.0], [0.05] * 4 + [10_000.0] + [0.05] * 4

    def sleep(_seconds: float) -> None:
        now_s[0] += naps.pop()
        if not naps:
            raise TimeoutError

    watcher = replace(NEVER, stale_s=2000.0, poll_s=0.05, now=lambda: now_s[0], sleep=sleep)
    with (
        Membership(local_storage, "s", say=print, timing=NEVER),
        Membership(local_storage, "s", say=print, timing=watcher) as one,
        pytest.raises(TimeoutError),
    ):
        one.await_turn(one.others, "")


def test_what_cannot_be_understood_counts_as_ended_once_it_was_silent_and_files_of_others_do_not_disturb(
    local_storage: FolderStorage,
) -> None:
    folder = local_storage.subfolder("drivers")
    folder.write("0123456789abcdef-00000001.json", b'{"pid": 1}')
    folder.write("README.txt", b"hands off")
    said: list[str] = []
    with Membership(local_storage, "s", say=said.append, timing=QUICK) as membership:
        membership.await_turn(membership.others, "")
    assert said[-1].startswith("a driver sent no heartbeat for 1 s")
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

    def subfolder(self, name: str) -> CountingStorage:
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
    with Membership(counting, "s", say=print, timing=set_by(now_s)) as membership:
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
    with Membership(counting, "s", say=print, timing=set_by(now_s)) as membership:
        CountingStorage.broken = True
        membership.check()
        now_s[0] = 2 * NEVER.stale_s
        with pytest.raises(StoreError, match="does not answer"):
            membership.check()
        CountingStorage.broken = False
        membership.check()
        assert len(left(counting)) == 1


def test_one_that_was_taken_over_may_not_commit_and_leaves_the_other_alone(storage: Storage) -> None:
    now_s = [0.0]
    with (
        Membership(storage, "s", say=print, timing=set_by(now_s), me=ELSEWHERE) as lost,
        Membership(storage, "s", say=print, timing=QUICK) as membership,
    ):
        membership.await_turn(membership.others, "")
        now_s[0] = NEVER.stale_s
        for _ in range(2):
            with pytest.raises(RemovedError, match="removed this driver"):
                lost.check()
        membership.check()
        assert {name[:16] for name in left(storage)} == {membership.token}


@pytest.mark.parametrize("hangs", [True, False])
def test_a_presence_that_cannot_be_deleted_is_reported_and_hangs_no_exit(
    counting: CountingStorage, hangs: bool
) -> None:
    said, hung = list[str](), threading.Event()
    with Membership(counting, "s", say=said.append, timing=replace(NEVER, exit_s=0.1) if hangs else NEVER):
        CountingStorage.hangs, CountingStorage.broken = (hung if hangs else None), not hangs
    why = "could not be deleted" if hangs else "could not be deleted (does not answer)"
    assert [why in line for line in said] == [True]
    hung.set()


def test_ctrl_c_while_joining_leaves_nothing(local_storage: FolderStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_membership: Membership) -> None:
        beat(_membership)
        raise KeyboardInterrupt

    beat = Membership._beat
    monkeypatch.setattr(Membership, "_beat", interrupted)
    with pytest.raises(KeyboardInterrupt), Membership(local_storage, "s", say=print):
        pass
    assert left(local_storage) == []


def test_a_store_that_cannot_be_written_is_an_error(local_storage: FolderStorage) -> None:
    (local_storage.folder / "drivers").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"), Membership(local_storage, "s", say=print):
        pass
