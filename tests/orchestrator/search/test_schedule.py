"""Schedulers by themselves: who goes on, who waits, who stops; and what stands between them and a queue."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.limits import Limits
from orchestrator.execution.trial_queue import Attempt, TrialQueue
from orchestrator.execution.trial_source import Listed, Order, Verdict
from orchestrator.search.schedule import Asha
from orchestrator.sweeps.search_spec import ScheduleSpec
from tests.builders import make_record, make_spec
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State

SPECS = [make_spec(seed=seed) for seed in range(5)]
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def promoted_by(scheduler: Asha) -> str | None:
    """The cell that it promotes next."""
    if (cell := scheduler.best()) is not None:
        scheduler.promote(cell)
    return cell


@given(scores=SCORES, factor=st.integers(2, 5))
def test_asha_promotes_only_cells_of_the_best_share_at_that_time_and_none_twice(
    scores: list[float], factor: int
) -> None:
    asha = Asha(ScheduleSpec(kind="asha", factor=factor))
    promoted: list[str] = []
    for i, score in enumerate(scores):
        assert asha.until(str(i), "group", 100) == 1.0
        asha.reached(str(i), 0, score)
        while (cell := promoted_by(asha)) is not None:
            promoted.append(cell)
            better = sum(other > scores[int(cell)] for other in scores[: i + 1])
            assert better < (i + 1) // factor
    assert len(set(promoted)) == len(promoted) >= len(scores) // factor


@given(scores=SCORES)
def test_at_the_end_of_asha_something_has_run_to_its_end(scores: list[float]) -> None:
    asha, at_end = Asha(ScheduleSpec(kind="asha")), 0
    for i, score in enumerate(scores):
        asha.until(str(i), "group", 9)
        asha.reached(str(i), 0, score)
    asha.closed()
    levels = dict.fromkeys(map(str, range(len(scores))), 0)
    while (cell := promoted_by(asha)) is not None:
        levels[cell] += 1
        if asha.until(cell, "group", 9) is None:
            at_end += 1
        else:
            asha.reached(cell, levels[cell], scores[int(cell)])
    assert at_end >= 1


def test_cells_of_different_groups_are_not_ranked_against_each_other() -> None:
    asha = Asha(ScheduleSpec(kind="asha", factor=2))
    for cell, group, score in (("a", "x", 0.9), ("b", "x", 0.8), ("c", "y", 0.2), ("d", "y", 0.1)):
        asha.until(cell, group, 9)
        asha.reached(cell, 0, score)
    assert [promoted_by(asha), promoted_by(asha), promoted_by(asha)] == ["a", "c", None]


# --- Between a source and the drivers


def taken(queue: TrialQueue) -> Attempt:
    attempt = queue.take()
    assert attempt is not None
    return attempt


def test_a_bound_on_trials_ends_a_queue_before_its_source_and_lets_promoted_ones_go_on() -> None:
    class Pausing(Listed):
        """The first trial comes again at the end."""

        def next(self) -> Order | None:
            return super().next() or Order(SPECS[0])

    promoting, queue, seeds = TrialQueue(Pausing(SPECS[:2]), Limits(), most=2), bounded(3, most=2), list[int]()
    for _ in range(3):
        seeds.append(taken(promoting).spec.seed)
        promoting.ended(SPECS[seeds[-1]], State.PRUNED, None)
    assert seeds == [0, 1, 0]
    for _ in range(2):
        queue.ended(taken(queue).spec, State.COMPLETED, None)
    assert queue.take() is None
    assert (queue.is_over, queue.is_exhausted) == (True, False)
    single = bounded(1)
    assert not single.is_exhausted
    assert taken(single)
    assert single.is_exhausted
    assert bounded(0).is_exhausted


def bounded(n: int, most: int | None = None) -> TrialQueue:
    return TrialQueue(Listed(SPECS[:n]), Limits(), most=most)


class PausingSource(Listed):
    """Pauses every trial at its first evaluation and gives it again, to its end."""

    def __init__(self, specs: list[TrialSpec]) -> None:
        super().__init__(specs)
        self.heard: list[State] = []
        self._paused: list[TrialSpec] = []

    @property
    def is_over(self) -> bool:
        return super().is_over and not self._paused

    def next(self) -> Order | None:
        fresh = super().next()
        if fresh is not None:
            return Order(fresh.spec, 1.0)
        return Order(self._paused.pop()) if self._paused else None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        return Verdict.CONTINUE if record.last else Verdict.PAUSE

    def ended(self, spec: TrialSpec, state: State) -> None:
        self.heard.append(state)
        if state is State.PRUNED:
            self._paused.append(spec)


def test_a_paused_trial_goes_on_as_its_next_attempt_and_a_lost_one_keeps_where_it_pauses() -> None:
    source = PausingSource(SPECS[:1])
    queue = TrialQueue(source, Limits())
    first = taken(queue)
    assert (first.number, first.until) == (1, 1.0)
    assert queue.ended(first.spec, State.LOST, None) == 0.0
    again = taken(queue)
    assert (again.number, again.until) == (2, 1.0)
    assert queue.evaluated(again.spec, make_record(last=False)) is Verdict.PAUSE
    assert queue.ended(again.spec, State.PRUNED, "paused") == math.inf
    last = taken(queue)
    assert (last.number, last.until) == (3, None)
    assert not queue.is_over
    assert queue.ended(last.spec, State.COMPLETED, None) is None
    assert source.heard == [State.PRUNED, State.COMPLETED]
    assert queue.is_over
