"""Freezing rules: what each freezes after which history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.freeze.gradient_norm import GradientNorm
from trials.freeze.plasticity import Plasticity
from trials.freeze.rules import FREEZING_RULES, FreezingRule, LayerHistory, depths_after, new_rule
from trials.freeze.schedule import Schedule

RULES: dict[str, FreezingRule] = {
    "gradient_norm": GradientNorm(),
    "plasticity": Plasticity(),
    "schedule": Schedule(depths=(0, 2, 3)),
}


def test_every_registered_rule_is_tested_here() -> None:
    assert sorted(RULES) == list(FREEZING_RULES)
    assert {rule.name for rule in RULES.values()} == set(RULES)


@pytest.mark.parametrize("name", RULES)
@given(rows=st.lists(st.tuples(*[st.floats(0, 1e3)] * 5), max_size=12))
def test_depth_never_falls_nor_leaves_the_model_whatever_is_measured(name: str, rows: list[tuple[float, ...]]) -> None:
    depths = depths_after(RULES[name], 5, rows)
    assert depths == sorted(depths)
    assert len(depths) == len(rows) + 1
    assert depths[0] == RULES[name].first_depth
    assert depths[-1] <= 5


def test_a_schedule_follows_its_depths() -> None:
    assert depths_after(Schedule(depths=(0, 2, 3)), 6, [()] * 2) == [0, 2, 3]


def gradient_depth(*rows: tuple[float | None, ...], depth: int = 0, percentile: float = 50) -> int:
    return GradientNorm(percentile=percentile).depth(LayerHistory(len(rows[0]), depth, rows))


def test_gradients_freeze_every_layer_below_the_first_whose_change_reaches_the_median() -> None:
    # Changes: 10 %, 20 %, 60 %, 50 %; their median is 35 %.
    before, now = (10.0, 10.0, 10.0, 10.0), (9.0, 12.0, 4.0, 5.0)
    assert gradient_depth(before, now) == 2
    assert gradient_depth(before, now, percentile=0) == 0
    assert gradient_depth((1.0, 1.0, 1.0, 1.0), before, now) == 2  # only the last two intervals count


def test_gradients_of_one_interval_or_of_the_last_layer_freeze_nothing() -> None:
    assert gradient_depth((10.0, 10.0)) == 0
    assert gradient_depth((None, None, 10.0), (None, None, 3.0), depth=2) == 2


def test_a_layer_without_a_gradient_has_settled_and_one_that_gets_one_has_not() -> None:
    assert gradient_depth((0.0, 0.0, 1.0), (0.0, 2.0, 1.0), percentile=60) == 1


def plasticity_depth(*layers: list[float], depth: int = 0) -> int:
    return Plasticity(window=2, patience=2, tolerance=0.2).depth(
        LayerHistory(len(layers), depth, list(zip(*layers, strict=True)))
    )


MOVING, STALLED = [1.0, 2.0, 3.0, 4.0, 5.0], [4.0, 5.0, 5.0, 5.0, 5.0]


def test_plasticity_freezes_the_lowest_layers_whose_average_has_stalled() -> None:
    assert plasticity_depth(STALLED, STALLED, MOVING, STALLED) == 2
    assert plasticity_depth(MOVING, STALLED) == 0
    assert plasticity_depth(STALLED, STALLED) == 2


def test_plasticity_waits_for_as_many_small_slopes_as_its_patience() -> None:
    depths = [plasticity_depth(STALLED[:n]) for n in range(1, 6)]
    assert depths == [0, 0, 0, 1, 1]


@each(
    "value, message",
    [
        ("gradient_nrm", "did you mean 'gradient_norm'"),
        ({"name": "gradient_norm", "percntile": 3}, "did you mean 'percentile'"),
        ({"name": "gradient_norm", "percentile": 300}, "percentile must be at most 100"),
        ({"name": "schedule"}, "depths is missing"),
        ({"name": "schedule", "depths": [2, 1]}, r"\[2, 1\] unfreezes layers; `thaw_every` does that"),
        (3, "a rule is a name or"),
    ],
)
def test_a_wrong_rule_is_refused_by_the_name_of_what_is_wrong(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new_rule(value)


def test_a_label_names_the_rule_and_what_is_not_the_default() -> None:
    assert GradientNorm().label == "gradient norm"
    assert GradientNorm(percentile=75).label == "gradient norm, percentile 75"
    assert Schedule(depths=(0, 2, 4)).label == "schedule, depths 0-2-4"
