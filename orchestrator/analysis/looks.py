"""The intervals that decide: for all settings together, at every look, and what a decision still takes.

**Looks.** Who adds seeds until an interval excludes what it should errs more often than at each look alone. So the
error is spent over the looks (K. Lan and D. DeMets, "Discrete Sequential Boundaries for Clinical Trials", Biometrika 70
(1983), 659-663). A sweep plans the seeds that it declares, and by these `KEPT` of the error is spent, in proportion to
the third power of the share of them that has run (J. Kim and D. DeMets, Biometrika 74 (1987), 149-154): little at
three seeds of ten, all of it at the planned number. The rest is for whoever goes on: with I the information, of which
`1 - I(planned) / I(now)` times the rest is spent by then, so that no number of further looks spends more.

Information is one by the variance of the mean. More seeds shrink their own part of it, the sentences' part stays: with
w the seeds' share of the variance at n seeds, the mean at m seeds has (w n / m + 1 - w) times the present variance.
Means of m and of more seeds covary by the variance of the later one, with sentences as without, so the critical values
are those of Brownian motion at the times of the information, by recursion (P. Armitage, C. McPherson and B. Rowe,
"Repeated Significance Tests on Accumulating Data", JRSS A 132 (1969), 235-244). They are normal; their tails are then
taken with the degrees of freedom of `two_way` (C. Jennison and B. Turnbull, "Group Sequential Methods" (2000), section
11.5), and its guard against skewed losses. The share is that of the present look, at its 95 % bound, so that an
interval depends on nothing but the values and the plan.

**Families.** Every verdict on a loss is read off its interval, and every surface draws it: whether the loss is within a
tolerance, beyond it, or differs from 0 at all. Each end is wrong, for any setting of the family at any look, with
chance `error` at most: a recommendation errs to one side, so it spends the whole of it there. As the intervals hold
together whatever the tolerance, a tolerance may also be chosen when they are known ("what each tolerance buys").

All settings get the same chance beyond each end, so small that with chance 1 - `error` all the ends on one side are
right: from the largest of correlated normal values, carried to each setting's own degrees of freedom by its tail (a
Gaussian copula, as in T. Hothorn, F. Bretz and P. Westfall, "Simultaneous Inference in General Parametric Models",
Biometrical Journal 50 (2008), 346-363). Settings share the baseline's runs and the sentences, so their losses are
correlated, and the correction is milder than Bonferroni's or Sidak's, which is what is left at a correlation of 0. One
correlation stands for all pairs, their mean: it is estimated two-way like the variance, and what it owes to seeds is
multiplied by 1 - 2 / (n_seeds - 1), as three seeds say nothing of a correlation. The settings of a family share their
variance over seeds as well (`two_way.moderated`).

An order of tests, from the least frozen to the most, would need no correction, but what stays undecided early in the
order would bar all behind it, and the intervals would hold for one tolerance only.

**What a decision still takes.** Further seeds shrink the seeds' part of the variance and more sentences shrink theirs;
a decision needs both parts small enough. The chance to decide is that of the data to come, if the true loss and the
variances are the observed ones: with N instead of n seeds the mean then moves by a standard deviation of
sqrt(Vs n (N - n)) / N, with more sentences accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from orchestrator.analysis import two_way
from orchestrator.analysis.decision_plan import ERROR, PlannedLooks
from orchestrator.analysis.rows import ROUNDING, Floats
from orchestrator.analysis.two_way import Estimate, Sample, estimate, estimates, moderated, seed_correlation, verdict
from orchestrator.config.quantities import counted

SPENDING = 3.0  # exponent of the share of the planned seeds
KEPT = 0.8  # share of the error that is spent by the planned number of seeds; the rest is for whoever goes on
_BOUND = 0.95  # level of the bound of the seeds' share
_SAME = 1 / 200  # a look with less new information, of all, sees the same as the one before
_SHARES = 50  # the seeds' share at the planned number is rounded up to this grid
_FARTHEST = 8.0  # standard deviations
_NODES = np.polynomial.legendre.leggauss(128)  # tails are right to 2e-9 of themselves


def tails(of: Estimate, looks: PlannedLooks, tail: float, n_run: Floats | None = None) -> Floats:
    """The chance beyond each end that comes to `tail` over all looks together, for `two_way.ends`.

    0 (ends at infinity) before the first look; NaN without a variance. Looks are counted by `n_run`, or by the seeds of
    the estimate.
    """
    n, share = np.broadcast_arrays(of.n_seeds if n_run is None else n_run, of.share_bound(_BOUND))
    chances = np.full(n.shape, np.nan)
    at_plan = share * n / looks.planned
    with np.errstate(invalid="ignore"):
        grid = np.ceil(_SHARES * at_plan / (at_plan + 1 - share) - ROUNDING)
    for at, step in {*zip(n.ravel().tolist(), grid.ravel().tolist(), strict=True)}:
        if np.isfinite(step):
            chances[(n == at) & (grid == step)] = _tail(looks, int(at), int(step), tail)
    return chances


def _tail(looks: PlannedLooks, n: int, step: int, tail: float) -> float:
    """With the share `step` on its grid at the planned number of seeds."""
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
    """The same after an increment of that standard deviation, stopped at the new edge."""
    after, weights = _quadrature(edge, time)
    density = np.exp(-(((after[:, None] - nodes) / sd) ** 2) / 2) @ mass / (sd * np.sqrt(2 * np.pi))
    return after, weights * density


def _edge(nodes: Floats, mass: Floats, sd: float, spend: float) -> float:
    """Where paths that have not stopped come past with chance `spend`."""

    def excess(edge: float) -> float:
        return float(mass @ special.ndtr((nodes - edge) / sd)) - spend

    return float(optimize.brentq(excess, -_FARTHEST, _FARTHEST, xtol=1e-9))


def _quadrature(edge: float, time: float) -> tuple[Floats, Floats]:
    low = -_FARTHEST * np.sqrt(time)
    return low + (edge - low) * (_NODES[0] + 1) / 2, _NODES[1] * (edge - low) / 2


LEAST_DF = 2.0  # with fewer, Student's distance at the first looks is tens of standard errors
_STEPS = 20  # of the grid of correlations
_SHARED_NODES = 100  # of the quadrature over what all settings share


class Simultaneous(NamedTuple):
    """Intervals of all settings, arrays of (settings,).

    Attributes:
        low, high: Their ends; NaN where there is no interval: before the first look, without a variance, or with too
            few degrees of freedom for one that says anything.
        tail: The chance beyond each end that every setting was given, before looks.
        method: In words; empty for a single setting.
        of: The estimates that they rest on, moderated.
    """

    low: Floats
    high: Floats
    tail: float
    method: str
    of: Estimate


def simultaneous(
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
    of = pooled_estimates(losses, family if pooled is None else pooled, sizes)
    size, tail, method = int(family.sum()), error, ""
    if size > 1:
        shared = shared_correlation([array for array, is_mine in zip(losses, family, strict=True) if is_mine])
        tail = adjusted_tail(size, shared, error)
        method = f"max-t over {counted(size, 'setting')}, correlation {shared:.2f}"
    low, high = deciding_ends(of, looks, tail, n_run)
    return Simultaneous(low, high, tail, method, of)


def pooled_estimates(losses: Sequence[Floats], pooled: npt.NDArray[np.bool_], sizes: Sample | None = None) -> Estimate:
    """The estimates of the settings of a question, whose `pooled` ones share their variance over seeds."""
    of = estimates(losses, sizes)
    mine = [array.mean(axis=1) for array, is_pooled in zip(losses, pooled, strict=True) if is_pooled and len(array) > 1]
    if len(mine) < 2:
        return of
    fewest = min(map(len, mine))
    return moderated(of, seed_correlation(np.stack([by_seed[:fewest] for by_seed in mine])), pooled)


def deciding_ends(
    of: Estimate, looks: PlannedLooks, tail: float, n_run: Floats | None = None, guard: float = two_way.GUARD
) -> tuple[Floats, Floats]:
    """Ends at a look, NaN where there is no interval; looks are counted by `n_run`, or by the seeds of the estimate."""
    low, high = two_way.ends(of, tails(of, looks, tail, n_run), guard)
    has_interval = np.isfinite(low) & np.isfinite(high) & (of.df > LEAST_DF - ROUNDING)
    return np.where(has_interval, low, np.nan), np.where(has_interval, high, np.nan)


def shared_correlation(losses: Sequence[Floats]) -> float:
    """`mean_correlation` of settings of which some have fewer seeds; 0 for other sentences, or for a single one.

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
    return float(ratio.mean() * mean_correlation(np.stack([array[: int(n.min())] for array in losses])))


def mean_correlation(losses: Floats) -> Floats:
    """Mean correlation (...) between the mean losses of (..., settings, seeds, sentences), two or more; 0..1.

    Two-way as the variance is, with the covariance over seeds shrunk as the module says. Settings without variance
    count as uncorrelated.
    """
    n_s, n_i = losses.shape[-2:]
    of = estimate(losses)
    over_seeds = _covariance(losses.mean(axis=-1), n_s)
    over_sentences = _covariance(losses.mean(axis=-2), n_i)
    over_both = _covariance(losses.reshape(*losses.shape[:-2], n_s * n_i), n_s * n_i)
    believed = max(0.0, 1 - 2 / (n_s - 1)) if n_s > 1 else 0.0
    shared = over_sentences + believed * (over_seeds - over_both)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = np.sqrt(of.variance[..., :, None] * of.variance[..., None, :])
        correlations = np.nan_to_num(shared / deviations, posinf=0.0, neginf=0.0)
    first, second = np.triu_indices(losses.shape[-3], 1)
    mean: Floats = np.clip(correlations[..., first, second].mean(axis=-1), 0, 1)
    return mean


def _covariance(values: Floats, n: int) -> Floats:
    """(..., settings, settings) covariance of the means of (..., settings, n) values."""
    off = values - values.mean(axis=-1, keepdims=True)
    covariance: Floats = off @ off.swapaxes(-1, -2) / max(n - 1, 1) / n
    return covariance


def adjusted_tail(n: int, correlation: float, tail: float) -> float:
    """The chance beyond one end of each of `n` normal values so that any is beyond with chance `tail`.

    All pairs have the one correlation, which is rounded down to a grid of 0.05. From Sidak's at 0 to `tail` at 1.
    """
    return _adjusted(n, int(correlation * _STEPS + ROUNDING), tail)


@lru_cache(maxsize=1024)
def _adjusted(n: int, step: int, tail: float) -> float:
    if step == _STEPS:
        return tail
    shared, own = np.sqrt(step / _STEPS), np.sqrt(1 - step / _STEPS)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_SHARED_NODES)
    weights = weights / weights.sum()

    def excess(far: float) -> float:  # chance that any is beyond, given the part that all share, in the mean over it
        return float(-(weights * np.expm1(n * special.log_ndtr((far - shared * nodes) / own))).sum()) - tail

    return float(special.ndtr(-optimize.brentq(excess, 0.0, 40.0, xtol=1e-10)))


MOST_SEEDS = 30  # more that are proposed: beyond it seeds are unlikely to decide
MOST_TIMES = 100  # nobody has so many times the sentences
_STEP = 1.02  # the numbers of sentences that are tried


@dataclass(frozen=True)
class Further:
    """What it takes to decide on which side of the tolerance a loss lies.

    Attributes:
        further_seeds: The fewest further seeds, on this dev set, that decide with the wanted chance; 0 if it is
            decided, None if not even `MOST_SEEDS` would.
        further_sentences: The fewest further dev sentences, with the present seeds; 0 if it is decided, None if
            `MOST_TIMES` as many would not, or if the interval is over seeds alone.
        sentences_with_all_seeds: The fewest further dev sentences that decide together with the planned seeds;
            likewise.
    """

    further_seeds: int | None
    further_sentences: int | None
    sentences_with_all_seeds: int | None


def further(of: Estimate, looks: PlannedLooks, tolerance: float, tail: float = ERROR, power: float = 0.8) -> Further:
    """What decides on one loss.

    Args:
        of: Of one setting, with a variance.
        looks: When it is looked at.
        tail: As of `looks.tails`.

    Raises:
        ValueError: There is no variance.
    """
    if not of.variance > 0:
        raise ValueError("without a variance nothing is known of what a decision takes")
    n, n_i = float(of.n_seeds), float(of.n_sentences)
    low, high = deciding_ends(of, looks, tail)
    if verdict(float(low), float(high), tolerance) != "not decided":
        return Further(0, 0, 0)
    sentences: Floats = np.unique(np.ceil(n_i * np.geomspace(_STEP, MOST_TIMES, 200)))
    last = max(float(looks.planned), n)

    def decides(seeds: Floats, sentences: Floats) -> npt.NDArray[np.bool_]:
        room = _room(_expected(of, seeds, sentences), looks, tolerance, tail)
        enough: npt.NDArray[np.bool_] = room >= _moves(of, seeds, sentences) * special.ndtri(power)
        return enough

    numbers: Floats = np.arange(n + 1, n + 1 + MOST_SEEDS, dtype=np.float64)
    more_seeds = _fewest(numbers, lambda seeds: decides(seeds, np.array(n_i)), looks.planned)
    more_sentences = _fewest(sentences, lambda sentences: decides(np.array(n), sentences)) if n_i > 1 else None
    together = _fewest(sentences, lambda sentences: decides(np.array(last), sentences)) if n_i > 1 else None
    return Further(
        further_seeds=None if more_seeds is None else int(more_seeds - n),
        further_sentences=None if more_sentences is None else int(more_sentences - n_i),
        sentences_with_all_seeds=None if together is None else int(together - n_i),
    )


def shown_within(of: Estimate, looks: PlannedLooks, tail: float, power: float = 0.8) -> float:
    """The smallest tolerance that trials to come, of these expected variances, show their loss to be within with this
    chance; infinite where they give no interval.
    """
    _, high = _planned_ends(of, looks, tail)
    within = float(high + np.sqrt(of.variance) * special.ndtri(power))
    return within if np.isfinite(within) else np.inf


def chances_within(
    of: Estimate, looks: PlannedLooks, tolerance: float, tail: float = ERROR, most: int | None = None
) -> Floats:
    """Chances (seeds,) that looks with one, two, ... more seeds, up to `most`, show at most the tolerance; None for the
    planned number.

    Predictive: the mean of the seeds to come is as uncertain as those at hand leave it (Student's t), without a prior
    opinion (C. Jennison and B. Turnbull, "Group Sequential Methods" (2000), chapter 10); the variances are taken for
    the observed ones. `of` is of one setting, with a variance.
    """
    n = float(of.n_seeds)
    seeds = np.arange(n + 1, (most or looks.planned) + 1)
    n_i = np.asarray(of.n_sentences)
    room = tolerance - _planned_ends(_expected(of, seeds, n_i), looks, tail)[1]
    with np.errstate(divide="ignore"):
        chances: Floats = special.stdtr(of.seeds_df, room / _moves(of, seeds, n_i))
    return np.nan_to_num(chances, nan=0.0)  # at a look with too few degrees of freedom nothing is shown


def _moves(of: Estimate, seeds: Floats, sentences: Floats) -> Floats:
    """Standard deviation by which the mean moves until there are so many seeds and sentences."""
    n, n_i = of.n_seeds, of.n_sentences
    of_seeds = of.seeds * n * (seeds - n) / seeds**2
    of_sentences = (of.variance - _seeds_alone(of)) * n_i * (sentences - n_i) / sentences**2
    moves: Floats = np.sqrt(of_seeds + of_sentences)
    return moves


def _seeds_alone(of: Estimate) -> Floats:
    """What of the seeds' part more sentences do not shrink; all of it where the interval is over seeds alone."""
    alone: Floats = np.where(of.n_sentences > 1, np.maximum(of.seeds - of.both, 0), of.seeds)
    return alone


def _expected(of: Estimate, n_seeds: Floats, n_sentences: Floats) -> Estimate:
    """The estimate as it is expected with so many seeds, of all settings alike, and sentences; these broadcast."""
    seeds, sentences = np.broadcast_arrays(np.asarray(n_seeds, np.float64), np.asarray(n_sentences, np.float64))
    times = of.n_sentences / sentences
    alone = _seeds_alone(of)
    both = (of.seeds - alone) * times * of.n_seeds / seeds
    v_s = alone * of.n_seeds / seeds + both
    v_i = (of.variance - of.seeds) * times
    v = v_s + v_i
    mean, folds, pool = (np.broadcast_to(values, v.shape) for values in (of.mean, of.folds, of.pool))
    pool_df = of.pool_df * (seeds - 1) / (of.n_seeds - 1)
    new = Estimate(mean, v, v, v_s, both, v_s, v, seeds, sentences, folds, pool, pool_df)
    df = np.where(of.folds > 0, seeds - 1, v**2 / (v_s**2 / new.seeds_df + of.of_items() * times**3))
    return new._replace(df=df, sentence_skew=of.sentence_skew * (of.variance / v) ** 1.5 * times**2)


def _room(of: Estimate, looks: PlannedLooks, tolerance: float, tail: float) -> Floats:
    """How far the end towards the tolerance stays from it; negative where it is beyond."""
    low, high = _planned_ends(of, looks, tail)
    room: Floats = np.where(of.mean <= tolerance, tolerance - high, low - tolerance)
    return room


def _planned_ends(of: Estimate, looks: PlannedLooks, tail: float) -> tuple[Floats, Floats]:
    """Both ends as a look has them; before the first one infinite."""
    low, high = deciding_ends(of, looks, tail)
    is_look = of.n_seeds >= looks.first
    return np.where(is_look, low, -np.inf), np.where(is_look, high, np.inf)


def _fewest(
    candidates: Floats, decide: Callable[[Floats], npt.NDArray[np.bool_]], planned: float = -np.inf
) -> float | None:
    """The first of ascending numbers that is enough; None if the last is not.

    Above `planned`, larger ones are taken to be enough as well: the error that is left makes a step there.
    """
    near = candidates[candidates <= planned]
    if len(near) and (enough := decide(near)).any():
        return float(near[enough.argmax()])
    low, high = len(near) - 1, len(candidates) - 1
    if not decide(candidates[high:])[0]:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decide(candidates[middle : middle + 1])[0] else (middle, high)
    return float(candidates[high])
