"""The intervals that decide: one for each setting, all of a family together, at every look.

Every verdict on a loss is read off its interval, and every surface draws it: whether the loss is within a tolerance,
beyond it, or differs from 0 at all. Each end is wrong, for any setting of the family at any look, with chance `error`
at most: a recommendation errs to one side, so it spends the whole of it there. As the intervals hold together whatever
the tolerance, a tolerance may also be chosen when they are known ("what each tolerance buys").

All settings get the same chance beyond each end, so small that with chance 1 - `error` all the ends on one side are
right: from the largest of correlated normal values, carried to each setting's own degrees of freedom by its tail (a
Gaussian copula, as in T. Hothorn, F. Bretz and P. Westfall, "Simultaneous Inference in General Parametric Models",
Biometrical Journal 50 (2008), 346-363). Settings share the baseline's runs and the sentences, so their losses are
correlated, and the correction is milder than Bonferroni's or Sidak's, which is what is left at a correlation of 0. One
correlation stands for all pairs, their mean: it is estimated two-way like the variance, and what it owes to seeds is
multiplied by 1 - 2 / (n_seeds - 1), as three seeds say nothing of a correlation.

An order of tests, from the least frozen to the most, would need no correction, but what stays undecided early in the
order would bar all behind it, and the intervals would hold for one tolerance only.
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
from orchestrator.analysis.looks import tails
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import ROUNDING, Estimate, estimate, estimates
from orchestrator.config.quantities import counted

LEAST_DF = 3.0  # with fewer, Student's distance at the first looks is tens of standard errors
_STEPS = 20  # of the grid of correlations
_NODES = 100  # of the quadrature over what all settings share


class Simultaneous(NamedTuple):
    """Intervals of all settings, arrays of (settings,).

    Attributes:
        low, high: Their ends; NaN where there is no interval: before the first look, without a variance, or with too
            few degrees of freedom for one that says anything.
        tail: The chance beyond each end that every setting was given, before looks.
        method: In words; empty for a single setting.
    """

    low: Floats
    high: Floats
    tail: float
    method: str


def simultaneous(
    losses: Sequence[Floats],
    looks: PlannedLooks,
    error: float = ERROR,
    *,
    n_run: Floats | None = None,
    family: npt.NDArray[np.bool_] | None = None,
    sizes: Floats | None = None,
) -> Simultaneous:
    """Intervals of which each end holds, for a whole family and at every look, with chance 1 - `error`.

    Args:
        losses: Of each setting, as of `two_way.estimate`. Where all have one shape, their seeds and sentences are the
            same ones in the same order; else their correlation is unknown, and taken for 0.
        error: Between 0 and 0.5.
        n_run: (settings,) seeds run, collapsed ones included, by which looks are counted; None for those of the losses.
        family: (settings,) which ones are claimed together; None for all. The others get intervals like theirs.
        sizes: Of documents, as of `two_way.estimate`.

    Raises:
        ValueError: There is no setting.
    """
    if not losses:
        raise ValueError("there is no setting to give an interval")
    of = estimates(losses, sizes)
    size = len(losses) if family is None or not family.any() else int(family.sum())
    tail, method = error, ""
    if size > 1:
        run = [each for each in losses if len(each)]
        aligned = len(run) > 1 and len({each.shape for each in run}) == 1
        shared = mean_correlation(np.stack(run)) if aligned else 0.0
        tail = adjusted_tail(size, shared, error)
        method = f"max-t over {counted(size, 'setting')}, correlation {shared:.2f}"
    low, high = deciding_ends(of, looks, tail, n_run)
    return Simultaneous(low, high, tail, method)


def deciding_ends(of: Estimate, looks: PlannedLooks, tail: float, n_run: Floats | None = None) -> tuple[Floats, Floats]:
    """Ends at a look, NaN where there is no interval; looks are counted by `n_run`, or by the seeds of the estimate."""
    at = of if n_run is None else of._replace(n_seeds=n_run)
    low, high = two_way.deciding_ends(of, tails(at, looks, tail))
    known = np.isfinite(low) & np.isfinite(high) & (of.df > LEAST_DF - ROUNDING)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def mean_correlation(losses: Floats) -> float:
    """Mean correlation between the mean losses of (settings, seeds, sentences), two or more; 0..1.

    Two-way as the variance is, with the covariance over seeds shrunk as the module says. Settings without variance
    count as uncorrelated.
    """
    n_s, n_i = losses.shape[1:]
    of = estimate(losses)
    over_seeds = _covariance(losses.mean(axis=2), n_s)
    over_sentences = _covariance(losses.mean(axis=1), n_i)
    over_both = _covariance(losses.reshape(len(losses), -1), n_s * n_i)
    believed = max(0.0, 1 - 2 / (n_s - 1)) if n_s > 1 else 0.0
    shared = over_sentences + believed * (over_seeds - over_both)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.nan_to_num(shared / np.sqrt(np.outer(of.variance, of.variance)), posinf=0.0, neginf=0.0)
    return float(np.clip(found[np.triu_indices(len(found), 1)].mean(), 0, 1))


def _covariance(values: Floats, n: int) -> Floats:
    """(settings, settings) covariance of the means of (settings, n) values."""
    off = values - values.mean(axis=1, keepdims=True)
    found: Floats = off @ off.T / max(n - 1, 1) / n
    return found


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
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()

    def excess(far: float) -> float:  # chance that any is beyond, given the part that all share, in the mean over it
        return float(-(weights * np.expm1(n * special.log_ndtr((far - shared * nodes) / own))).sum()) - tail

    return float(special.ndtr(-optimize.brentq(excess, 0.0, 40.0, xtol=1e-10)))
