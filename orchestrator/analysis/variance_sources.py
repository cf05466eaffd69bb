"""The variance of a score by source: which of subset, initialisation, order and sentences makes scores differ.

The runs of one setting under other seeds vary in their train subset, their initialisation and their order (with the
dropout); the dev set is a sample as well. The seeds' part is that of a crossed random model

    y = mean + subset + initialisation + order + interactions

by the method of moments: with R_f the sum of squares that source f adds to all others, df_f its degrees of freedom, M
the mean square of what no source explains (the interactions), Z_f the (runs, levels) indicators of the source and Q_f
the projection that R_f is the length of,

    variance of f = (R_f - df_f M) / trace(Z_f' Q_f Z_f)

which in a balanced design is the analysis of variance, (M_f - M) / runs per level, and in one with gaps C. Henderson's
method 3 ("Estimation of Variance and Covariance Components", Biometrics 9 (1953), 226-252). Sources whose levels go
together, as those of a sweep that only lists `seeds`, cannot be separated and are estimated as one.

The sentences' part is what another dev set of the same size would change: with x[s, i] what sentence i contributes to
the score of run s, and M2 the mean square of x less the means of its run and its sentence,

    variance of sentences = (variance over i of mean_s x - M2 / runs) / sentences

The accuracy of words is a ratio of sums: another dev set has other words as well. There x, the correct words of a
sentence over the mean words of all, is replaced by the ratio's linear form, x - accuracy (its words / mean words - 1).

All parts add up to the variance of the score of one new run on a new dev set. Few levels estimate a variance badly, so
each part has a 95 % interval: by chi squared, or for a difference of mean squares by the modified large-sample method
(N. Ting, R. Burdick, F. Graybill, S. Jeyaratnam and T. Lu, "Confidence Intervals on Linear Combinations of Variance
Components", Journal of Statistical Computation and Simulation 35 (1990), 135-143). Simulated, they cover 95 to 97 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from orchestrator.analysis.rows import Codes, Floats
from orchestrator.analysis.variance import orthonormal_basis
from trials.settings import Seeds

SUBSET, INITIALISATION, ORDER = "subset", "initialisation", "order"
INTERACTIONS, SENTENCES = "interactions", "sentences"
_TAIL = 0.025  # beyond each end of an interval


@dataclass(frozen=True)
class VarianceSource:
    """One part of the variance of a score.

    Attributes:
        names: The source; several where their levels go together.
        variance: The estimate, in the square of the score's unit (0..1); below 0 where the source explains less than
            chance would.
        low, high: Ends of its 95 % interval, at least 0; the low end is 0 where the source may not matter at all.
        levels: Number of its levels, e.g. of initialisations; of interactions, runs.
    """

    names: tuple[str, ...]
    variance: float
    low: float
    high: float
    levels: int
    df: int


def variance_sources(
    seeds: Sequence[Seeds],
    scores: Floats,
    sentences: Floats | None = None,
    *,
    words: Floats | None = None,
    same_subset: bool = False,
) -> tuple[VarianceSource, ...]:
    """The sources of the variance of one setting's score; without two runs, none.

    Args:
        sentences: (runs, sentences) what each sentence contributes to them; None where it is not known.
        words: (sentences,) words of each where the score is a mean over words; None for other scores.
        same_subset: Whether all runs have the same train subset whatever their seed (`subset_seed`).
    """
    if len(scores) < 2:
        return ()
    found = _of_seeds(_levels(seeds, same_subset=same_subset), scores)
    if sentences is None:
        return found
    if words is not None:
        sentences = sentences - np.outer(sentences.mean(axis=1), words / words.mean() - 1)
    return (*found, _of_sentences(sentences))


def _levels(seeds: Sequence[Seeds], *, same_subset: bool) -> dict[tuple[str, ...], Codes]:
    """The level (runs,) of each source that varies; those that vary together are one."""
    values = {
        SUBSET: [0 if same_subset else each.seed for each in seeds],
        INITIALISATION: [each.init for each in seeds],
        ORDER: [each.order for each in seeds],
    }
    together: dict[tuple[int, ...], list[str]] = {}
    for name, levels in values.items():
        codes, known = pd.factorize(np.asarray(levels))
        if len(known) > 1:
            together.setdefault(tuple(codes.tolist()), []).append(name)
    return {tuple(names): np.array(codes, dtype=np.intp) for codes, names in together.items()}


def _of_seeds(levels: dict[tuple[str, ...], Codes], scores: Floats) -> tuple[VarianceSource, ...]:
    n = len(scores)
    crossed = _separated(levels, scores) if len(levels) > 1 else ()
    if crossed:
        return crossed
    names = tuple(name for name in (SUBSET, INITIALISATION, ORDER) if any(name in group for group in levels))
    variance = float(scores.var(ddof=1))
    return (VarianceSource(names, variance, *_ends(variance, n - 1), levels=n, df=n - 1),)


def _separated(levels: dict[tuple[str, ...], Codes], scores: Floats) -> tuple[VarianceSource, ...]:
    """Each source by itself, then their interactions; none where the design does not separate them."""
    n = len(scores)
    y = scores - scores.mean()  # shortens rounding, changes no sum of squares
    indicators = {names: np.eye(codes.max() + 1)[codes] for names, codes in levels.items()}
    whole = orthonormal_basis(n, list(indicators.values()))
    df_left = n - whole.shape[1]
    if df_left < 1:
        return ()
    left = max(0.0, float(y @ y - _length(whole, y))) / df_left
    found = []
    for names, own in indicators.items():
        others = orthonormal_basis(n, [other for known, other in indicators.items() if known != names])
        df = whole.shape[1] - others.shape[1]
        if df < 1:
            return ()
        square = max(0.0, _length(whole, y) - _length(others, y)) / df
        per_level = (_length(whole, own) - _length(others, own)) / df
        low, high = (end / per_level for end in _ends_of_difference(square, df, left, df_left))
        found.append(VarianceSource(names, (square - left) / per_level, low, high, levels=own.shape[1], df=df))
    return (*found, VarianceSource((INTERACTIONS,), left, *_ends(left, df_left), levels=n, df=df_left))


def _length(basis: Floats, columns: Floats) -> float:
    """Sum of squares of the projections of (n,) or (n, columns) on the span of a basis (n, rank)."""
    return float(((basis.T @ columns) ** 2).sum())


def _of_sentences(contributions: Floats) -> VarianceSource:
    n_runs, n = contributions.shape
    by_sentence = contributions.mean(axis=0)
    off = contributions - contributions.mean(axis=1, keepdims=True) - by_sentence + by_sentence.mean()
    df_both = (n_runs - 1) * (n - 1)
    square, both = n_runs * float(by_sentence.var(ddof=1)), float((off**2).sum()) / df_both
    low, high = (end / n_runs / n for end in _ends_of_difference(square, n - 1, both, df_both))
    return VarianceSource((SENTENCES,), (square - both) / n_runs / n, low, high, levels=n, df=n - 1)


def _ends(square: float, df: int) -> tuple[float, float]:
    """Ends of the 95 % interval of a variance, from a mean square."""
    return df * square / float(special.chdtri(df, _TAIL)), df * square / float(special.chdtri(df, 1 - _TAIL))


def _ends_of_difference(large: float, n: int, small: float, m: int) -> tuple[float, float]:
    """Ends of the 95 % interval of a difference of the expected mean squares `large` - `small`, at least 0.

    `n` and `m` are their degrees of freedom.
    """
    high_n, low_n, high_m, low_m = (float(special.chdtri(df, p)) / df for df in (n, m) for p in (_TAIL, 1 - _TAIL))
    above, below = float(special.fdtri(n, m, 1 - _TAIL)), float(special.fdtri(n, m, _TAIL))
    g, h = 1 - 1 / high_n, 1 / low_m - 1
    down = g**2 * large**2 + h**2 * small**2 + ((above - 1) ** 2 - g**2 * above**2 - h**2) / above * large * small
    g, h = 1 - 1 / high_m, 1 / low_n - 1
    up = h**2 * large**2 + g**2 * small**2 + ((1 - below) ** 2 - h**2 * below**2 - g**2) / below * large * small
    return (
        max(0.0, large - small - max(down, 0.0) ** 0.5),
        max(0.0, large - small + max(up, 0.0) ** 0.5),
    )
