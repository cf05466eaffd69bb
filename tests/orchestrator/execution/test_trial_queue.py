"""Each way to fail has its policy, and a queue gives every trial out until it is over."""

from __future__ import annotations

import errno
from collections.abc import Iterable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.limits import Limits
from orchestrator.execution.failures import failure
from orchestrator.execution.trial_queue import End, Listed, TrialQueue
from tests.builders import Clock, make_record, make_spec
from tests.loops import Unshared
from trials.errors import DataError, DivergedError, NoDeviceError, PreemptedError, StoreError
from trials.record import State
from trials.spec import TrialSpec

SPECS = [make_spec(seed=seed) for seed in range(8)]
FAILURES = [State.LOST, State.UNAVAILABLE, State.OUT_OF_MEMORY, State.DIVERGED, State.FAILED]


def queue(n: int = 1, clock: Clock | None = None, **limits: int) -> TrialQueue:
    return TrialQueue(Listed(SPECS[:n]), Limits(**limits), Unshared(), clock or Clock())


def fail(found: TrialQueue, state: State, error: str = "an error") -> float | None:
    attempt = found.take()
    assert attempt is not None
    return found.ended(End(attempt.spec, state, error))


def test_a_lost_trial_goes_on_at_once_before_all_others_as_its_next_attempt() -> None:
    found = queue(2)
    assert fail(found, State.LOST) == 0.0
    again = found.take()
    assert again is not None
    assert (again.spec, again.number) == (SPECS[0], 2)


def test_what_would_happen_again_or_is_lost_again_and_again_is_given_up_unless_it_was_evaluated_meanwhile() -> None:
    for state in (State.DIVERGED, State.FAILED):
        found = queue()
        assert fail(found, state) is None
        assert found.is_over
    lost = queue(lost=3)
    assert [fail(lost, State.LOST) for _ in range(4)] == [0.0, 0.0, 0.0, None]
    forgiven = queue(lost=1)
    for _ in range(5):
        assert fail(forgiven, State.LOST) == 0.0
        forgiven.evaluated(SPECS[0], make_record(last=False))


def test_without_memory_batches_are_taken_in_parts_down_to_single_examples() -> None:
    found, parts = queue(), []
    while (attempt := found.take()) is not None:
        parts.append(attempt.accumulation)
        found.ended(End(attempt.spec, State.OUT_OF_MEMORY, "too much"))
    assert parts == [1, 2, 4, 8, 16]
    assert SPECS[0].optim.batch_size == 16


def test_without_memory_that_it_shared_a_trial_comes_again_as_it_is() -> None:
    found, parts = queue(), []
    for relieved in (True, True, False, False):
        attempt = found.take()
        assert attempt is not None
        parts.append((attempt.number, attempt.accumulation))
        found.ended(End(attempt.spec, State.OUT_OF_MEMORY, "too much"), relieved=relieved)
    assert parts == [(1, 1), (2, 1), (3, 1), (4, 2)]


def test_what_does_not_answer_is_asked_again_after_longer_and_longer() -> None:
    clock = Clock()
    found, delays = queue(clock=clock, unavailable=3), []
    while (delay := fail(found, State.UNAVAILABLE)) is not None:
        delays.append(delay)
        assert found.take() is None
        assert not found.is_over
        clock.now += delay
    assert delays == [1.0, 2.0, 4.0]


def test_first_trials_that_all_fail_alike_break_the_sweep_and_other_failures_do_not() -> None:
    found = queue(8, alike=3)
    for n in range(3):
        assert found.broken is None, n
        fail(found, State.FAILED, "Traceback\nKeyError: 'x'")
    assert found.broken == "the first 3 trials all failed alike: KeyError: 'x'"
    lost = queue(8, alike=3, lost=0)
    for _ in range(3):
        fail(lost, State.LOST, "CUDA error: no kernel image is available")
    assert lost.broken is not None
    different = queue(8, alike=2)
    for n in range(6):
        fail(different, State.FAILED, f"error {n}")
    assert different.broken is None
    for other in (State.COMPLETED, State.DIVERGED):
        found = queue(8, alike=3)
        fail(found, other)  # a trial got through
        for _ in range(5):
            fail(found, State.FAILED)
        assert found.broken is None


@given(st.lists(st.sampled_from([State.COMPLETED, *FAILURES]), max_size=400), st.integers(1, 8))
def test_whatever_happens_the_queue_ends_and_no_attempt_has_a_number_twice(states: list[State], n: int) -> None:
    clock, seen = Clock(), set()
    found, outcomes = queue(n, clock), iter(states)
    while not found.is_over:
        attempt = found.take()
        if attempt is None:
            clock.now += 1
            continue
        assert (attempt.spec.trial_id, attempt.number) not in seen
        seen.add((attempt.spec.trial_id, attempt.number))
        found.ended(End(attempt.spec, next(outcomes, State.COMPLETED), "an error"))
    assert {trial_id for trial_id, _ in seen} == {spec.trial_id for spec in SPECS[:n]}


@pytest.mark.parametrize(("state", "runs"), [(State.PRUNED, True), (State.FAILED, False), (State.COMPLETED, False)])
def test_a_trial_that_another_sweep_stopped_runs_here_and_one_that_another_driver_ended_does_not(
    state: State, runs: bool
) -> None:
    class Others(Unshared):
        had: str | None = None

        def look(self, waiting: Iterable[str]) -> tuple[list[str], list[str]]:
            return list(waiting), []

        def claim(self, trial_id: str) -> int | None:
            is_had, self.had = self.had is None, trial_id
            return None if is_had else super().claim(trial_id)

        def end_of(self, spec: TrialSpec) -> End:
            return End(spec, state, is_here=False)

    found = TrialQueue(Listed(SPECS[:1]), Limits(), Others(), Clock())
    assert (found.take() is not None, [end.state for end in found.new_ends_elsewhere()]) == (runs, [state] * (not runs))
    assert found.is_over is not runs


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def handled(error: Exception, before: Exception) -> Exception:
    error.__context__ = before
    return error


def test_an_error_is_of_its_class_and_a_bug_keeps_its_traceback() -> None:
    capture = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    states = {
        RuntimeError("CUDA error: out of memory"): State.OUT_OF_MEMORY,
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"): State.OUT_OF_MEMORY,
        handled(capture, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")): State.OUT_OF_MEMORY,
        RuntimeError("CUDA error: an illegal memory access was encountered"): State.FAILED,
        RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"): State.LOST,
        RuntimeError("CUDA error: uncorrectable NVLink error detected during the execution"): State.LOST,
        RuntimeError("CUDA error: system not yet initialized"): State.LOST,
        NoDeviceError("this trial was given 1 of a GPU, but torch sees none"): State.FAILED,
        DivergedError("nan"): State.DIVERGED,
        PreemptedError("asked to go"): State.LOST,
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"): State.OUT_OF_MEMORY,
        ConnectionResetError(): State.UNAVAILABLE,
        OSError(errno.ENOSPC, "No space left on device"): State.UNAVAILABLE,
        caused(StoreError("cannot be written"), OSError(errno.EIO, "I/O error")): State.UNAVAILABLE,
        caused(DataError("absent"), FileNotFoundError(errno.ENOENT, "x")): State.FAILED,
        RuntimeError("shapes"): State.FAILED,
    }
    assert {error: failure(error)[0] for error in states} == states
    with pytest.raises(KeyError) as raised:
        raise KeyError("x")
    assert "Traceback" in failure(raised.value)[1]
    assert failure(DataError("train.conllu:3: broken"))[1] == "train.conllu:3: broken"
