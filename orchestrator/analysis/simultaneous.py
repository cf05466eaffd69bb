"""Intervals of several settings against one baseline that hold together, and the verdicts that follow from them.

A figure draws the simultaneous interval (thin) around the single one (thick), and a verdict is read off the
simultaneous one: no p value beside it decides.

All settings get the same chance beyond each end, so small that with chance 1 - `error` / 2 all the ends on one side are
right: from the largest of correlated normal values, carried to each setting's own degrees of freedom by its tail (a
Gaussian copula, as in T. Hothorn, F. Bretz and P. Westfall, "Simultaneous Inference in General Parametric Models",
Biometrical Journal 50 (2008), 346-363). Settings share the baseline's runs and the sentences, so their losses are
correlated, and the correction is milder than Bonferroni's or Sidak's, which is what is left at a correlation of 0. One
correlation stands for all pairs, their mean: it is estimated two-way like the variance, and what it owes to seeds is
multiplied by 1 - 2 / (n_seeds - 1), as three seeds say nothing of a correlation.

Settings with an order that was fixed before the sweep, as depths have, need no correction: each is tested in turn with
the whole error, and the first that is not shown to be within the tolerance ends it (W. Maurer, L. Hothorn and W.
Lehmacher 1995). The intervals of those tested hold together in what they decide (J. Hsu and R. Berger, "Stepwise
Confidence Intervals without Multiplicity Adjustment for Dose-Response and Toxicity Studies", JASA 94 (1999), 468-482);
those behind have none, so that nothing is drawn that seems to decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from orchestrator.analysis.looks import PlannedLooks, tails
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import DECIDING, ROUNDING, Estimate, Verdict, ends, estimate, estimates, verdict
from orchestrator.config.quantities import counted

_STEPS = 20  # of the grid of correlations
_NODES = 100  # of the quadrature over what all settings share


class Simultaneous(NamedTuple):
    """Intervals of all settings, arrays of (settings,).

    NaN where there is no variance, or where settings are tested in order and one before was not shown.

    Attributes:
        low, high: Ends of the simultaneous intervals, those that decide; with the guard `DECIDING`.
        verdicts: What the simultaneous interval says of the tolerance.
        tail: The chance beyond each end that all settings were given, before looks.
    """

    estimate: Estimate
    low: Floats
    high: Floats
    verdicts: tuple[Verdict, ...]
    tail: float
    method: str


def simultaneous(
    losses: Sequence[Floats],
    tolerance: float,
    *,
    error: float = 0.05,
    looks: PlannedLooks | None = None,
    in_order: bool = False,
    n_run: Floats | None = None,
) -> Simultaneous:
    """Intervals that all hold together with chance 1 - `error`, at every look if there are `looks`.

    Args:
        losses: Of each setting, as of `two_way.estimate`. Where all have one shape, their seeds and sentences are the
            same ones in the same order; else their correlation is unknown, and taken for 0.
        error: Between 0 and 1.
        looks: When the losses are looked at; None for a number of seeds fixed beforehand.
        n_run: (settings,) seeds run, collapsed ones included, by which looks are counted; None for those of the losses.
        in_order: Whether the settings stand in an order fixed before the sweep, the likeliest to be harmless first.

    Raises:
        ValueError: There is no setting, or one without seeds or sentences.
    """
    if not losses:
        raise ValueError("there is no setting to give an interval")
    of = estimates(losses)
    aligned = len({one.shape for one in losses}) == 1
    tail, method = error / 2, ""
    if in_order:
        method = "in order, each with the whole error"
    elif len(losses) > 1:
        shared = mean_correlation(np.stack(losses)) if aligned else 0.0
        tail = adjusted_tail(len(losses), shared, tail)
        method = f"max-t over {counted(len(losses), 'setting')}, correlation {shared:.2f}"
    with_run = of if n_run is None else of._replace(n_seeds=n_run)
    low, high = ends(of, tail if looks is None else tails(with_run, looks, tail), DECIDING)
    if in_order:
        behind = np.logical_and.accumulate(high <= tolerance + ROUNDING)[:-1]
        low[1:][~behind] = high[1:][~behind] = np.nan
    said = tuple(verdict(*each, tolerance) for each in zip(low.tolist(), high.tolist(), strict=True))
    return Simultaneous(of, low, high, said, tail, method)


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
