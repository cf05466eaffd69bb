"""The time left of a sweep and of its trials, by a clock that the tests set."""

from __future__ import annotations

import pytest

from orchestrator.execution.trial_queue import Chances
from orchestrator.forecast.pace import Pace
from tests.builders import make_record, make_spec
from trials.spec import TrialSpec

FROZEN = {"strategy": "first_k", "layers": (0, 1, 2, 3, 4, 5), "embeddings": True}


def spec_of(seed: int, epochs: int = 9, **changes: object) -> TrialSpec:
    return make_spec(**({"seed": seed, "optim": {"epochs": epochs}} | changes))


def run(pace: Pace, spec: TrialSpec, epoch_s: float, epochs: int | None = None, *, since: float = 0.0) -> None:
    """Evaluate a trial after each of its epochs, the first of which begins at `since`."""
    for epoch in range(1, (epochs or spec.optim.epochs) + 1):
        record = make_record(epoch=float(epoch), setup_s=0.0, prefix_s=0.0, train_s=epoch_s, eval_s=0.0)
        pace.add_evaluation(spec, record, since + epoch * epoch_s)


def run_whole(pace: Pace, spec: TrialSpec, epoch_s: float, *, since: float = 0.0) -> None:
    pace.add_start(spec, since)
    run(pace, spec, epoch_s, since=since)
    pace.add_end(spec, is_complete=True)


def test_what_is_frozen_is_expected_to_be_faster_before_it_has_been_timed() -> None:
    """The baseline comes first. By its pace alone, the frozen trials would take as long: 80 s."""
    slow, *frozen = spec_of(0), *(spec_of(seed, freeze=FROZEN, frozen_dropout=False) for seed in range(8))
    pace = Pace([slow, *frozen])
    run_whole(pace, slow, 10.0 / 9)
    left = pace.seconds_to_end(10.0)
    assert left is not None
    assert 3.0 < left < 20.0


def test_a_search_states_what_it_is_likely_to_run_and_the_most_that_it_may() -> None:
    """Ten trials of 90 s wait: two will run, two more with a chance of a half, and the budget is five."""
    first, *others = (spec_of(seed) for seed in range(11))
    pace = Pace([first, *others])
    run_whole(pace, first, 10.0)
    pace.weigh(Chances(list(zip(others, (1.0, 1.0, 0.5, 0.5, *[0.0] * 6), strict=True)), at_most=5))
    assert pace.time_left(90.0) == "4 min 30 s, at most 7 min 30 s"
    pace.likely, pace.most = None, 1.0  # a schedule: which trials go on is unknown
    assert pace.time_left(90.0) == "at most 15 min 0 s"


def test_what_is_left_of_a_trial_is_told_by_its_own_epochs() -> None:
    spec = spec_of(0)
    pace = Pace([spec])
    assert pace.seconds_left(spec, 0.0) is None
    run(pace, spec, 2.0, epochs=3)
    assert pace.seconds_left(spec, 6.0) == pytest.approx(12.0)
    assert pace.seconds_left(spec, 7.5) == pytest.approx(10.5)
    pace.forget(spec)
    assert pace.seconds_left(spec, 8.0) is None


def test_a_long_last_trial_is_awaited_although_others_were_short() -> None:
    """Eight workers have ended seven short trials; the mean of what ran says that little is left."""
    short, long = [spec_of(seed, freeze=FROZEN) for seed in range(7)], spec_of(8)
    pace = Pace([*short, long])
    for spec in (*short, long):
        pace.add_start(spec, 0.0)
    for spec in short:
        run(pace, spec, 1.0)
        pace.add_end(spec, is_complete=True)
    run(pace, long, 100.0, epochs=2)
    assert pace.seconds_to_end(200.0) == pytest.approx(700.0)


def test_when_a_trial_has_ended_its_worker_counts_until_the_next_one_which_counts_by_its_kind() -> None:
    first, second = spec_of(0), spec_of(1)
    pace = Pace([first, second])
    run_whole(pace, first, 10.0)
    assert pace.seconds_to_end(90.0) == pytest.approx(90.0)
    pace.add_start(second, 90.0)
    assert pace.seconds_to_end(94.0) == pytest.approx(86.0)
    assert pace.seconds_to_end(500.0) == pytest.approx(80.0)  # its first evaluation has not come
    run(pace, second, 10.0, since=500.0)
    pace.add_end(second, is_complete=True)
    assert pace.seconds_to_end(590.0) == 0.0


def test_rows_of_a_store_give_the_end_that_the_events_gave() -> None:
    """A store knows neither starts nor trials in set-up."""
    specs = [spec_of(seed) for seed in range(4)]
    events, rows = Pace(specs), Pace(specs)
    for spec in specs[:2]:
        run_whole(events, spec, 10.0)
        rows.add_stored(spec, 9.0, 90.0, is_complete=True)
    for spec in specs[2:]:
        events.add_start(spec, 90.0)
        run(events, spec, 10.0, epochs=3, since=90.0)
        rows.add_running(spec, 3.0, 30.0, 120.0)
    assert rows.seconds_to_end(125.0) == events.seconds_to_end(125.0) == pytest.approx(55.0)


def test_without_an_evaluation_there_is_no_estimate() -> None:
    pace = Pace([spec_of(0)])
    assert pace.seconds_to_end(5.0) is None
    pace.add_start(spec_of(0), 5.0)
    assert pace.seconds_to_end(10.0) is None
    pace.add_end(spec_of(0), is_complete=False)
    assert pace.seconds_to_end(20.0) is None
