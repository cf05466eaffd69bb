"""How often intervals and verdicts are right in a world, and what Student's intervals over seeds alone do there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from orchestrator.analysis.collapse import collapses
from orchestrator.analysis.looks import PlannedLooks, tails
from orchestrator.analysis.moments import moments, t_ends
from orchestrator.analysis.simultaneous import simultaneous
from orchestrator.analysis.two_way import DECIDING, ROUNDING, ends, estimate
from tests.lab.calibration.worlds import COLLAPSE, Classes, Floats, Words

World = Words | Classes
TOLERANCE = 0.01  # one point
LOOKS = PlannedLooks(3, 10)
TAIL = 0.025
BATCH = 200  # sweeps drawn at a time
MOST = 10  # seeds drawn; fewer are the first of them


class Rates(NamedTuple):
    """Shares of sweeps, and widths in points.

    Attributes:
        n: Seeds of each sweep; 0 for looks at every number of them.
        covered: The interval holds the true loss; with looks, at every look.
        wrong: A loss above the tolerance is ruled out where the true loss is just above it.
        power: It is ruled out where the true loss is a point less than the tolerance.
        width: Median width; with looks, that of the last.
        seeds: Mean seeds until a decision at that power, or the last look.
    """

    n: int
    covered: float
    wrong: float
    power: float
    width: float
    seeds: float


class Measured(NamedTuple):
    """Of one world: rates for each number of seeds and for looks; `over_seeds` are the same over seeds alone."""

    two_way: tuple[Rates, ...]
    over_seeds: tuple[Rates, ...]


def measure(world: World, sweeps: int, seed: int, sizes: tuple[int, ...] = (3, 5, 10)) -> Measured:
    """Rates of one setting for fixed numbers of seeds, and for looking at every number from 3 to 10.

    Runs that collapsed are left out, and the truth is that of those which did not, as the sentence says.
    """
    rng = np.random.default_rng(seed)
    batches = []
    for start in range(0, sweeps, BATCH):
        losses, collapsed = world.draw(rng, min(BATCH, sweeps - start), MOST)
        batches.append(_of_batch(losses[:, 0], collapsed[:, 0]))
    low, high, old_low, old_high = (np.concatenate(each, axis=-1) for each in zip(*batches, strict=True))
    first = LOOKS.first
    two_way = [_rates(n, low[0, n - first][None], high[0, n - first][None], n, n) for n in sizes]
    two_way.append(_rates(0, low[1], high[1], first, MOST))
    over_seeds = [_rates(n, old_low[n - first][None], old_high[n - first][None], n, n) for n in sizes]
    over_seeds.append(_rates(0, old_low, old_high, first, MOST))
    return Measured(tuple(two_way), tuple(over_seeds))


def _of_batch(losses: Floats, collapsed: np.ndarray) -> tuple[Floats, Floats, Floats, Floats]:
    """Ends (for one look or many, looks, sweeps) of two-way intervals, and (looks, sweeps) of those over seeds."""
    low, high, old_low, old_high = [], [], [], []
    for n in range(LOOKS.first, MOST + 1):
        fixed, looked, old = (np.full((2, len(losses)), np.nan) for _ in range(3))
        kept = (~collapsed[:, :n]).sum(axis=1)
        for count in np.unique(kept[kept >= 2]):
            at = kept == count
            order = np.argsort(collapsed[at, :n], axis=1, kind="stable")[:, :count]
            values = np.take_along_axis(losses[at], order[..., None], axis=1)
            of = estimate(values)
            fixed[:, at] = ends(of, TAIL)
            # PlannedLooks are counted by the seeds that were run, whatever became of them.
            looked[:, at] = ends(of, tails(of._replace(n_seeds=np.full(len(values), float(n))), LOOKS, TAIL), DECIDING)
            old[:, at] = _over_seeds(values.mean(axis=-1))
        low.append(np.stack([fixed[0], looked[0]]))
        high.append(np.stack([fixed[1], looked[1]]))
        old_low.append(old[0])
        old_high.append(old[1])
    return np.stack(low, axis=1), np.stack(high, axis=1), np.stack(old_low), np.stack(old_high)


def _over_seeds(values: Floats) -> tuple[Floats, Floats]:
    """Ends of Student's interval over seeds alone, of (sweeps, seeds)."""
    sweeps, n = values.shape
    m = moments(values.ravel(), np.repeat(np.arange(sweeps), n), sweeps)
    low, high = t_ends(m, 1 - 2 * TAIL)
    return np.where(m.std > 0, low, np.nan), np.where(m.std > 0, high, np.nan)


def _rates(n: int, low: Floats, high: Floats, first: int, last: int) -> Rates:
    """Rates from the ends (looks, sweeps) of intervals around a true loss of 0."""
    missed = (low > ROUNDING) | (high < -ROUNDING)
    shown = high <= TOLERANCE
    used = np.where(shown.any(axis=0), first + shown.argmax(axis=0), last)
    return Rates(
        n=n,
        covered=float(1 - missed.any(axis=0).mean()),
        wrong=float((high < -ROUNDING).any(axis=0).mean()),
        power=float(shown.any(axis=0).mean()),
        width=float(100 * np.nanmedian(high[-1] - low[-1])),
        seeds=float(used.mean()),
    )


class Family(NamedTuple):
    """Of several settings at once, all with one true loss: shares of sweeps.

    Attributes:
        wrong: Any setting is shown to lose at most the tolerance where the true losses are just above it.
        power: A setting is shown, in the mean over them, where the true loss is a point less.
        wrong_in_order, power_in_order: The same where the settings are tested in order.
    """

    wrong: float
    power: float
    wrong_in_order: float
    power_in_order: float


def measure_family(world: Words, sweeps: int, seed: int, looks: PlannedLooks | None, n_seeds: int = 5) -> Family:
    """Rates of simultaneous intervals: at `n_seeds`, or at every look."""
    losses, _ = world.draw(np.random.default_rng(seed), sweeps, looks.most if looks else n_seeds)
    sizes = range(looks.first, looks.most + 1) if looks else [n_seeds]
    found = np.zeros((4, sweeps, world.settings), dtype=bool)
    for sweep in range(sweeps):
        for n in sizes:
            each = [one[:n] for one in losses[sweep]]
            for place, in_order in ((0, False), (2, True)):
                for row, limit in ((place, -2 * ROUNDING), (place + 1, TOLERANCE)):
                    verdicts = simultaneous(each, limit, looks=looks, in_order=in_order).verdicts
                    found[row, sweep] |= np.array(verdicts) == "shown to lose at most the tolerance"
    any_wrong, shown_share = found[::2].any(axis=2).mean(axis=1), found[1::2].mean(axis=(1, 2))
    return Family(*map(float, (any_wrong[0], shown_share[0], any_wrong[1], shown_share[1])))


def bound_holds(sweeps: int, seed: int, n_seeds: int) -> float:
    """Share of sweeps whose bound on collapses is at least their true share."""
    runs = np.random.default_rng(seed).random((sweeps, n_seeds)) < COLLAPSE
    return float(np.mean([collapses(each).possible >= COLLAPSE for each in runs]))
