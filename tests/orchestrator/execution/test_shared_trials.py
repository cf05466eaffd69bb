"""Drivers that share trials run each of them once, go on with those of a dead one, and wait for those of a live one."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from orchestrator.claims import CLAIMS, Claims, Membership
from orchestrator.execution.trial_queue import Listed, SharedTrials
from orchestrator.store import ResultStore, open_store
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import TRIALS
from tests.builders import make_spec
from tests.orchestrator.execution.sharing_driver import QUICK, asleep, drive
from tests.orchestrator.store.rows import trial
from tests.s3 import S3Process
from trials.record import State

SPECS = [make_spec(seed=seed) for seed in range(24)]
CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    found = open_store(tmp_path / "store", must_exist=False)
    found.create()
    return found


def committed(store: ResultStore) -> Counter[str]:
    """The number of rows of each trial that say it completed, over all of its attempts."""
    rows = PartFolder(store.storage.subfolder("trials"), TRIALS).read().select(["trial_id", "state"]).to_pylist()
    return Counter(row["trial_id"] for row in rows if row["state"] == State.COMPLETED)


def drive_all(store: ResultStore, parts: Sequence[range], *, state: State = State.COMPLETED) -> list[list[str]]:
    """What each of several drivers was told, which ran these trials at the same time."""
    told: list[list[str]] = [[] for _ in parts]
    errors: list[Exception] = []

    def run(n: int) -> None:
        try:
            specs = [SPECS[i] for i in parts[n]]
            shared, made = ResultStore(store.storage), lambda start: Listed(specs, start=start)
            drive(shared, "", made, asleep(0.04), told=told[n].append, state=state)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return told


def test_drivers_of_one_sweep_run_each_trial_once_and_each_sees_the_whole_sweep(store: ResultStore) -> None:
    told = drive_all(store, [range(24)] * 3)
    assert committed(store) == {spec.trial_id: 1 for spec in SPECS}
    for lines in told:
        seen = Counter(line.split()[1] for line in lines if line.startswith(("ended", "settled")))
        assert seen == {str(seed): 1 for seed in range(24)}
        assert any(line.startswith("ended") for line in lines)


def test_drivers_of_overlapping_sweeps_run_each_common_trial_once_and_leave_nothing(store: ResultStore) -> None:
    drive_all(store, [range(14), range(10, 24)])
    assert committed(store) == {spec.trial_id: 1 for spec in SPECS}
    assert [list(store.storage.subfolder(name).files()) for name in ("claims", "drivers")] == [[], []]


def test_a_trial_that_failed_with_another_driver_has_ended_for_this_launch_and_runs_in_the_next(
    store: ResultStore,
) -> None:
    told = drive_all(store, [range(6)] * 2, state=State.FAILED)
    assert sum(line.startswith("began") for lines in told for line in lines) == 6
    (again,) = drive_all(store, [range(6)])
    assert sorted(line for line in again if line.startswith("began")) == [f"began {seed} 2" for seed in range(6)]


def test_on_an_object_store_each_trial_is_committed_once(s3: S3Process, prefix: str) -> None:
    store = open_store(s3.address(prefix), must_exist=False)
    store.create()
    drive_all(store, [range(4)] * 2)
    assert committed(store) == {spec.trial_id: 1 for spec in SPECS[:4]}
    assert store.storage.subfolder("drivers").files() == {}


# --- What one driver does with what it finds


@contextmanager
def two(store: ResultStore) -> Iterator[tuple[SharedTrials, SharedTrials]]:
    """Two drivers that have looked."""
    with ExitStack() as stack:
        members = [stack.enter_context(Membership(store.storage, "s", say=print, timing=QUICK)) for _ in range(2)]
        one, other = (SharedTrials(store.storage, member, {}) for member in members)
        one.look([])
        other.look([])
        yield one, other


def test_a_trial_that_another_driver_has_is_not_claimed_and_its_retries_are(store: ResultStore) -> None:
    with two(store) as (one, other):
        assert (one.claim("t"), other.claim("t"), one.again("t", 2), other.claim("t")) == (1, None, 2, None)
        store.append("trials", [trial("t", 1, "lost")])
        assert other.look(["t"]) == ([], [])
        store.append("trials", [trial("t", 2)])
        assert other.look(["t"]) == (["t"], [])


def test_a_trial_that_ended_between_a_look_and_its_claim_does_not_run(store: ResultStore) -> None:
    with two(store) as (one, other):
        for trial_id, state in (("complete", "completed"), ("failed", "failed")):
            assert one.claim(trial_id) == 1
            store.append("trials", [trial(trial_id, 1, state)])
            one.forget({trial_id: 1})
            assert other.claim(trial_id) is None
        assert store.storage.subfolder("claims").files() == {}
        assert other.look(["complete", "failed"]) == (["complete", "failed"], [])


def test_a_trial_of_a_driver_that_left_goes_on_under_the_next_number(store: ResultStore) -> None:
    with Membership(store.storage, "s", say=print) as gone:
        claims = Claims(store.storage.subfolder(CLAIMS), gone)
        claims.refresh()
        assert claims.take("t", 3) == 3
    with two(store) as (one, other):
        assert one.look(["t"]) == ([], ["t"])
        other.look([])
        assert (one.claim("t"), other.claim("t")) == (4, None)


def test_a_driver_that_ends_a_trial_after_it_was_removed_leaves_the_claim_of_the_next_one(store: ResultStore) -> None:
    with Membership(store.storage, "s", say=print) as removed:
        late = SharedTrials(store.storage, removed, {})
        late.look([])
        assert late.claim("t") == 1
    with two(store) as (one, other):
        assert one.claim("t") == 2
        store.append("trials", [trial("t", 1, "failed")])
        late.forget({"t": 1})
        assert list(store.storage.subfolder("claims").files()) == ["t-000002.json"]
        assert other.look(["t"]) == ([], [])


def test_what_ended_before_a_launch_or_lost_rows_is_no_end_of_it(store: ResultStore) -> None:
    specs, rows = SPECS[:3], [trial(SPECS[n].trial_id, 1, "failed") for n in range(3)]
    store.append("trials", rows)
    with Membership(store.storage, "s", say=print) as member:
        shared = SharedTrials(store.storage, member, {specs[0].trial_id: 2}, {(specs[1].trial_id, 1)})
        shared.look([])
        assert [(end.spec, end.state, end.is_here) for end in shared.ends(specs)] == [(specs[2], State.FAILED, False)]


def test_a_trial_that_another_sweep_stopped_is_run_by_one_that_wants_its_end(store: ResultStore) -> None:
    with two(store) as (one, other):
        assert one.claim("t") == 1
        store.append("trials", [trial("t", 1, "pruned")])
        one.forget({"t": 1})
        assert other.look(["t"]) == (["t"], [])
        assert (other.claim("t"), one.claim("t")) == (2, None)


# --- Processes


@contextmanager
def driving(store: ResultStore, host: str) -> Iterator[subprocess.Popen[str]]:
    """A driver in a process of its own, as if on another machine."""
    words = [sys.executable, "-m", "tests.orchestrator.execution.sharing_driver", store.address, host, "0.4"]
    words += [str(spec.seed) for spec in SPECS]
    with subprocess.Popen(words, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if line.startswith(word))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_a_kill_and_a_stop_the_others_finish_and_no_finished_trial_runs_again(store: ResultStore) -> None:
    with ExitStack() as stack:
        killed, stopped, *others = (stack.enter_context(driving(store, f"node{n}")) for n in range(4))
        wait_for(killed, "ended")
        wait_for(killed, "began")
        killed.kill()
        wait_for(stopped, "began")
        stopped.send_signal(signal.SIGSTOP)
        said = [other.communicate()[0] for other in others]
        assert [other.returncode for other in others] == [0, 0]
        assert committed(store) == {spec.trial_id: 1 for spec in SPECS}
        stopped.send_signal(signal.SIGCONT)
        assert stopped.communicate()[0].splitlines()[-1:] == ["removed"]
        assert committed(store) == {spec.trial_id: 1 for spec in SPECS}
        second = [line for lines in said for line in lines.splitlines() if line.startswith("began")]
        assert sum(line.endswith(" 2") for line in second) >= 2  # what the two had
