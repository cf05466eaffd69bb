"""The interval of a loss over seeds and sentences, both of which are samples.

The estimand is the mean loss of a freeze over training randomness *and* over sentences of the source of the dev set.
With x[s, i] the paired difference of seed s on sentence i, scaled so that its mean is the loss, n seeds, N sentences:

    Vs = var_s(mean_i x) / n      Vi = var_i(mean_s x) / N      E = residual mean square of x / (n N)
    V  = max(Vs, E) + max(Vi - E, 0)
    df = V^2 / (max(Vs, E)^2 / (n - 1) + max(Vi - E, 0)^2 / (N - 1))

with the means of seeds and of sentences taken off for the residual, so that E is the part of Vs and of Vi that both
hold; 0 for losses of whole seeds. V is that of a crossed analysis of variance, df is Satterthwaite's (1946). Where
neither seeds nor sentences vary much but each sentence differs from run to run, V is too large, and an interval of 95 %
covers 97 to 99 %.

Where documents are known, they are the items. Sentences of one resemble each other, documents are few and of unequal
size, and the variance between them is then too small and has fewer degrees of freedom than their number says. So it is
made unbiased, and its degrees of freedom are Satterthwaite's, under a working model in which the sentences of a
document are all alike: CR2 of R. Bell and D. McCaffrey ("Bias Reduction in Standard Errors for Linear Regression with
Multi-Stage Samples", Survey Methodology 28 (2002), 169-181), whose working model has independent sentences. With equal
sizes both are t with one degree of freedom less than there are documents.

Three to ten seeds give a poor estimate of their variance, and the freezes of one question vary alike over seeds. So the
variances over seeds of K settings are moderated (`moderate`): shrunk towards a common value with the weight of
`PRIOR_DF` further seeds (G. Smyth, "Linear Models and Empirical Bayes Methods for Assessing Differential Expression",
Statistical Applications in Genetics and Molecular Biology 3 (2004)). With d = n - 1 and r the mean correlation of their
losses over seeds, at least `LEAST_ALIKE`:

    A   = max(0, mean of n (Vs - E), weighted by d)          w = PRIOR_DF / (PRIOR_DF + d)
    Vs~ = max(E, (1 - w) Vs + w (E + A / n))                 D = sum of d / (1 + (K - 1) r^2)
    1 / nu = (1 - w)^2 / d + (2 w (1 - w) + w^2) / D + w^2 / PRIOR_DF (K - 1) / K
    V   = Vs~ + max(Vi - E, 0)

and nu degrees of freedom in place of n - 1. A setting that varies more than the others at `ODD` keeps its own. On
FreezeBench the prior has 17 degrees of freedom or more among freezes worth having; the losses correlate by 0.49. With
one setting all of this is the formula above.

With cross-validation every seed is scored on one of F folds. Items of two folds are independent. Train sets overlap, a
dependence in the seeds' own part only, which further seeds do not reduce. With T the variance of the losses of n
seeds, W the variance of the m items of a fold, and r_f the number of seeds that are scored on fold f:

    A  = max(0, mean over the settings of T - W / m)       Vi = sum over folds of (r_f / n)^2 var_i(mean_s x) / m
    P  = A (1 / n + 1 / (F - 1))       E = W / m (1 / n + 1 / (F - 1))       Vs~ = P + E       V = Vs~ + (Vi - E)
    df = V^2 / (Vs~ max(P, Vs~ / 10) / D + Vi^2 / (items - F))

with D as above, and Vi = W / (n m) where every seed has a fold of its own; 1 / (F - 1) are the test items for each item
trained on: C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52 (2003), 239-281; for
more seeds than folds R. Bouckaert and E. Frank, "Evaluating the Replicability of Significance Tests for Comparing
Learning Algorithms" (2004). A is a difference of two variances, the larger of which has D degrees of freedom, and is 0
by chance in many sweeps: with P^2 / D in their place, 7 to 9 % of sweeps are wrong where seeds vary most. What is
estimated is the loss on these examples. Where only the loss of each seed is known, W counts as 0, and V is that of
Nadeau and Bengio; it is not pooled.

Losses of seeds may be skewed: a bad seed loses much and a good one gains little, so that samples without a bad seed
mislead. The upper end lies

    J + GUARD t_nu (ratio - 1) (U - E) / (V - Vs~ + U)

standard errors away: J is Student's distance with N. Johnson's correction for the sentences' observed skewness
("Modified t Tests and Confidence Intervals for Asymmetrical Populations", JASA 73 (1978), 536-544), at most twice
Student's; U is Vs~ at its 75 % bound, as a small spread by chance is what misleads; and `ratio` is the distance that is
exact for exponential losses over Student's (`exponential_ratio`). These have skewness 2; `GUARD` of the excess
promises for skewness up to 1 (gamma losses of that skewness need 0.24 to 0.37). That of 28 questions of FreezeBench is
0.04 +- 0.09. The lower end is Student's, corrected for the sentences' observed skewness alone.

Fewer than four folds are refused: where a seed's loss is that of its fold alone, up to ten seeds of three folds are
shown to lose more than they do in 5.7 %. What these promises hold by simulation, and by halves of real trials, `make
calibration` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from orchestrator.analysis.rows import ROUNDING, Codes, Floats
from orchestrator.config.quantities import amount

PRIOR_DF = 8.0  # degrees of freedom that the common variance of the settings is worth
LEAST_ALIKE = 0.5  # smallest correlation of losses over seeds that is assumed, as few seeds show little of it
ODD = 0.95  # level at which a setting varies more over seeds than the others do, and keeps its own variance
GUARD = 0.3  # share of what exponential losses need beyond Student's distance
SKEWNESS = 1.0  # largest skewness of the seeds' losses for which the correction is enough
PRIOR_SD = 10.0  # points: standard deviation of the prior for losses
_LONGEST = 2.0  # times Student's distance, which Johnson's correction may reach at most
_EQUAL = 1e-12  # a standard error below this share of the largest value is the rounding of equal values

RangesOver = Literal["seeds and sentences", "seeds (on this dev set)"]
_LEAST_OWN = 0.1  # smallest share of a fold's variance that is taken for the seeds' own in degrees of freedom
_BOUND = 0.75  # level of the upper bound (normal values' chi squared) of the seeds' part, for its share in V

Verdict = Literal["shown to lose at most the tolerance", "shown to lose more", "not decided"]
WITHIN: Verdict = "shown to lose at most the tolerance"
BEYOND: Verdict = "shown to lose more"

_SEEDS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60)  # seeds, by row of the table
_TAILS = (0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0001)  # chance beyond one end, by column
_RATIOS = np.array([
    (3.33, 3.45, 3.53, 3.56, 3.57, 3.55, 3.47),  # 2
    (2.69, 2.88, 3.08, 3.19, 3.28, 3.38, 3.55),  # 3
    (2.36, 2.54, 2.75, 2.88, 2.99, 3.11, 3.28),  # 4
    (2.15, 2.32, 2.52, 2.66, 2.77, 2.91, 3.17),  # 5
    (2.01, 2.17, 2.35, 2.48, 2.60, 2.74, 3.02),  # 6
    (1.91, 2.05, 2.22, 2.34, 2.45, 2.59, 2.89),  # 7
    (1.82, 1.95, 2.11, 2.23, 2.33, 2.46, 2.74),  # 8
    (1.71, 1.82, 1.96, 2.06, 2.15, 2.27, 2.53),  # 10
    (1.62, 1.72, 1.85, 1.93, 2.02, 2.13, 2.37),  # 12
    (1.53, 1.62, 1.73, 1.80, 1.88, 1.97, 2.19),  # 15
    (1.44, 1.51, 1.60, 1.66, 1.72, 1.80, 1.98),  # 20
    (1.34, 1.39, 1.46, 1.51, 1.55, 1.61, 1.75),  # 30
    (1.22, 1.25, 1.29, 1.33, 1.35, 1.39, 1.48),  # 60
])  # fmt: skip  # distance for exponential losses over Student's, by number of seeds and chance beyond the end


class Estimate(NamedTuple):
    """Estimated mean losses with their variances; arrays of one shape, with one value per setting.

    NaN where there are too few seeds; `variance` is 0 where all values are equal but for rounding.

    Attributes:
        mean: The loss, in the unit of the values.
        variance: V of the mean, in that unit squared.
        df: Satterthwaite's degrees of freedom of V.
        seeds: The seeds' part of the variance, Vs~, of folds P + E; the rest is the sentences', of folds less E.
        both: E, which is also in the seeds' part: what differs from sentence to sentence in one seed and not in
            another. Of folds W / m (1 / n + 1 / (F - 1)), which is subtracted from that of the seeds' losses.
        own: Vs, the part of the setting's own seeds, before it is moderated.
        sentence_skew: Third cumulant of the sentences' part of the mean by V^1.5.
        n_sentences: Number of sentences, or of documents, as a float; 1 where the interval is over seeds alone. Of
            folds, the examples of all together.
        folds: Folds that the seeds are scored on; 0 where all have one dev set.
        pool: Settings that share the variance over seeds; 1 where it is the setting's own.
        pool_df: Degrees of freedom of what they share, D.
    """

    mean: Floats
    variance: Floats
    df: Floats
    seeds: Floats
    both: Floats
    own: Floats
    sentence_skew: Floats
    n_seeds: Floats
    n_sentences: Floats
    folds: Floats
    pool: Floats
    pool_df: Floats

    @property
    def seeds_df(self) -> Floats:
        """(settings,) degrees of freedom nu of the seeds' part, with folds D; NaN below two seeds."""
        d = np.where(self.n_seeds > 1, self.n_seeds - 1, np.nan)
        w = PRIOR_DF / (PRIOR_DF + d)
        prior = w**2 / PRIOR_DF * (1 - 1 / self.pool)
        nu = 1 / ((1 - w) ** 2 / d + (2 * w * (1 - w) + w**2) / self.pool_df + prior)
        df: Floats = np.where((self.folds > 0) & (self.n_seeds > 1), self.pool_df, nu)
        return df

    @property
    def seeds_share(self) -> Floats:
        """(settings,) the seeds' share of the variance, 0..1; NaN if the variance is 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            with_folds = (self.seeds - self.both) / np.where(self.variance > 0, self.variance, np.nan)
        share: Floats = np.where(self.folds > 0, with_folds, self._share(self.seeds))
        return share

    def seeds_bound(self, level: float) -> Floats:
        """(settings,) upper bound, at this level, of the seeds' part of the variance, for normal losses."""
        nu = self.seeds_df
        with np.errstate(invalid="ignore", divide="ignore"):
            bound: Floats = self.seeds * nu / special.chdtri(nu, level)
        return bound

    def share_bound(self, level: float) -> Floats:
        """(settings,) upper bound of the seeds' share in the variance at this level, 0..1."""
        return self._share(self.seeds_bound(level))

    def _share(self, seeds: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            share: Floats = seeds / np.where(self.variance > 0, self.variance - self.seeds + seeds, np.nan)
        return share

    def seeds_term(self) -> Floats:
        """(settings,) the seeds' term of Satterthwaite's formula: their part squared by its degrees of freedom."""
        square: Floats = np.where(self.folds > 0, _fold_square(self.seeds, self.both), self.seeds**2) / self.seeds_df
        return square

    def items_term(self) -> Floats:
        """(settings,) the sentences' term of Satterthwaite's formula: what `df` implies beyond the seeds' term."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rest: Floats = np.maximum(self.variance**2 / self.df - self.seeds_term(), 0)
        return rest


@dataclass(frozen=True)
class TwoWayInterval:
    """A confidence interval of a mean loss.

    Attributes:
        mean: The loss, in the unit of the score (0..1); positive where the freeze is worse.
        low, high: Ends; None where no interval can be given.
        level: Share of such intervals that should hold the true loss.
        df: Degrees of freedom; None where there is no interval.
        n_sentences: Number of sentences, or of documents; None where no predictions were kept.
        seeds_share: Share of the seeds in the variance, 0..1, the rest is the sentences'; None without a variance.
        ranges_over: What is taken for a sample.
        note: Why there is no interval; empty where there is one.
    """

    mean: float
    low: float | None
    high: float | None
    level: float
    se: float | None
    df: float | None
    n_seeds: int
    n_sentences: int | None
    seeds_share: float | None
    ranges_over: RangesOver
    note: str = ""


class Folds(NamedTuple):
    """A cross-validation in which each seed is scored on one of `n` folds of all `examples`.

    Attributes:
        sizes: (items,) sentences of each document; None where the items are sentences.
    """

    n: int
    examples: int
    sizes: Floats | None = None


Sample = Floats | Folds
"""What the items of losses are: (documents,) sentences of each, or those of folds."""


def lasting_share(folds: Floats) -> Floats:
    """(settings,) share of one seed's variance that more seeds do not reduce, 1 / (F - 1); 0 without folds."""
    share: Floats = np.where(folds > 1, 1 / np.maximum(folds - 1, 1), 0.0)
    return share


def seed_means(losses: Floats) -> Floats:
    """(..., seeds) the loss of each seed, from (..., seeds, items) with NaN for the items of other folds."""
    if losses.size == 0:  # before a pair has ended
        return np.full(losses.shape[:-1], np.nan)
    is_scored = ~np.isnan(losses)
    means: Floats = losses.mean(axis=-1) if is_scored.all() else np.nanmean(losses, axis=-1)
    return means


def item_losses(losses: Floats, documents: Codes | None = None, words: npt.ArrayLike | None = None) -> Floats:
    """(seeds, sentences), or (seeds, documents) if these are known, from (seeds, sentences), with the same means.

    A mean over words, or over the sentences of a few documents, is a ratio of two sums, and both vary with the sample.
    Its linear form takes from each numerator what the denominator alone explains, x - L (w / mean w - 1): else the
    standard error is 40 % too large at a loss of 10 points.

    Args:
        documents: (sentences,) code of each one's document, 0, 1, ...; with one document, or one for each sentence,
            sentences stay.
        words: (sentences,) words of each, where the score is a share of all words.
    """
    mean = losses.mean(axis=1, keepdims=True)
    if words is not None and np.size(words) == losses.shape[1]:
        counts = np.asarray(words, dtype=np.float64)
        losses = losses - mean * (counts / counts.mean() - 1)
    sizes = document_sizes(documents, losses.shape[1])
    if documents is None or sizes is None:
        return losses
    sums = np.stack([np.bincount(documents, row, len(sizes)) for row in losses])
    by_document: Floats = sums / sizes.mean() - mean * (sizes / sizes.mean() - 1)
    return by_document


def document_sizes(documents: Codes | None, n: int) -> Floats | None:
    """(documents,) number of sentences of each; None where the `n` sentences are the items (`item_losses`)."""
    if documents is None or len(documents) != n:
        return None
    sizes = np.bincount(documents).astype(np.float64)
    return sizes if 1 < len(sizes) < n else None


def estimate(losses: Floats, sizes: Sample | None = None) -> Estimate:
    """Mean losses and their variances.

    Args:
        losses: (..., seeds, sentences) paired differences, baseline less freeze, scaled so that their mean is the loss;
            (..., seeds, 1) for losses of whole seeds, whose variance is over seeds alone.
        sizes: (documents,) sentences of each, where the items are documents; left aside for losses of other items. Or
            the folds that the seeds were scored on, whose losses are NaN for all items but those of the seed's fold.

    Raises:
        ValueError: There is no seed or no sentence.
    """
    n_s, n_i = losses.shape[-2:]
    if not n_s or not n_i:
        raise ValueError(f"losses of {amount(n_s, 'seed')} and {amount(n_i, 'sentence')} have no mean")
    if isinstance(sizes, Folds):
        return _estimate_of_folds(losses, sizes)
    by_seed, by_item = losses.mean(axis=-1), losses.mean(axis=-2)  # (..., seeds) and (..., items)
    mean = by_seed.mean(axis=-1)
    stretch, df_i = (1.0, n_i - 1.0) if sizes is None or len(sizes) != n_i else _documents_correction(sizes)
    own, _ = _variance_and_third(by_seed - mean[..., None])  # Vs
    v_i, third = np.zeros_like(mean), np.zeros_like(mean)
    if n_i > 1:
        v_i, third = _variance_and_third(stretch * (by_item - mean[..., None]))
    both = np.zeros_like(mean)  # E
    if n_s > 1 and n_i > 1:
        residuals = stretch * (losses - by_seed[..., None] - by_item[..., None, :] + mean[..., None, None])
        both = (residuals**2).sum(axis=(-2, -1)) / ((n_s - 1) * (n_i - 1)) / (n_s * n_i)
    v_s, rest = np.maximum(own, both), np.maximum(v_i - both, 0)  # E is in both Vs and Vi, and counts once
    v = v_s + rest
    # Equal losses are a coarse dev set and no certainty: no variance, and so no interval.
    v = np.where(np.sqrt(v) <= _EQUAL * np.abs(losses).max(axis=(-2, -1)), 0.0, v)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = v**2 / (v_s**2 / (n_s - 1) + rest**2 / max(df_i, 1))  # Satterthwaite 1946
        skew = third / v**1.5
    counts = (np.full(v.shape, float(n)) for n in (n_s, n_i, 0, 1, n_s - 1))  # a pool of the setting alone
    return Estimate(mean, v, df, v_s, both, own, skew, *counts)


def _estimate_of_folds(losses: Floats, folds: Folds) -> Estimate:
    """As `estimate`, of losses that are NaN for the items of other folds; all settings have the same seeds."""
    n_s, n_i = losses.shape[-2:]
    by_seed = seed_means(losses)
    mean = by_seed.mean(axis=-1)
    v_i, third, fold_variance, df_i = np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean), 0.0
    is_scored = ~np.isnan(losses.reshape(-1, n_s, n_i)[0])  # (seeds, items)
    for in_fold in np.unique(is_scored, axis=0):
        seeds, m = (is_scored == in_fold).all(axis=1), int(in_fold.sum())
        if m < 2:  # of whole seeds: what their items vary by is unknown, and counts as the seeds' own
            continue
        stretch, df = (1.0, m - 1.0) if folds.sizes is None else _documents_correction(folds.sizes[in_fold])
        items = stretch * losses[..., seeds, :][..., in_fold]  # (..., seeds of the fold, items of the fold)
        means, share = items.mean(axis=-2), seeds.mean()  # r_f / n
        variance, cumulant = _variance_and_third(means - means.mean(axis=-1, keepdims=True))
        v_i, third, df_i = v_i + share**2 * variance, third + share**3 * cumulant, df_i + df
        fold_variance = fold_variance + (items.var(axis=-1, ddof=1) / m).sum(axis=-1) / n_s  # W / m
    overlap = 1 + n_s * lasting_share(np.array(float(folds.n)))  # n (1 / n + 1 / (F - 1))
    own = overlap * _variance_and_third(by_seed - mean[..., None])[0]
    both = overlap * fold_variance / n_s
    v_s = np.maximum(own, both)
    v = v_s - both + v_i
    v = np.where(np.sqrt(v) <= _EQUAL * np.nanmax(np.abs(losses), axis=(-2, -1)), 0.0, v)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = v**2 / (_fold_square(v_s, both) / (n_s - 1) + v_i**2 / max(df_i, 1))
        skew = third / v**1.5
    n_sentences = folds.examples if n_i > 1 else 1
    counts = (np.full(v.shape, float(n)) for n in (n_s, n_sentences, folds.n, 1, n_s - 1))
    return Estimate(mean, v, df, v_s, both, own, skew, *counts)


def _fold_square(seeds: Floats, both: Floats) -> Floats:
    """What replaces the square of the seeds' part of folds in the degrees of freedom.

    It is the difference of two variances, of which the larger one is as uncertain as its degrees of freedom say, and it
    may be 0 by chance.
    """
    square: Floats = seeds * np.maximum(seeds - both, _LEAST_OWN * seeds)
    return square


def _documents_correction(sizes: Floats) -> tuple[Floats, float]:
    """By what the deviations of documents are stretched for an unbiased variance, and its degrees of freedom.

    As of the module docstring: with p the shares of the documents and q the sum of their squares, the deviation of
    document g is p_g (b_g - sum p b) with b independent and equally spread, whose square is p_g^2 (1 - 2 p_g + q) in
    the mean. The variance is then a quadratic form in b, and its degrees of freedom trace^2 / trace of the square.
    """
    share, n = sizes / sizes.sum(), len(sizes)
    q = float((share**2).sum())
    unbiasedness = 1 - 2 * share + q
    weight = share**2 / unbiasedness
    a_0, a_1, a_2 = (float((weight * share**power).sum()) for power in (0, 1, 2))
    cross = q**2 * a_0**2 + 2 * a_0 * a_2 + 2 * a_1**2 - 4 * q * a_0 * a_1
    squares = float((weight**2 * (unbiasedness**2 - (q - 2 * share) ** 2)).sum()) + cross
    return np.sqrt((1 - 1 / n) / unbiasedness), q**2 / squares


def estimates(losses: Sequence[Floats], sizes: Sample | None = None) -> Estimate:
    """The estimates (settings,) of arrays (seeds, items) of any sizes, NaN for one without seeds; `sizes` as there."""
    without_seeds = dict.fromkeys(Estimate._fields, np.nan)
    without_seeds |= {"n_seeds": 0.0, "n_sentences": 1.0, "folds": 0.0, "pool": 1.0, "pool_df": 0.0}
    table = np.array([[value] * len(losses) for value in without_seeds.values()])  # (fields, settings)
    alike = [(array.shape, np.isnan(array).tobytes() if isinstance(sizes, Folds) else b"") for array in losses]
    for kind in {kind for kind in alike if kind[0][0]}:
        places = [place for place, other in enumerate(alike) if other == kind]
        table[:, places] = estimate(np.stack([losses[place] for place in places]), sizes)
    return Estimate._make(table)


def seed_correlation(by_seed: Floats) -> Floats:
    """Mean correlation (...) over seeds between the losses (..., settings, seeds) of every two settings; -1..1.

    Settings without spread count for nothing; 0 where there are no two others.
    """
    deviations = by_seed - by_seed.mean(axis=-1, keepdims=True)
    length = np.sqrt((deviations**2).sum(axis=-1, keepdims=True))
    has_spread = length > _EQUAL * np.abs(by_seed).max(axis=-1, keepdims=True)
    unit = np.where(has_spread, deviations / np.where(has_spread, length, 1), 0.0)
    n = has_spread.sum(axis=(-2, -1))
    mean: Floats = ((unit.sum(axis=-2) ** 2).sum(axis=-1) - n) / np.maximum(n * (n - 1), 1)
    return np.where(n > 1, mean, 0.0)


def moderate(loss: Estimate, correlation: float | Floats, among: npt.NDArray[np.bool_] | None = None) -> Estimate:
    """The estimates (..., settings) of one question, with the variance over seeds that its settings share.

    Where nothing varies, a setting neither gives nor takes: equal values tell that the dev set is coarse. Nor do whole
    seeds of folds, whose variance is mostly that of items.

    Args:
        correlation: (...) of their losses over seeds, as of `seed_correlation`.
        among: (..., settings) which ones share it; None for all. The others keep their own.
    """
    is_fold = loss.folds > 0
    shares = (loss.variance > 0) & (loss.n_seeds > 1) & (~is_fold | (loss.n_sentences > 1))
    d = np.where(shares if among is None else shares & among, loss.n_seeds - 1, 0.0)
    k, total = (d > 0).sum(axis=-1, keepdims=True), d.sum(axis=-1, keepdims=True)
    r_squared = np.maximum(LEAST_ALIKE, np.asarray(correlation, dtype=np.float64))[..., None] ** 2
    overlap = 1 + loss.n_seeds * lasting_share(loss.folds)  # 1 without folds
    weighted = np.where(d > 0, d * loss.n_seeds * (loss.own - loss.both) / overlap, 0.0)  # NaN of one seed
    with np.errstate(invalid="ignore", divide="ignore"):
        a = np.maximum(weighted.sum(axis=-1, keepdims=True) / total, 0)
        # Leave-one-out: a setting that is odd must not hide in the mean that it is held against.
        a_of_others = np.maximum((weighted.sum(axis=-1, keepdims=True) - weighted) / (total - d), 0)
        others_df = (total - d) / (1 + (k - 2) * r_squared)
        is_odd = loss.own > special.fdtri(d, others_df, ODD) * (loss.both + a_of_others / loss.n_seeds)
        w = PRIOR_DF / (PRIOR_DF + d)  # Smyth 2004: the weight of the prior against d own degrees of freedom
        common = np.maximum(loss.both, (1 - w) * loss.own + w * (loss.both + a / loss.n_seeds))
        # With folds a setting's own part is what is left of a difference: it is all shared, or 11 % of sweeps err.
        common = np.where(is_fold, loss.both + a / loss.n_seeds * overlap, common)
        is_pooled = (d > 0) & (k > 1) & (is_fold | ~is_odd)
        seeds = np.where(is_pooled, common, loss.seeds)  # Vs~
        pool_df = np.where(is_pooled, total / (1 + (k - 1) * r_squared), loss.pool_df)  # D
        variance = np.where(is_pooled, loss.variance - loss.seeds + seeds, loss.variance)
        pooled = loss._replace(variance=variance, seeds=seeds, pool=np.where(is_pooled, k, loss.pool), pool_df=pool_df)
        df = np.where(is_pooled, variance**2 / (pooled.seeds_term() + loss.items_term()), loss.df)
        skew = np.where(is_pooled, loss.sentence_skew * (loss.variance / variance) ** 1.5, loss.sentence_skew)
    return pooled._replace(df=df, sentence_skew=skew)


def ends(loss: Estimate, tail: float | Floats, guard: float = GUARD) -> tuple[Floats, Floats]:
    """Lower and upper end (settings,) of each loss; NaN where there is no variance to judge by.

    `tail` (settings,), or one for all: the chance beyond each end, below 0.5, e.g. 0.025 for 95 %; 0 for infinite ends.
    """
    tail = np.broadcast_to(np.asarray(tail, dtype=np.float64), loss.mean.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        se = np.where(loss.variance > 0, np.sqrt(loss.variance), np.nan)
        t, t_seeds = (np.where(tail > 0, -special.stdtrit(df, tail), np.inf) for df in (loss.df, loss.seeds_df))
        excess = np.where(tail > 0, t_seeds * (exponential_ratio(loss.seeds_df + 1, tail) - 1), np.inf)
        u = loss.seeds_bound(_BOUND)
        share = np.maximum(u - loss.both, 0) / (loss.variance - loss.seeds + u)
        below = _standard_errors_to_end(t, np.maximum(-loss.sentence_skew, 0))
        above = _standard_errors_to_end(t, np.maximum(loss.sentence_skew, 0))
        above = above + np.where(share > 0, guard * excess * share, 0.0)
    return loss.mean - se * below, loss.mean + se * above


def interval(losses: Floats, level: float = 0.95, sizes: Sample | None = None) -> TwoWayInterval:
    """The interval of one mean loss, of one setting at one look; `simultaneous` has those that decide.

    One seed gives none: how much another would differ is unknown, and an interval over sentences alone would be one of
    that run, not of the recipe. Equal values give none either: on a small dev set they are a sign of its coarseness.

    Args:
        losses: (seeds, sentences) as of `estimate`, or (seeds,) where only scores are known: then it is over seeds
            alone.
        level: Between 0 and 1.
        sizes: Of documents, or folds, as of `estimate`.

    Raises:
        ValueError: There is no value, a value is not finite, or the level is out of range.
    """
    values = np.atleast_1d(np.asarray(losses, dtype=np.float64))
    two_way = values.ndim == 2 and values.shape[1] > 1
    values = values.reshape(len(values), -1)
    if not 0 < level < 1:
        raise ValueError(f"level {level:g} must be between 0 and 1")
    is_known = np.isfinite(values).any(axis=1) if isinstance(sizes, Folds) else np.isfinite(values)
    if not is_known.all():
        raise ValueError(f"{int((~is_known).sum())} of {is_known.size} values are not finite")
    loss = estimate(values, sizes)
    n_seeds, n_items = len(values), sizes.examples if isinstance(sizes, Folds) else values.shape[1] if two_way else None
    low, high = ends(loss, (1 - level) / 2)
    has_interval = n_seeds > 1 and bool(loss.variance > 0)
    note = (
        "" if has_interval else "one seed: an interval needs two" if n_seeds == 1 else "all values are equal: no spread"
    )
    return TwoWayInterval(
        mean=float(loss.mean),
        low=float(low) if has_interval else None,
        high=float(high) if has_interval else None,
        level=level,
        se=float(np.sqrt(loss.variance)) if n_seeds > 1 else None,
        df=float(loss.df) if has_interval else None,
        n_seeds=n_seeds,
        n_sentences=n_items,
        seeds_share=float(loss.seeds_share) if has_interval else None,
        ranges_over="seeds and sentences" if n_items is not None else "seeds (on this dev set)",
        note=note,
    )


def verdict(low: float, high: float, tolerance: float) -> Verdict:
    """What an interval says of the tolerance: a loss of exactly the tolerance is within it, and NaN decides nothing."""
    if high <= tolerance + ROUNDING:
        return WITHIN
    return BEYOND if low > tolerance + ROUNDING else "not decided"


def chance_within(mean: Floats, variance: Floats, df: Floats, tolerance: float) -> Floats:
    """How likely each loss (settings,) is at most the tolerance, in points; NaN without a variance. Never a verdict.

    The posterior of a weak prior, normal with mean 0 and a standard deviation of `PRIOR_SD`, at one look: where a loss
    is the tolerance itself, who acts on 95 % errs in 12 %.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        measured = np.where(variance > 0, variance, np.nan)
        shrunk = PRIOR_SD**2 / (PRIOR_SD**2 + measured)
        chance: Floats = special.stdtr(df, (tolerance - shrunk * mean) / np.sqrt(shrunk * measured))
    return chance


def _variance_and_third(deviations: Floats) -> tuple[Floats, Floats]:
    """Variance (NaN for one value) and third cumulant (0 below three) of the mean of n values.

    `off` (..., n) are their deviations from it.
    """
    n = deviations.shape[-1]
    squares = (deviations**2).sum(axis=-1)
    variance = squares / (n - 1) / n if n > 1 else np.full(squares.shape, np.nan)
    third = (deviations**3).sum(axis=-1) / ((n - 1) * (n - 2)) / n if n > 2 else np.zeros(squares.shape)
    return variance, third


def _standard_errors_to_end(t: Floats, skew: Floats) -> Floats:
    """How far an end lies from the mean, in standard errors."""
    far: Floats = np.minimum(np.where(skew > 0, t + skew * (1 + 2 * t**2) / 6, t), _LONGEST * t)
    return far


def exponential_ratio(n: Floats, tail: Floats) -> Floats:
    """(settings,) distance of an end for n exponential losses over Student's, at least 1, by tail (settings,).

    With n such losses the sum S is independent of the sample's shape p (uniform on the simplex), and Student's
    statistic is below -c if and only if S <= n / (1 + c sqrt(n) sd(p)): so its chance is a mean of gamma distribution
    functions over shapes, of which the table holds the exact distances. Tails below 0.0001 count as 0.0001.
    """
    z, grid = -special.ndtri(np.clip(tail, _TAILS[-1], _TAILS[0])), -special.ndtri(_TAILS)
    rows = np.stack([np.interp(z, grid, row) for row in _RATIOS])  # (numbers of seeds, ...)
    position = np.interp(np.clip(n, _SEEDS[0], _SEEDS[-1]), _SEEDS, np.arange(len(_SEEDS)))
    below = np.minimum(np.nan_to_num(position).astype(np.intp), len(_SEEDS) - 2)
    low, high = (np.take_along_axis(rows, index[None], axis=0)[0] for index in (below, below + 1))
    ratio = low + (high - low) * (position - below)
    farther: Floats = 1 + (ratio - 1) * np.sqrt(_SEEDS[-1] / np.maximum(n, _SEEDS[-1]))
    return farther
