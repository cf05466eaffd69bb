"""Tests of paired differences that trust no distribution: sign flips and Wilcoxon's signed ranks."""

from __future__ import annotations

import numpy as np

from orchestrator.analysis.rows import Floats

MOST_EXACT = 16  # pairs: 65,536 sign patterns
_ROUNDING = 1e-9  # sums that differ by less, relative to the largest possible, are ties


def sign_flip_p(differences: Floats, *, seed: int = 0, resamples: int = 20_000) -> float:
    """Two-sided p that the mean is 0, from all sign patterns (above 16 pairs from `resamples` drawn with `seed`).

    Supposes that each difference is as likely as its negative. Drawn patterns count the observed one as well, so p is
    never 0 (B. Phipson and G. Smyth, "Permutation P-values Should Never Be Zero", 2010). NaN without pairs.
    """
    n = len(differences)
    if not n:
        return float("nan")
    total = np.abs(differences).sum()
    observed = abs(differences.sum()) - _ROUNDING * total
    if n <= MOST_EXACT:
        bits = np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1  # the other half are mirror images
        return float((np.abs((1 - 2 * bits) @ differences) >= observed).mean())
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (resamples, n))
    return float((1 + (np.abs(signs @ differences) >= observed).sum()) / (1 + resamples))


def wilcoxon_p(differences: Floats) -> float:
    """Two-sided p of the signed-rank test with zeros ranked and then dropped (Pratt 1959), ties by mid-ranks.

    Exact over all sign patterns up to 16 differences other than zero, else the normal approximation. 1 where all are
    zero, NaN without pairs.
    """
    if not len(differences):
        return float("nan")
    if not differences.any():
        return 1.0
    from scipy.stats import rankdata, wilcoxon

    # Differences of scores carry rounding: 0.91 - 0.90 and 0.81 - 0.80 are a tie.
    rounded = np.round(differences / np.abs(differences).max(), 9)
    if (rounded != 0).sum() > MOST_EXACT:
        return float(wilcoxon(rounded, zero_method="pratt", method="asymptotic").pvalue)
    ranks = rankdata(np.abs(rounded))[rounded != 0]
    return sign_flip_p(ranks * np.sign(rounded[rounded != 0]))


def reachable_p(n: Floats) -> Floats:
    """The smallest two-sided p that either test can give with n pairs: 2 / 2^n, and 1 below two pairs."""
    found: Floats = np.minimum(1.0, 2.0 / 2.0**n)
    return found
