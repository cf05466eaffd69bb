"""The intervals that decide, which hold for all settings together and at every look.

**Looks.** Adding seeds until an interval excludes a value raises the error rate above that of a single look. So the
error is spent over the looks (K. Lan and D. DeMets, "Discrete Sequential Boundaries for Clinical Trials", Biometrika 70
(1983), 659-663). The seeds that a sweep declares are its plan. On them `KEPT` of the error is spent, in proportion to
the third power of the share of them that has run (J. Kim and D. DeMets, Biometrika 74 (1987), 149-154): little at
three seeds of ten, all of it at the planned number. The rest is for seeds beyond the plan: with I the information,
`1 - I(planned) / I(now)` times the rest is spent by then, so that no number of further looks spends more than the rest.

Information is the reciprocal of the mean's variance. More seeds shrink their own part of it; the sentences' part stays.
With w the seeds' share of the variance at n seeds, the mean at m seeds has (w n / m + 1 - w) times the present one.
The covariance of the means of m and of more seeds is the variance of the later one, with sentences as without, so the
critical values are those of Brownian motion at the times of the information (P. Armitage, C. McPherson and B. Rowe,
"Repeated Significance Tests on Accumulating Data", JRSS A 132 (1969), 235-244). They are normal; their tails are then
taken with the degrees of freedom of `two_way` (C. Jennison and B. Turnbull, "Group Sequential Methods" (2000), section
11.5), and its guard against skewed losses. The share is that of the present look, at its 95 % bound, so that an
interval depends only on the values and the plan. With folds it counts as 1, as further seeds bring further items.

**Families.** Every verdict on a loss is read off its interval, and every surface draws it: whether the loss is within a
tolerance, beyond it, or differs from 0 at all. Each end is wrong, for any setting of the family at any look, with
chance `error` at most: a recommendation can be wrong on one side only, so it spends the whole error there. As intervals
hold jointly whatever the tolerance, a tolerance may also be chosen once they are known ("what each tolerance buys").

All settings get the same chance beyond each end, so small that with chance 1 - `error` all the ends on one side are
right: from the largest of correlated normal values, carried to each setting's own degrees of freedom by its tail (a
Gaussian copula, as in T. Hothorn, F. Bretz and P. Westfall, "Simultaneous Inference in General Parametric Models",
Biometrical Journal 50 (2008), 346-363). Settings share the baseline's runs and the sentences, so their losses are
correlated, and the correction is milder than Bonferroni's or Sidak's, which is what is left at a correlation of 0. One
correlation stands for all pairs, their mean: it is estimated two-way like the variance, and what it owes to seeds is
multiplied by 1 - 2 / (n_seeds - 1), as three seeds tell nothing about a correlation. Settings of a family share their
variance over seeds as well (`two_way.moderate`).

Testing in a fixed order, from the least frozen to the most, would need no correction, but a setting that stays
undecided would block all later ones, and the intervals would hold for one tolerance only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from orchestrator.analysis import two_way
from orchestrator.analysis.decision_plan import ERROR, PlannedLooks
from orchestrator.analysis.rows import ROUNDING, Floats
from orchestrator.analysis.two_way import (
    Estimate,
    Folds,
    Sample,
    estimate,
    estimates,
    moderate,
    seed_correlation,
    seed_means,
)
from orchestrator.config.quantities import amount

SPENDING = 3.0  # exponent of the share of the planned seeds
KEPT = 0.8  # share of the error that is spent by the planned number of seeds; the rest is for whoever goes on
_BOUND = 0.95  # level of the bound of the seeds' share
_SAME = 1 / 200  # a look that adds a smaller share of the information repeats the look before it
_SHARES = 50  # the seeds' share at the planned number is rounded up to this grid
_FARTHEST = 8.0  # standard deviations
_NODES = np.polynomial.legendre.leggauss(128)  # tails are right to 2e-9 of themselves


def tails(loss: Estimate, looks: PlannedLooks, tail: float, n_run: Floats | None = None) -> Floats:
    """(settings,) chance beyond each end that comes to `tail` over all looks together, for `two_way.ends`.

    0 (ends at infinity) before the first look; NaN without a variance. Looks are counted by `n_run`, or by the seeds of
    the estimate.
    """
    share = loss.share_bound(_BOUND)
    share = np.where((loss.folds > 0) & (share >= 0), 1.0, share)  # every seed brings items of its own
    n, share = np.broadcast_arrays(loss.n_seeds if n_run is None else n_run, share)
    chances = np.full(n.shape, np.nan)
    at_plan = share * n / looks.planned
    with np.errstate(invalid="ignore"):
        grid = np.ceil(_SHARES * at_plan / (at_plan + 1 - share) - ROUNDING)
    for seeds, step in {*zip(n.ravel().tolist(), grid.ravel().tolist(), strict=True)}:
        if np.isfinite(step):
            chances[(n == seeds) & (grid == step)] = _tail(looks, int(seeds), int(step), tail)
    return chances


def _tail(looks: PlannedLooks, n: int, step: int, tail: float) -> float:
    """The chance beyond an end at `n` seeds, where the seeds' share at the planned number is `step` on its grid."""
    if n < looks.first:
        return 0.0
    last = looks.planned
    while last < n:  # the looks of a longer course are the same; a few lengths serve all
        last *= 2
    return _boundary(looks, last, step, tail)[n - looks.first]


@lru_cache(maxsize=65536)
def _boundary(looks: PlannedLooks, last: int, step: int, tail: float) -> tuple[float, ...]:
    """One-sided normal tails at which the looks up to `last` seeds stop."""
    share, m = step / _SHARES, np.arange(looks.first, last + 1)
    variance = share * looks.planned / m + 1 - share  # of the mean at each look, as from that at the planned number
    by_plan = KEPT * np.minimum(m / looks.planned, 1) ** SPENDING
    spent = by_plan + np.where(m > looks.planned, (1 - KEPT) * (1 - variance), 0.0)
    return stopping_tails(variance[-1] / variance, tail * spent)


def stopping_tails(time: Floats, spent: Floats) -> tuple[float, ...]:
    """One-sided normal tails at which looks stop Brownian motion so that they have stopped it with given chances.

    Args:
        time: (looks,) times, ascending up to 1: the information of each look as a share of all.
        spent: (looks,) chances to have stopped by then, ascending.
    """
    normal_tails = [float(spent[0])]
    last = 0  # the last look that was a new one
    before: tuple[Floats, Floats] | None = None  # what had not stopped before it, and when that was
    before_time, before_spent = 0.0, 0.0
    nodes, mass = _start(float(-special.ndtri(spent[0]) * np.sqrt(time[0])), float(time[0]))
    for k in range(1, len(time)):
        if time[k] - time[last] >= _SAME:
            before, before_time, before_spent, last = (nodes, mass), float(time[k - 1]), float(spent[k - 1]), k
        if before is None:  # all looks so far see the same
            normal_tails.append(float(spent[k]))
            nodes, mass = _start(float(-special.ndtri(spent[k]) * np.sqrt(time[k])), float(time[k]))
            continue
        if spent[k] - before_spent <= 0:
            normal_tails.append(normal_tails[-1])
            continue
        step_sd = float(np.sqrt(time[k] - before_time))
        edge = _edge(*before, step_sd, float(spent[k] - before_spent))
        normal_tails.append(float(special.ndtr(-edge / np.sqrt(time[k]))))
        nodes, mass = _step(*before, step_sd, edge, float(time[k]))
    return tuple(normal_tails)


def _start(edge: float, time: float) -> tuple[Floats, Floats]:
    """Nodes below the edge and the mass of Brownian motion there."""
    nodes, weights = _quadrature(edge, time)
    return nodes, weights * np.exp(-(nodes**2) / (2 * time)) / np.sqrt(2 * np.pi * time)


def _step(nodes: Floats, mass: Floats, sd: float, edge: float, time: float) -> tuple[Floats, Floats]:
    """The distribution (`nodes`, `mass`) after one more increment of deviation `sd`, stopped at `edge`."""
    after, weights = _quadrature(edge, time)
    density = np.exp(-(((after[:, None] - nodes) / sd) ** 2) / 2) @ mass / (sd * np.sqrt(2 * np.pi))
    return after, weights * density


def _edge(nodes: Floats, mass: Floats, sd: float, spend: float) -> float:
    """The edge that paths which have not stopped pass with chance `spend`."""

    def excess(edge: float) -> float:
        return float(mass @ special.ndtr((nodes - edge) / sd)) - spend

    return float(optimize.brentq(excess, -_FARTHEST, _FARTHEST, xtol=1e-9))


def _quadrature(edge: float, time: float) -> tuple[Floats, Floats]:
    low = -_FARTHEST * np.sqrt(time)
    return low + (edge - low) * (_NODES[0] + 1) / 2, _NODES[1] * (edge - low) / 2


LEAST_DF = 2.0  # with fewer, Student's distance at the first looks is tens of standard errors
_STEPS = 20  # steps of the grid of correlations
_SHARED_NODES = 100  # nodes of the quadrature over the part of the error that all settings share


class Simultaneous(NamedTuple):
    """Intervals of all settings, arrays of (settings,).

    Attributes:
        low, high: Their ends; NaN where there is no interval: before the first look, without a variance, or with too
            few degrees of freedom for one that says anything.
        tail: The chance beyond each end that every setting was given, before looks.
        method: In words; empty for a single setting.
        estimate: The estimates (settings,) that they rest on, with the variance over seeds that they share.
    """

    low: Floats
    high: Floats
    tail: float
    method: str
    estimate: Estimate


def joint_intervals(
    losses: Sequence[Floats],
    looks: PlannedLooks,
    error: float = ERROR,
    *,
    n_run: Floats | None = None,
    family: npt.NDArray[np.bool_] | None = None,
    pooled: npt.NDArray[np.bool_] | None = None,
    sizes: Sample | None = None,
) -> Simultaneous:
    """Intervals of which each end holds, for a whole family and at every look, with chance 1 - `error`.

    Args:
        losses: Of each setting, as of `two_way.estimate`: their seeds and sentences are the same ones in the same
            order, of some perhaps fewer seeds (`shared_correlation`).
        error: Between 0 and 0.5.
        n_run: (settings,) seeds run, collapsed ones included, by which looks are counted; None for those of the losses.
        family: (settings,) which ones are claimed together; None for all. The others get intervals like theirs.
        pooled: (settings,) which ones share their variance over seeds; None for the family.
        sizes: Of documents, or folds, as of `two_way.estimate`.

    Raises:
        ValueError: There is no setting.
    """
    if not losses:
        raise ValueError("there is no setting to give an interval")
    family = np.ones(len(losses), dtype=bool) if family is None or not family.any() else family
    estimate_each = pooled_estimates(losses, family if pooled is None else pooled, sizes)
    size, tail, method = int(family.sum()), error, ""
    if size > 1:
        mine = [array for array, is_mine in zip(losses, family, strict=True) if is_mine]
        shared = shared_correlation(mine, sizes)
        tail = adjusted_tail(size, shared, error)
        method = f"max-t over {amount(size, 'setting')}, correlation {shared:.2f}"
    low, high = deciding_ends(estimate_each, looks, tail, n_run)
    return Simultaneous(low, high, tail, method, estimate_each)


def pooled_estimates(losses: Sequence[Floats], pooled: npt.NDArray[np.bool_], sizes: Sample | None = None) -> Estimate:
    """Estimates (settings,) of arrays (seeds, items); the `pooled` (settings,) share their variance over seeds."""
    alone = estimates(losses, sizes)
    mine = [seed_means(array) for array, is_pooled in zip(losses, pooled, strict=True) if is_pooled and len(array) > 1]
    if len(mine) < 2:
        return alone
    fewest = min(map(len, mine))
    return moderate(alone, seed_correlation(np.stack([by_seed[:fewest] for by_seed in mine])), pooled)


def deciding_ends(
    loss: Estimate, looks: PlannedLooks, tail: float, n_run: Floats | None = None, guard: float = two_way.GUARD
) -> tuple[Floats, Floats]:
    """Ends (settings,) at a look, NaN where there is no interval; looks count `n_run`, or the seeds of the estimate."""
    low, high = two_way.ends(loss, tails(loss, looks, tail, n_run), guard)
    has_interval = np.isfinite(low) & np.isfinite(high) & (loss.df > LEAST_DF - ROUNDING)
    return np.where(has_interval, low, np.nan), np.where(has_interval, high, np.nan)


def shared_correlation(losses: Sequence[Floats], sizes: Sample | None = None) -> float:
    """`mean_correlation` of arrays (seeds, items), some of fewer seeds; 0 for other items, or for a single setting.

    It is estimated on the seeds that all have, and a pair has that times the root of its smaller number of seeds over
    the larger one: so its seeds' part is exact, and its sentences' part too small, which errs to the safe side. Seeds
    that are missing in the middle pair others, whose covariance is 0 in the mean.
    """
    losses = [array for array in losses if len(array)]
    n = np.array([len(array) for array in losses], dtype=np.float64)
    if len(n) < 2 or n.min() < 2 or len({array.shape[1] for array in losses}) > 1:
        return 0.0
    first, second = np.triu_indices(len(n), 1)
    ratio = np.sqrt(np.minimum(n[first], n[second]) / np.maximum(n[first], n[second]))
    common = np.stack([array[: int(n.min())] for array in losses])
    if (np.isnan(common) != np.isnan(common[0])).any():  # seeds of other folds
        return 0.0
    return float(ratio.mean() * mean_correlation(common, sizes))


def mean_correlation(losses: Floats, sizes: Sample | None = None) -> Floats:
    """Mean correlation (...) of two or more settings' mean losses, from losses (..., settings, seeds, items); 0..1.

    Two-way as the variance is, with the covariance over seeds shrunk as the module says; of folds that of the items
    alone. Settings without variance count as uncorrelated.
    """
    n_s, n_i = losses.shape[-2:]
    if isinstance(sizes, Folds) and n_i > 1:
        scored = ~np.isnan(losses).all(axis=tuple(range(losses.ndim - 1)))
        means = np.nanmean(losses[..., scored], axis=-2)
        return _mean_of(_covariance(means, int(scored.sum())), estimate(losses, sizes))
    loss = estimate(losses)
    over_seeds = _covariance(losses.mean(axis=-1), n_s)
    over_sentences = _covariance(losses.mean(axis=-2), n_i)
    over_both = _covariance(losses.reshape(*losses.shape[:-2], n_s * n_i), n_s * n_i)
    believed = max(0.0, 1 - 2 / (n_s - 1)) if n_s > 1 else 0.0
    return _mean_of(over_sentences + believed * (over_seeds - over_both), loss)


def _mean_of(shared: Floats, loss: Estimate) -> Floats:
    """Mean correlation (...) from covariances (..., settings, settings) and the variances."""
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = np.sqrt(loss.variance[..., :, None] * loss.variance[..., None, :])
        correlations = np.nan_to_num(shared / deviations, posinf=0.0, neginf=0.0)
    first, second = np.triu_indices(shared.shape[-1], 1)
    mean: Floats = np.clip(correlations[..., first, second].mean(axis=-1), 0, 1)
    return mean


def _covariance(values: Floats, n: int) -> Floats:
    """(..., settings, settings) covariance of the means of (..., settings, n) values."""
    deviations = values - values.mean(axis=-1, keepdims=True)
    covariance: Floats = deviations @ deviations.swapaxes(-1, -2) / max(n - 1, 1) / n
    return covariance


def adjusted_tail(n: int, correlation: float, tail: float) -> float:
    """The chance beyond one end of each of `n` normal values so that any is beyond with chance `tail`.

    All pairs have the one correlation, which is rounded down to a grid of 0.05. From Sidak's at 0 to `tail` at 1.
    """
    return _adjusted_tail(n, int(correlation * _STEPS + ROUNDING), tail)


@lru_cache(maxsize=1024)
def _adjusted_tail(n: int, step: int, tail: float) -> float:
    if step == _STEPS:
        return tail
    shared, own = np.sqrt(step / _STEPS), np.sqrt(1 - step / _STEPS)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_SHARED_NODES)
    weights = weights / weights.sum()

    def excess(far: float) -> float:  # chance that any is beyond, given the part that all share, in the mean over it
        return float(-(weights * np.expm1(n * special.log_ndtr((far - shared * nodes) / own))).sum()) - tail

    return float(special.ndtr(-optimize.brentq(excess, 0.0, 40.0, xtol=1e-10)))
