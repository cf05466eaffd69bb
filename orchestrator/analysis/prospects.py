"""What a dev split and so many seeds can decide, before any of them is spent.

The interval is the one that will decide (`looks`), with the variances that losses had in FreezeBench: means over its
questions of 200 and 500 train examples and their depths worth having. Other encoders and tasks differ, so the figures
are rough; what a sweep's own losses say takes their place with the first answer (`further_seeds.data_to_decide`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from orchestrator.analysis.decision_plan import ERROR, FIRST_LOOK, PlannedLooks
from orchestrator.analysis.further_seeds import provable_tolerance
from orchestrator.analysis.looks import adjusted_tail
from orchestrator.analysis.two_way import LEAST_ALIKE, Estimate, lasting_share
from trials.tasks import TASKS

FAMILY = 3  # settings that are worth having
SEEDS = (5, 8, 10, 15, 20, 30)  # numbers that are proposed
MOST_EXAMPLES = 1_000_000  # a larger dev split is no advice to anybody


class LossVariances(NamedTuple):
    """Standard deviations of a paired loss, in points.

    Attributes:
        seeds: Of its mean over endless examples, from seed to seed.
        examples: Of its mean over endless seeds, from example to example; counted as documents where these are known.
        both: Of what differs from example to example in one seed and not in another.
    """

    seeds: float
    examples: float
    both: float


FREEZEBENCH = {
    "tags": LossVariances(0.65, 11.4, 7.35),
    "spans": LossVariances(3.86, 62.4, 50.1),
    "classes": LossVariances(0.90, 11.6, 33.2),
}
"""By what a task predicts; `tests/lab/calibration` makes them anew from the shipped trials."""


class Need(NamedTuple):
    """What decides within a tolerance."""

    examples: int
    seeds: int


def variances_of(task: str) -> LossVariances:
    """The variances of the FreezeBench tasks that it is most like: a task of texts is one of classes."""
    objective = TASKS[task]
    return FREEZEBENCH["classes" if objective.head == "text" else "spans" if "spans" in objective.outputs else "tags"]


def decidable_tolerance(
    variances: LossVariances,
    examples: int,
    seeds: int,
    power: float = 0.8,
    *,
    planned: int | None = None,
    folds: int = 0,
) -> float:
    """The smallest tolerance, in points, that a freeze which loses nothing is shown to be within, with this chance.

    Args:
        examples: Of dev, or of all folds together.
        planned: Seeds that were planned; None for these.
        folds: Of which each seed is scored on one; 0 where all have one dev split.
    """
    if examples < max(2, 2 * folds) or seeds < 2:
        return np.inf
    tail = adjusted_tail(FAMILY, LEAST_ALIKE * max(0.0, 1 - 2 / (seeds - 1)), ERROR)
    most = planned or seeds
    loss = expected_estimate(variances, examples, seeds, folds)
    return provable_tolerance(loss, PlannedLooks(min(FIRST_LOOK, most), most), tail, power)


def expected_estimate(variances: LossVariances, examples: int, seeds: int, folds: int = 0) -> Estimate:
    """The estimate of a freeze that loses nothing, with the variances that are expected; arguments as above."""
    d, n = seeds - 1, examples / max(folds, 1)
    both = variances.both**2 / (n * seeds)  # E of `two_way`, and Vi below
    v_s, v_i = variances.seeds**2 / seeds + both, variances.examples**2 / n
    variance = v_s + v_i
    if folds:  # each seed has examples of its own, until they come round again, and E is what their variance is
        times, rounds = 1 + seeds * float(lasting_share(np.array(folds))), np.bincount(np.arange(seeds) % folds)
        both, v_i = times * (both + v_i / seeds), both + v_i * ((rounds / seeds) ** 2).sum()
        v_s = times * variances.seeds**2 / seeds + both
        variance = v_s - both + v_i
    # As `two_way.moderate` would find it for settings that correlate as little as is reckoned with.
    pool_df = FAMILY * d / (1 + (FAMILY - 1) * LEAST_ALIKE**2)
    values = (0, variance, 1, v_s, both, v_s, 0, seeds, examples, folds, FAMILY, pool_df)
    loss = Estimate(*(np.array(float(value)) for value in values))
    return loss._replace(df=variance**2 / (loss.seeds_term() + v_i**2 / (examples - max(folds, 1))))


def growth_text(task: str, examples: int, planned: int, seeds: int) -> str:
    """What seeds beyond a plan cost in width: `with 8 seeds a freeze that loses nothing is shown to be within about 3.1
    points, 2.8 if all had been planned`.
    """
    grown, at_once = (decidable_tolerance(variances_of(task), examples, seeds, planned=n) for n in (planned, seeds))
    shown = f"a freeze that loses nothing is shown to be within about {grown:.2g} points"
    return f"with {seeds} seeds {shown}, {at_once:.2g} if all had been planned"


def needed_data(variances: LossVariances, tolerance: float, examples: int, seeds: int, folds: int = 0) -> Need | None:
    """What decides within a tolerance: more seeds alone, or the fewest examples to two digits with seeds that leave
    hardly more to be gained; None where nothing within reason does.
    """
    more = [seeds, *(n for n in SEEDS if n > seeds)]
    for n in more:
        if decidable_tolerance(variances, examples, n, folds=folds) <= tolerance:
            return Need(examples, n)
    fewest = {
        n: next((k for k in _numbers(examples) if decidable_tolerance(variances, k, n, folds=folds) <= tolerance), None)
        for n in more
    }
    reachable = {n: k for n, k in fewest.items() if k is not None}
    if not reachable:
        return None
    n = next(n for n, k in reachable.items() if k <= 1.5 * min(reachable.values()))
    return Need(reachable[n], n)


def _numbers(least: int) -> Iterator[int]:
    """Two-digit numbers above, a tenth apart."""
    n = float(least)
    while n < MOST_EXAMPLES:
        n *= 1.1
        step = 10 ** max(0, int(np.log10(n)) - 1)
        yield int(np.ceil(n / step) * step)
