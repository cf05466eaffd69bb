"""The curves and the pace of a running sweep, as the live display hears of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from orchestrator.forecast.curve import outlook
from orchestrator.forecast.live_curves import LiveCurves, expected_best
from orchestrator.forecast.pace import Pace
from tests.builders import make_record, make_spec
from tests.orchestrator.forecast.real_curves import CURVES
from trials.spec import TrialSpec

FROZEN = {"strategy": "first_k", "layers": (0, 1, 2, 3, 4, 5), "embeddings": True}


def spec_of(seed: int, epochs: int = 9, **changes: object) -> TrialSpec:
    return make_spec(**({"seed": seed, "optim": {"epochs": epochs}} | changes))


def tell(watched: LiveCurves, spec: TrialSpec, scores: Sequence[float]) -> None:
    for epoch, score in enumerate(scores, start=1):
        watched.evaluated(spec, float(epoch), score)


def test_complete_curves_of_the_group_tell_of_the_running_one() -> None:
    watched, running, (first, *rest) = LiveCurves(), spec_of(99), list(CURVES.values())
    for seed, curve in enumerate(rest):
        tell(watched, spec_of(seed), curve.scores)
        watched.completed(spec_of(seed))
    tell(watched, running, first.scores[:3])
    found = watched.outlook(running)
    assert found is not None
    assert found.source == f"from its own curve and {len(rest)} other trials"
    assert expected_best(found).startswith(f"expected best {100 * found.best.median:.1f} ± ")


def test_curves_of_another_group_or_other_epochs_are_left_out() -> None:
    watched, running = LiveCurves(), spec_of(99)
    for other in (
        spec_of(1, train_size=100),
        spec_of(1, epochs=3),
        spec_of(1, optim={"epochs": 9, "schedule": "constant"}),
    ):
        tell(watched, other, (0.5, 0.6, 0.7) * 3)
        watched.completed(other)
    tell(watched, running, (0.5, 0.6))
    found = watched.outlook(running)
    assert found is not None
    assert found.source == "from its own curve"


def test_what_was_told_once_is_not_computed_again() -> None:
    watched, running = LiveCurves(), spec_of(0)
    tell(watched, running, (0.5, 0.6))
    first = watched.outlook(running)
    assert watched.outlook(running) is first
    watched.evaluated(running, 3.0, 0.65)
    assert watched.outlook(running) not in (first, None)


def test_an_attempt_anew_begins_its_curve_anew() -> None:
    watched, running = LiveCurves(), spec_of(0)
    tell(watched, running, (0.5, 0.6))
    watched.started(running)
    assert watched.outlook(running) is None
    watched.evaluated(running, 1.0, 0.5)
    assert expected_best(watched.outlook(running)) == ""


def test_a_score_that_is_no_number_is_left_out() -> None:
    watched, running = LiveCurves(), spec_of(0)
    tell(watched, running, (0.5, math.nan, 0.6))
    assert watched.outlook(running) is not None


def test_of_a_complete_trial_no_end_is_told() -> None:
    assert expected_best(outlook(next(iter(CURVES.values())), 9)) == ""


# --- Pace


def run(pace: Pace, spec: TrialSpec, epoch_s: float, epochs: int | None = None) -> None:
    for epoch in range(1, (epochs or spec.optim.epochs) + 1):
        pace.evaluated(spec, make_record(epoch=float(epoch), setup_s=0.0, prefix_s=0.0, train_s=epoch_s, eval_s=0.0))


def test_before_any_has_ended_work_is_epochs_times_sentences() -> None:
    small, large = spec_of(0, train_size=100), spec_of(0, train_size=300)
    pace = Pace([small, large])
    run(pace, small, 1.0)
    assert pace.share_done() == pytest.approx(0.25)


def test_a_frozen_cell_counts_by_its_own_pace_once_it_is_known() -> None:
    slow, fast, later = spec_of(0), spec_of(0, freeze=FROZEN), spec_of(1, freeze=FROZEN)
    pace = Pace([slow, fast, later])
    for spec, seconds in ((slow, 10.0), (fast, 1.0)):
        run(pace, spec, seconds)
        pace.ended(spec, is_complete=True)
    assert pace.share_done() == pytest.approx(11 / 12)


def test_a_trial_that_failed_is_over_but_tells_no_pace() -> None:
    one, other = spec_of(0), spec_of(1)
    pace = Pace([one, other])
    run(pace, one, 100.0, epochs=1)
    pace.ended(one, is_complete=False)
    assert pace.share_done() == pytest.approx(0.5)


def test_what_is_left_of_a_trial_is_told_by_its_own_epochs() -> None:
    spec = spec_of(0)
    pace = Pace([spec])
    assert pace.seconds_left(spec) is None
    run(pace, spec, 2.0, epochs=3)
    assert pace.seconds_left(spec) == pytest.approx(12.0)
    pace.forget(spec)
    assert pace.seconds_left(spec) is None


def test_nothing_to_run_is_done() -> None:
    assert Pace([]).share_done() == 1.0
