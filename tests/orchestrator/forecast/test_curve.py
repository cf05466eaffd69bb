"""How a running trial will end: of real curves, of any curve, and where nothing is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.forecast.curve import Outlook, outlook
from orchestrator.forecast.curve_alike import Others
from orchestrator.forecast.curve_values import Curve
from orchestrator.forecast.figure import Figure
from tests.orchestrator.forecast.real_curves import CURVES, EPOCHS, ONE_MORE, cell_of

PLANNED = 9


def curve(*scores: float, every: float = 1.0) -> Curve:
    return Curve(tuple(every * (n + 1) for n in range(len(scores))), scores)


def known(found: Outlook | None) -> Outlook:
    assert found is not None
    return found


def others_of(name: str) -> Others:
    """The curves of all other cells."""
    return Others([c for other, c in CURVES.items() if cell_of(other) != cell_of(name)], PLANNED)


def scored(figures: Sequence[Figure], truth: Sequence[float]) -> tuple[float, float]:
    """Median absolute error, and how often the interval held."""
    errors = [abs(figure.median - true) for figure, true in zip(figures, truth, strict=True)]
    return float(np.median(errors)), float(np.mean([f.holds(t) for f, t in zip(figures, truth, strict=True)]))


# --- Real curves


def test_from_three_of_nine_epochs_others_tell_most_and_the_own_curve_more_than_none() -> None:
    early = {name: Curve(c.epochs[:3], c.scores[:3]) for name, c in CURVES.items()}
    best = [c.best for c in CURVES.values()]
    stays = float(np.median([c.best - early[name].best for name, c in CURVES.items()]))
    alone, held_alone = scored([known(outlook(c, PLANNED)).best for c in early.values()], best)
    beside, held = scored([known(outlook(c, PLANNED, others_of(name))).best for name, c in early.items()], best)
    assert beside < 0.85 * alone < 0.5 * stays
    assert beside < 0.025
    assert 0.7 <= held <= 0.97
    assert 0.7 <= held_alone <= 0.97


def test_from_seven_of_nine_epochs_the_end_is_known_to_half_a_point() -> None:
    early = {name: Curve(c.epochs[:7], c.scores[:7]) for name, c in CURVES.items()}
    found = [known(outlook(c, PLANNED, others_of(name))).best for name, c in early.items()]
    error, held = scored(found, [c.best for c in CURVES.values()])
    assert error < 0.005
    assert held >= 0.75


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_tenth_epoch_brought_is_told_from_nine(alone: bool) -> None:
    """The last increment, which a vanished learning rate made small, would say less."""
    found = [known(outlook(CURVES[name], PLANNED, () if alone else others_of(name))).more for name in ONE_MORE]
    told = [figure for figure in found if figure is not None]
    gains = list(ONE_MORE.values())
    _, held = scored(told, gains)
    wrong = np.mean([abs(figure.median - gain) for figure, gain in zip(told, gains, strict=True)])
    naive = np.mean([abs(CURVES[name].scores[-1] - CURVES[name].scores[-2] - gain) for name, gain in ONE_MORE.items()])
    assert wrong < 0.6 * naive
    assert held >= 0.7


# --- Any curve

scores = st.lists(st.floats(0, 1), min_size=1, max_size=30)
complete = st.lists(st.lists(st.floats(0, 1), min_size=9, max_size=9), max_size=12)


def figures(found: Outlook) -> list[Figure]:
    return [*found.path, found.best, *([found.more] if found.more else [])]


@given(scores, st.sampled_from([1.0, 0.5, 1 / 3, 1e-3]), st.integers(1, 40), complete, st.booleans())
def test_every_figure_is_a_number_inside_its_interval(
    own: list[float], every: float, planned: int, rest: list[list[float]], anneals: bool
) -> None:
    others = [Curve(tuple(planned * epoch / 9 for epoch in EPOCHS), tuple(one)) for one in rest]
    found = outlook(curve(*own, every=every), planned, others, anneals=anneals)
    for figure in figures(found) if found else []:
        assert all(map(math.isfinite, (figure.low, figure.median, figure.high)))
        assert figure.low <= figure.median <= figure.high


@given(scores, complete)
def test_the_best_is_at_least_what_was_reached_and_no_score_above_one(
    own: list[float], rest: list[list[float]]
) -> None:
    found = outlook(curve(*own), 30, [Curve(EPOCHS, tuple(one)) for one in rest])
    if found is not None:
        assert found.best.low >= max(own)
        assert max(figure.high for figure in (*found.path, found.best)) <= 1.0


exact = st.integers(0, 1024).map(lambda part: part / 1024)  # sums of such numbers are not rounded


@given(st.lists(exact, min_size=2, max_size=8), st.lists(st.lists(exact, min_size=9, max_size=9), max_size=12), exact)
def test_scores_that_are_all_higher_end_higher_by_as_much(
    own: list[float], rest: list[list[float]], shift: float
) -> None:
    def told(by: float) -> Outlook:
        others = [Curve(EPOCHS, tuple(score + by for score in one)) for one in rest]
        return known(outlook(curve(*(score + by for score in own)), PLANNED, others, ceiling=math.inf))

    here, there = told(0.0), told(shift)
    assert there.best.median == pytest.approx(here.best.median + shift, abs=1e-6)
    assert (there.more and there.more.median) == pytest.approx(here.more and here.more.median, abs=1e-6)


def test_a_curve_that_rises_goes_on_and_another_epoch_is_worth_something() -> None:
    found = known(outlook(curve(0.5, 0.6, 0.66, 0.7), PLANNED))
    assert 0.72 < found.best.median < 0.9
    assert found.more is not None
    assert found.more.median > 0.003


def test_a_curve_that_falls_keeps_its_best_and_ends_below_it() -> None:
    found = known(outlook(curve(0.70, 0.76, 0.75, 0.74, 0.73), PLANNED))
    assert found.last is not None
    assert found.last.median < 0.745
    assert found.best.median == pytest.approx(0.76, abs=0.003)


def test_a_constant_curve_stays_within_noise_and_another_epoch_is_worth_nothing() -> None:
    found = known(outlook(curve(*[0.1528] * 5), PLANNED))
    assert found.best.high < 0.1528 + 0.01
    assert found.more is not None
    assert abs(found.more.median) < 1e-3


def test_an_end_is_surer_the_nearer_it_is() -> None:
    whole = CURVES["none 0.0003 0.001 0"]
    early = (known(outlook(Curve(EPOCHS[:n], whole.scores[:n]), PLANNED)).best for n in (3, 5, 7, 8))
    widths = [figure.high - figure.low for figure in early]
    assert widths == sorted(widths, reverse=True)


# --- What is not known


def test_one_evaluation_alone_tells_nothing() -> None:
    assert outlook(curve(0.7), PLANNED) is None
    assert outlook(curve(0.7), PLANNED, [curve(*[0.8] * 9)] * 2) is None


def test_of_no_evaluation_nothing_is_told() -> None:
    assert outlook(Curve((), ()), PLANNED, list(CURVES.values())) is None


def test_one_evaluation_among_many_complete_curves_tells_the_end() -> None:
    name, whole = next(iter(CURVES.items()))
    found = known(outlook(Curve(EPOCHS[:1], whole.scores[:1]), PLANNED, others_of(name)))
    assert found.source == f"from {len(others_of(name))} other trials"
    assert found.epochs == EPOCHS[1:]


def test_curves_with_another_end_or_a_later_beginning_say_nothing() -> None:
    short = [Curve(EPOCHS[:5], (0.1, 0.2, 0.3, 0.4, 0.5))] * 9
    assert len(Others(short, PLANNED)) == 0
    late = Others([Curve((3.0, 9.0), (0.5, 0.9))] * 9, PLANNED)
    assert outlook(curve(0.7), PLANNED, late) is None


def test_of_a_complete_curve_only_one_epoch_more_is_told() -> None:
    found = known(outlook(CURVES["none 0.0003 0.001 0"], PLANNED))
    assert found.is_over
    assert found.last is None
    assert found.best.low == found.best.high == CURVES["none 0.0003 0.001 0"].best


def test_of_a_complete_curve_of_one_or_two_evaluations_one_more_is_not_known() -> None:
    assert known(outlook(curve(0.5), 1)).more is None
    assert known(outlook(curve(0.5, 0.6), 2)).more is None


@pytest.mark.parametrize(
    ("epochs", "values", "said"),
    [
        ((1.0,), (), "1 epochs, but 0 scores"),
        ((1.0, 1.0), (0.5, 0.6), "rise from above 0"),
        ((0.0,), (0.5,), "rise from above 0"),
        ((1.0,), (math.nan,), "finite"),
    ],
)
def test_what_is_no_curve_is_refused(epochs: tuple[float, ...], values: tuple[float, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Curve(epochs, values)
