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

Three to ten seeds know their variance badly, and the freezes of one question vary alike over seeds. So the variance
over seeds of K settings is moderated (`moderated`): drawn towards what they have in common with the weight of
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

With cross-validation every seed is scored on one of F folds. Items of two folds are independent; what further seeds do
not bring down is that train sets overlap, which is only in the seeds' own part. With T the variance of the losses of n
seeds, W that of the items of a fold, of which it has m, r_f the seeds that are scored on fold f:

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

Losses of seeds may be skewed: a bad seed loses much, a good one gains little, and the samples that mislead are those
without a bad seed. The upper end lies

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
from orchestrator.config.quantities import counted

PRIOR_DF = 8.0  # degrees of freedom that what the settings have in common is worth
LEAST_ALIKE = 0.5  # least correlation of losses over seeds that is reckoned with: few seeds show little of it
ODD = 0.95  # level at which a setting varies more over seeds than the others do, and keeps its own variance
GUARD = 0.3  # share of what exponential losses need beyond Student's distance
SKEWNESS = 1.0  # of the losses of seeds, up to which that is enough
PRIOR_SD = 10.0  # points: of losses, as known before any run
_LONGEST = 2.0  # times Student's distance
_EQUAL = 1e-12  # a standard error below this share of the largest value is the rounding of equal values

RangesOver = Literal["seeds and sentences", "seeds (on this dev set)"]
_LEAST_OWN = 0.1  # of the variance of one fold's losses: the seeds' own part that degrees of freedom reckon with
_BOUND = 0.75  # level of the upper bound (normal values' chi squared) of the seeds' part, for its share in V

Verdict = Literal["shown to lose at most the tolerance", "shown to lose more", "not decided"]
WITHIN: Verdict = "shown to lose at most the tolerance"
BEYOND: Verdict = "shown to lose more"

_SEEDS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60)
_TAILS = (0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0001)
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
    """Estimated mean losses with their variances; arrays of one shape, a value a setting.

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
        """Degrees of freedom nu of the seeds' part, of folds D; NaN of fewer than two seeds."""
        d = np.where(self.n_seeds > 1, self.n_seeds - 1, np.nan)
        w = PRIOR_DF / (PRIOR_DF + d)
        prior = w**2 / PRIOR_DF * (1 - 1 / self.pool)
        nu = 1 / ((1 - w) ** 2 / d + (2 * w * (1 - w) + w**2) / self.pool_df + prior)
        of_each: Floats = np.where((self.folds > 0) & (self.n_seeds > 1), self.pool_df, nu)
        return of_each

    @property
    def seeds_share(self) -> Floats:
        """Share of the seeds in the variance, 0..1; NaN without variance."""
        with np.errstate(invalid="ignore", divide="ignore"):
            of_folds = (self.seeds - self.both) / np.where(self.variance > 0, self.variance, np.nan)
        share: Floats = np.where(self.folds > 0, of_folds, self._share(self.seeds))
        return share

    def seeds_bound(self, level: float) -> Floats:
        """Upper bound of the seeds' part at this level."""
        nu = self.seeds_df
        with np.errstate(invalid="ignore", divide="ignore"):
            bound: Floats = self.seeds * nu / special.chdtri(nu, level)
        return bound

    def share_bound(self, level: float) -> Floats:
        """Upper bound of the seeds' share, likewise."""
        return self._share(self.seeds_bound(level))

    def _share(self, seeds: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            share: Floats = seeds / np.where(self.variance > 0, self.variance - self.seeds + seeds, np.nan)
        return share

    def of_seeds(self) -> Floats:
        """The square of the seeds' part of the variance by its degrees of freedom, as `df` has it."""
        square: Floats = np.where(self.folds > 0, _fold_square(self.seeds, self.both), self.seeds**2) / self.seeds_df
        return square

    def of_items(self) -> Floats:
        """Likewise of the sentences' part."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rest: Floats = np.maximum(self.variance**2 / self.df - self.of_seeds(), 0)
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


def shared_by_seeds(folds: Floats) -> Floats:
    """The part of the variance of one seed's loss that no further seed lessens; 0 without folds."""
    share: Floats = np.where(folds > 1, 1 / np.maximum(folds - 1, 1), 0.0)
    return share


def seed_means(losses: Floats) -> Floats:
    """(..., seeds) the loss of each seed from (..., seeds, items), of which NaN stands for those of other folds."""
    if losses.size == 0:  # before a pair has ended
        return np.full(losses.shape[:-1], np.nan)
    is_scored = ~np.isnan(losses)
    means: Floats = losses.mean(axis=-1) if is_scored.all() else np.nanmean(losses, axis=-1)
    return means


def item_losses(losses: Floats, documents: Codes | None = None, words: npt.ArrayLike | None = None) -> Floats:
    """(seeds, sentences), or (seeds, documents) where these are known, from (seeds, sentences); the means stay.

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
    """(documents,) sentences of each; None where `n` sentences are the items, as of `item_losses`."""
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
        raise ValueError(f"losses of {counted(n_s, 'seed')} and {counted(n_i, 'sentence')} have no mean")
    if isinstance(sizes, Folds):
        return _estimate_of_folds(losses, sizes)
    by_seed, by_sentence = losses.mean(axis=-1), losses.mean(axis=-2)
    mean = by_seed.mean(axis=-1)
    stretch, df_i = (1.0, n_i - 1.0) if sizes is None or len(sizes) != n_i else _of_documents(sizes)
    own, _ = _variance_and_third(by_seed - mean[..., None])  # Vs
    of_items = stretch * (by_sentence - mean[..., None])
    v_i, third = _variance_and_third(of_items) if n_i > 1 else (np.zeros_like(mean),) * 2
    both = np.zeros_like(mean)
    if n_s > 1 and n_i > 1:
        off = stretch * (losses - by_seed[..., None] - by_sentence[..., None, :] + mean[..., None, None])
        both = (off**2).sum(axis=(-2, -1)) / ((n_s - 1) * (n_i - 1)) / (n_s * n_i)
    v_s, rest = np.maximum(own, both), np.maximum(v_i - both, 0)  # E is in both Vs and Vi, and counts once
    v = v_s + rest
    # Equal losses are a coarse dev set and no certainty: no variance, and so no interval.
    v = np.where(np.sqrt(v) <= _EQUAL * np.abs(losses).max(axis=(-2, -1)), 0.0, v)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = v**2 / (v_s**2 / (n_s - 1) + rest**2 / max(df_i, 1))  # Satterthwaite 1946
        skew = third / v**1.5
    counts = (np.full(v.shape, float(n)) for n in (n_s, n_i, 0, 1, n_s - 1))
    return Estimate(mean, v, df, v_s, both, own, skew, *counts)


def _estimate_of_folds(losses: Floats, folds: Folds) -> Estimate:
    """As `estimate`; all settings have the same seeds, and so the same items that are NaN."""
    n_s, n_i = losses.shape[-2:]
    by_seed = seed_means(losses)
    mean = by_seed.mean(axis=-1)
    v_i, third, within, df_i = np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean), 0.0
    scored = ~np.isnan(losses.reshape(-1, n_s, n_i)[0])
    for of_fold in np.unique(scored, axis=0):
        seeds, n = (scored == of_fold).all(axis=1), int(of_fold.sum())
        if n < 2:  # of whole seeds: what their items vary by is unknown, and counts as the seeds' own
            continue
        stretch, df = (1.0, n - 1.0) if folds.sizes is None else _of_documents(folds.sizes[of_fold])
        items = stretch * losses[..., seeds, :][..., of_fold]
        means, share = items.mean(axis=-2), seeds.mean()
        variance, cumulant = _variance_and_third(means - means.mean(axis=-1, keepdims=True))
        v_i, third, df_i = v_i + share**2 * variance, third + share**3 * cumulant, df_i + df
        within = within + (items.var(axis=-1, ddof=1) / n).sum(axis=-1) / n_s
    times = 1 + n_s * shared_by_seeds(np.array(float(folds.n)))
    own, both = times * _variance_and_third(by_seed - mean[..., None])[0], times * within / n_s
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
    """What stands for the square of the seeds' part of folds in degrees of freedom.

    It is the difference of two variances, of which the larger one is as uncertain as its degrees of freedom say, and it
    may be 0 by chance.
    """
    square: Floats = seeds * np.maximum(seeds - both, _LEAST_OWN * seeds)
    return square


def _of_documents(sizes: Floats) -> tuple[Floats, float]:
    """By what the deviations of documents are stretched for an unbiased variance, and its degrees of freedom.

    As of the module docstring: with p the shares of the documents and q the sum of their squares, the deviation of
    document g is p_g (b_g - sum p b) with b independent and equally spread, whose square is p_g^2 (1 - 2 p_g + q) in
    the mean. The variance is then a quadratic form in b, and its degrees of freedom trace^2 / trace of the square.
    """
    share, n = sizes / sizes.sum(), len(sizes)
    q = float((share**2).sum())
    left = 1 - 2 * share + q
    weight = share**2 / left
    a_0, a_1, a_2 = (float((weight * share**power).sum()) for power in (0, 1, 2))
    cross = q**2 * a_0**2 + 2 * a_0 * a_2 + 2 * a_1**2 - 4 * q * a_0 * a_1
    squares = float((weight**2 * (left**2 - (q - 2 * share) ** 2)).sum()) + cross
    return np.sqrt((1 - 1 / n) / left), q**2 / squares


def estimates(losses: Sequence[Floats], sizes: Sample | None = None) -> Estimate:
    """The estimates of many (seeds, sentences) arrays of any sizes: arrays of (losses,), NaN for one without seeds.

    `sizes` as of `estimate`.
    """
    table = np.full((len(Estimate._fields), len(losses)), np.nan)
    table[-5:] = np.array([[0.0], [1.0], [0.0], [1.0], [0.0]])
    alike = [(array.shape, np.isnan(array).tobytes() if isinstance(sizes, Folds) else b"") for array in losses]
    for kind in {kind for kind in alike if kind[0][0]}:
        at = [place for place, other in enumerate(alike) if other == kind]
        table[:, at] = estimate(np.stack([losses[place] for place in at]), sizes)
    return Estimate._make(table)


def seed_correlation(by_seed: Floats) -> Floats:
    """Mean correlation (...) over seeds between the losses (..., settings, seeds) of every two settings; -1..1.

    Settings without spread count for nothing; 0 where there are no two others.
    """
    off = by_seed - by_seed.mean(axis=-1, keepdims=True)
    length = np.sqrt((off**2).sum(axis=-1, keepdims=True))
    has_spread = length > _EQUAL * np.abs(by_seed).max(axis=-1, keepdims=True)
    unit = np.where(has_spread, off / np.where(has_spread, length, 1), 0.0)
    n = has_spread.sum(axis=(-2, -1))
    mean: Floats = ((unit.sum(axis=-2) ** 2).sum(axis=-1) - n) / np.maximum(n * (n - 1), 1)
    return np.where(n > 1, mean, 0.0)


def moderated(of: Estimate, correlation: float | Floats, among: npt.NDArray[np.bool_] | None = None) -> Estimate:
    """The estimates (..., settings) of one question, with the variance over seeds that its settings share.

    Where nothing varies, a setting neither gives nor takes: equal values tell that the dev set is coarse. Nor do whole
    seeds of folds, whose variance is mostly that of items.

    Args:
        correlation: (...) of their losses over seeds, as of `seed_correlation`.
        among: (..., settings) which ones share it; None for all. The others keep their own.
    """
    is_fold = of.folds > 0
    can = (of.variance > 0) & (of.n_seeds > 1) & (~is_fold | (of.n_sentences > 1))
    d = np.where(can if among is None else can & among, of.n_seeds - 1, 0.0)
    n, total = (d > 0).sum(axis=-1, keepdims=True), d.sum(axis=-1, keepdims=True)
    r_2 = np.maximum(LEAST_ALIKE, np.asarray(correlation, dtype=np.float64))[..., None] ** 2
    overlap = 1 + of.n_seeds * shared_by_seeds(of.folds)  # 1 without folds
    alone = np.where(d > 0, d * of.n_seeds * (of.own - of.both) / overlap, 0.0)  # NaN of one seed
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = np.maximum(alone.sum(axis=-1, keepdims=True) / total, 0)
        # Leave-one-out: a setting that is odd must not hide in the mean that it is held against.
        of_others = np.maximum((alone.sum(axis=-1, keepdims=True) - alone) / (total - d), 0)
        others_df = (total - d) / (1 + (n - 2) * r_2)
        is_odd = of.own > special.fdtri(d, others_df, ODD) * (of.both + of_others / of.n_seeds)
        w = PRIOR_DF / (PRIOR_DF + d)  # Smyth 2004: the weight of the prior against d own degrees of freedom
        drawn = np.maximum(of.both, (1 - w) * of.own + w * (of.both + shared / of.n_seeds))
        # Of folds a setting's own part is what is left of a difference: it is all shared, or 11 % of sweeps err.
        drawn = np.where(is_fold, of.both + shared / of.n_seeds * overlap, drawn)
        is_drawn = (d > 0) & (n > 1) & (is_fold | ~is_odd)
        seeds = np.where(is_drawn, drawn, of.seeds)
        pool_df = np.where(is_drawn, total / (1 + (n - 1) * r_2), of.pool_df)
        variance = np.where(is_drawn, of.variance - of.seeds + seeds, of.variance)
        new = of._replace(variance=variance, seeds=seeds, pool=np.where(is_drawn, n, of.pool), pool_df=pool_df)
        df = np.where(is_drawn, variance**2 / (new.of_seeds() + of.of_items()), of.df)
        skew = np.where(is_drawn, of.sentence_skew * (of.variance / variance) ** 1.5, of.sentence_skew)
    return new._replace(df=df, sentence_skew=skew)


def ends(of: Estimate, tail: float | Floats, guard: float = GUARD) -> tuple[Floats, Floats]:
    """Lower and upper end of each loss; NaN where there is no variance to judge by.

    `tail` is the chance beyond each end, below 0.5: 0.025 for an interval of 95 %, 0 for ends at infinity.
    """
    tail = np.broadcast_to(np.asarray(tail, dtype=np.float64), of.mean.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        se = np.where(of.variance > 0, np.sqrt(of.variance), np.nan)
        t, of_seeds = (np.where(tail > 0, -special.stdtrit(df, tail), np.inf) for df in (of.df, of.seeds_df))
        excess = np.where(tail > 0, of_seeds * (exponential_ratio(of.seeds_df + 1, tail) - 1), np.inf)
        bound = of.seeds_bound(_BOUND)
        share = np.maximum(bound - of.both, 0) / (of.variance - of.seeds + bound)
        far = _standard_errors_to_end(t, np.maximum(of.sentence_skew, 0)) + np.where(
            share > 0, guard * excess * share, 0.0
        )
        low = of.mean - se * _standard_errors_to_end(t, np.maximum(-of.sentence_skew, 0))
        high = of.mean + se * far
    return low, high


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
    of = estimate(values, sizes)
    n_seeds, n_items = len(values), sizes.examples if isinstance(sizes, Folds) else values.shape[1] if two_way else None
    low, high = ends(of, (1 - level) / 2)
    has_interval = n_seeds > 1 and bool(of.variance > 0)
    note = (
        "" if has_interval else "one seed: an interval needs two" if n_seeds == 1 else "all values are equal: no spread"
    )
    return TwoWayInterval(
        mean=float(of.mean),
        low=float(low) if has_interval else None,
        high=float(high) if has_interval else None,
        level=level,
        se=float(np.sqrt(of.variance)) if n_seeds > 1 else None,
        df=float(of.df) if has_interval else None,
        n_seeds=n_seeds,
        n_sentences=n_items,
        seeds_share=float(of.seeds_share) if has_interval else None,
        ranges_over="seeds and sentences" if n_items is not None else "seeds (on this dev set)",
        note=note,
    )


def verdict(low: float, high: float, tolerance: float) -> Verdict:
    """What an interval says of the tolerance: a loss of exactly the tolerance is within it, and NaN decides nothing."""
    if high <= tolerance + ROUNDING:
        return WITHIN
    return BEYOND if low > tolerance + ROUNDING else "not decided"


def chance_within(mean: Floats, variance: Floats, df: Floats, tolerance: float) -> Floats:
    """How likely losses are at most the tolerance, all in points; NaN without a variance. It is never a verdict.

    The posterior of a weak prior, normal with mean 0 and a standard deviation of `PRIOR_SD`, at one look: where a loss
    is the tolerance itself, who acts on 95 % errs in 12 %.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        known = np.where(variance > 0, variance, np.nan)
        shrunk = PRIOR_SD**2 / (PRIOR_SD**2 + known)
        chance: Floats = special.stdtr(df, (tolerance - shrunk * mean) / np.sqrt(shrunk * known))
    return chance


def _variance_and_third(off: Floats) -> tuple[Floats, Floats]:
    """Variance (NaN of one value) and third cumulant (0 below three) of the mean of n values.

    `off` (..., n) are their deviations from it.
    """
    n = off.shape[-1]
    squares = (off**2).sum(axis=-1)
    variance = squares / (n - 1) / n if n > 1 else np.full(squares.shape, np.nan)
    third = (off**3).sum(axis=-1) / ((n - 1) * (n - 2)) / n if n > 2 else np.zeros(squares.shape)
    return variance, third


def _standard_errors_to_end(t: Floats, skew: Floats) -> Floats:
    """How far an end lies from the mean, in standard errors."""
    far: Floats = np.minimum(np.where(skew > 0, t + skew * (1 + 2 * t**2) / 6, t), _LONGEST * t)
    return far


def exponential_ratio(n: Floats, tail: Floats) -> Floats:
    """How much farther an end lies for n exponential losses than Student's, at least 1; tails below 0.0001 as there.

    With n such losses the sum S is independent of the sample's shape p (uniform on the simplex), and Student's
    statistic is below -c if and only if S <= n / (1 + c sqrt(n) sd(p)): so its chance is a mean of gamma distribution
    functions over shapes, of which the table holds the exact distances.
    """
    z, grid = -special.ndtri(np.clip(tail, _TAILS[-1], _TAILS[0])), -special.ndtri(_TAILS)
    rows = np.stack([np.interp(z, grid, row) for row in _RATIOS])  # (numbers of seeds, ...)
    at = np.interp(np.clip(n, _SEEDS[0], _SEEDS[-1]), _SEEDS, np.arange(len(_SEEDS)))
    below = np.minimum(np.nan_to_num(at).astype(np.intp), len(_SEEDS) - 2)
    low, high = (np.take_along_axis(rows, index[None], axis=0)[0] for index in (below, below + 1))
    ratio = low + (high - low) * (at - below)
    farther: Floats = 1 + (ratio - 1) * np.sqrt(_SEEDS[-1] / np.maximum(n, _SEEDS[-1]))
    return farther
