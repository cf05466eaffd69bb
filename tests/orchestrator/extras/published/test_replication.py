"""The verdict on a published number: by hand, and its error rates by simulation."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from orchestrator.extras.published.replication import Runs, replication
from tests.examples import each

OURS = Runs(5, 0.96, 0.96, 0.002)
SAMPLES = 1500
THREE_SIGMA = 3 * math.sqrt(0.025 * 0.975 / SAMPLES)  # of a rate of 2.5 %


def one(mean: float, n: int = 1, std: float | None = None) -> Runs:
    return Runs(n, mean, mean, std)


def test_without_their_spread_it_is_the_prediction_interval_of_further_runs_of_ours() -> None:
    found = replication(OURS, one(0.961), margin=0.01)
    half = stats.t.ppf(0.975, 4) * 0.002 * math.sqrt(1 / 5 + 1)
    assert (found.low, found.high) == pytest.approx((0.96 - half, 0.96 + half))
    assert found.verdict == "reproduced"


def test_with_their_spread_it_is_welchs() -> None:
    found = replication(OURS, one(0.964, 3, 0.01), margin=0.01)
    ours, theirs = 0.002**2 / 5, 0.01**2 / 3
    df = (ours + theirs) ** 2 / (ours**2 / 4 + theirs**2 / 2)
    assert found.low is not None
    assert 0.96 - found.low == pytest.approx(stats.t.ppf(0.975, df) * math.sqrt(ours + theirs))
    assert found.verdict == "cannot tell"
    assert found.why


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [(0.95, "cannot tell"), (0.94, "not reproduced"), (0.977, "not reproduced"), (0.961, "reproduced")],
)
def test_the_verdict_follows_from_the_interval_and_the_margin_and_a_range_is_reproduced_from_either_end(
    theirs: float, verdict: str
) -> None:
    assert replication(OURS, one(theirs), margin=0.01).verdict == verdict
    assert replication(OURS, Runs(1, 0.95, 0.955, None), margin=0.012).verdict == "reproduced"
    assert replication(OURS, Runs(1, 0.965, 0.97, None), margin=0.012).verdict == "reproduced"


def test_one_run_of_ours_is_judged_by_their_spread_or_not_at_all() -> None:
    ours = Runs(1, 0.96, 0.96)
    assert replication(ours, one(0.961, 5, 0.001), margin=0.01).verdict == "reproduced"
    alone = replication(ours, one(0.96), margin=0.01)
    assert (alone.verdict, alone.low, alone.why) == (
        "cannot tell", None, "a single run on each side: no spread to judge by",
    )  # fmt: skip


def test_runs_that_all_end_alike_are_judged_within_the_rounding() -> None:
    alike = Runs(5, 0.691, 0.691, 0.0)
    found = replication(alike, one(0.691, 5, 0.0), margin=0.01, step=0.001)
    assert found.low is not None
    assert 0 < 0.691 - found.low < 0.001
    assert found.verdict == "reproduced"


def test_a_saved_share_is_judged_on_the_log_scale() -> None:
    found = replication(Runs(4, 0.9, 0.9, 1.5), one(0.9), margin=0.05, is_saving=True)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.9 < found.high < 1


@pytest.mark.parametrize("wrong", [Runs(0, 0.5, 0.5), OURS])
def test_no_run_or_no_margin_is_an_error(wrong: Runs) -> None:
    with pytest.raises(ValueError, match="all must be positive"):
        replication(wrong, one(0.5), margin=0.01 if wrong.n == 0 else 0.0)


@each("n, m, known", [(3, 1, False), (5, 1, False), (5, 5, True), (10, 5, True)])
@each("shift", [-1.0, 1.0])
def test_either_verdict_errs_in_a_fortieth_at_the_margin(n: int, m: int, known: bool, shift: float) -> None:
    rng = np.random.default_rng([n, m, int(shift) + 1])
    ours, theirs = 0.3 * rng.standard_normal((SAMPLES, n)), shift + 0.3 * rng.standard_normal((SAMPLES, m))
    verdicts = Counter(
        replication(
            Runs(n, x.mean(), x.mean(), x.std(ddof=1)), one(y.mean(), m, y.std(ddof=1) if known else None), margin=1.0
        ).verdict
        for x, y in zip(ours, theirs, strict=True)
    )
    assert verdicts["reproduced"] / SAMPLES < 0.025 + THREE_SIGMA
    assert verdicts["not reproduced"] / SAMPLES < 0.025 + THREE_SIGMA
