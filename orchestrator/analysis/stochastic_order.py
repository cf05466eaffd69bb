"""Almost stochastic order of two samples of scores, for who must report it; nothing is decided by it.

A dominates B stochastically if every quantile of A is at least B's. The violation ratio is the share of the squared
Wasserstein distance of the two that comes from quantiles where A's is the lower one: 0 if A dominates, 1 if B does. Its
upper bound below 0.5 is called "almost stochastically dominant" (E. del Barrio, J. Cuesta-Albertos and C. Matran, "An
Optimal Transportation Approach for Assessing Almost Stochastic Order", in "The Mathematics of the Uncertain" (2018),
33-44; R. Dror, S. Shlomov and R. Reichart, "Deep Dominance: How to Properly Compare Deep Neural Models", ACL 2019,
2773-2785). Scores are not paired by seed, and the sentences of the dev set are taken as given: with few seeds it says
less than the interval of the loss, and other things.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from orchestrator.analysis.rows import Floats

LEAST_RUNS = 5  # of each side: a bootstrap of fewer says nothing
_DRAWS = 2_000


def violation_ratio(better: Floats, worse: Floats) -> Floats:
    """Of samples (..., n) and (..., m); 0.5 where all quantiles are equal."""
    n, m = better.shape[-1], worse.shape[-1]
    edges = np.union1d(np.arange(n + 1) / n, np.arange(m + 1) / m)
    middle = (edges[1:] + edges[:-1]) / 2  # quantiles are constant between two edges
    ours, theirs = (np.sort(x)[..., (middle * x.shape[-1]).astype(np.intp)] for x in (better, worse))
    squares = (ours - theirs) ** 2 * np.diff(edges)
    total = squares.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Floats = np.where(total > 0, np.where(ours < theirs, squares, 0.0).sum(axis=-1) / total, 0.5)
    return ratio


def almost_dominates(better: Floats, worse: Floats, level: float = 0.95, seed: int = 0) -> float:
    """Upper bound of the violation ratio of scores (n,) and (m,): below 0.5, `better` almost dominates.

    The bound is normal, with the standard deviation of a bootstrap of both samples. NaN with fewer than `LEAST_RUNS`.
    """
    if min(len(better), len(worse)) < LEAST_RUNS:
        return float("nan")
    rng = np.random.default_rng(seed)
    drawn = violation_ratio(*(rng.choice(x, (_DRAWS, len(x))) for x in (better, worse)))
    ratio = float(violation_ratio(better, worse))
    return float(np.clip(ratio + special.ndtri(level) * drawn.std(), 0, 1))
