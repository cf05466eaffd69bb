"""The curves of a running sweep, as the live display hears of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.forecast.curve import outlook
from orchestrator.forecast.live_curves import LiveCurves, expected_best
from tests.builders import make_spec
from tests.orchestrator.forecast.real_curves import CURVES
from trials.spec import TrialSpec


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
