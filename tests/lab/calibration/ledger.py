"""The ledger: what losses that were really measured are like, beside what the interval presumes of them.

The guard against skewness (`two_way.GUARD`) promises for losses of a skewness up to `SKEWNESS`, and the variances of a
question's settings are pooled as if they had `PRIOR_DF` degrees of freedom in common. Both were taken from trials, so
both are looked at again with every trial of the shipped store. A value is the mean over its questions.

Skewness: few seeds show little of theirs, so a sample's is set beside what losses of the promised one show in samples
of these sizes.

Prior degrees of freedom: the logarithms of a question's variances spread by trigamma(d / 2) for their own degrees of
freedom d, and by trigamma(d0 / 2) for how much the true ones differ (G. Smyth, "Linear Models and Empirical Bayes
Methods for Assessing Differential Expression in Microarray Experiments", 2004, section 6.2). Settings share the
baseline's runs: where their losses correlate by r, the logarithms do by about r^2, and spread that much less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from orchestrator.analysis.losses import losses
from orchestrator.analysis.prospects import LossVariances
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import PRIOR_DF, SKEWNESS, estimate
from tests.lab.calibration.shipped import Question

LARGEST_RATIO = 3.0  # of one setting's deviation to that of the others: what the worlds draw
LEAST_SEEDS = 3
LEAST_TRAINED = 200  # examples
_DRAWS = 20_000
_LARGEST_DF = 1e3  # above it variances do not differ
_NEUTRAL = 1e-3  # nearer to the score, a contribution in single precision neither raises nor lowers it


class Entry(NamedTuple):
    """A property of losses.

    Attributes:
        low, high: Ends of its 95 % interval over questions.
        presumed: What the interval presumes, in words; empty where it presumes nothing.
        missed: Whether the losses leave that.
    """

    name: str
    value: float
    low: float
    high: float
    presumed: str = ""
    missed: bool = False

    def __str__(self) -> str:
        value = f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"
        line = f"{'ledger':<30} {self.name:<44} {value:<24} {self.presumed}"
        return f"{line.rstrip()} {'MISSED' if self.missed else ''}".rstrip()


def ledger(questions: Sequence[pd.DataFrame]) -> Iterator[Entry]:
    """What is presumed of the losses of seeds, as these questions have it.

    Args:
        questions: Of each, (seeds, settings) losses of settings worth having; NaN where a run is missing.
    """
    yield _skewness(questions)
    correlation = _over_questions("correlation of two settings' losses", map(_correlation, questions))
    yield correlation
    yield _prior_df(questions, correlation.value)


def ledger_of(questions: Sequence[Question]) -> Iterator[Entry]:
    """That of stored trials, with how variable the least and the deepest freeze are."""
    yield from ledger([_compared(each) for each in questions])
    yield _ratio(questions, "embeddings")  # never pooled with the others
    deepest = _ratio(questions, "all+E")
    yield deepest._replace(presumed=f"at most {LARGEST_RATIO:g}", missed=deepest.value > LARGEST_RATIO)


def churn(questions: Sequence[Question]) -> pd.DataFrame:
    """How much of a dev set freezing changes under the same seed, by corpus and encoder, and how much seeds vary.

    Columns: `corpus`, `encoder`, `questions`, `churn` (share of the words or texts that are right in one run and wrong
    in the other, those of one sentence set off against each other; for a score that is no mean, of the sentences that
    raise it in one run and not in the other), `deviation` (of a setting's losses over seeds, points).
    """
    rows = []
    for (corpus, encoder), of in groupby(questions, key=lambda each: (each.corpus, each.encoder)):
        mine = list(of)
        changed = [_changed(each, row) for each in mine for _, row in each.pairs.iterrows()]
        variances = pd.concat([_compared(each).var() for each in mine])
        deviation = 100 * float(np.sqrt(variances.mean()))
        rows.append((corpus, encoder, len(mine), float(np.mean(changed)), deviation))
    return pd.DataFrame(rows, columns=["corpus", "encoder", "questions", "churn", "deviation"])


def deviations(questions: Sequence[Question], task: str) -> LossVariances:
    """Of the settings worth having of a task, trained on 200 examples or more: `prospects.variances_of` it anew."""
    parts = []
    for each in (question for question in questions if question.train_size >= LEAST_TRAINED):
        of = losses(each.trials) if each.trials["task"].iloc[0] == task else None
        for values, row in zip(of.values, of.cells.to_dict("records"), strict=True) if of is not None else ():
            freeze = each.trials.loc[each.trials["cell"] == row["cell"], "freeze"].iloc[0]
            if freeze in each.worth_having and len(values) >= LEAST_SEEDS and values.shape[1] > 1 and of is not None:
                one, size = estimate(values, of.sizes), float(row["n_sentences"])
                alone = float(len(values) * (one.own - one.both))
                parts.append((alone, size * float(one.variance - one.seeds), size * len(values) * float(one.both)))
    return LossVariances(*np.sqrt(np.maximum(np.mean(parts, axis=0), 0)))


def _compared(question: Question) -> pd.DataFrame:
    """(seeds, settings) losses of the settings worth having that have enough seeds."""
    losses = question.seed_losses[question.worth_having]
    return losses.loc[:, losses.count() >= LEAST_SEEDS]


def _changed(question: Question, row: pd.Series) -> float:
    base, own = row["sentences_base"], row["sentences"]
    if question.trials["metric"].iloc[0] == "accuracy":
        return float(np.abs(own - base).mean())
    base, own = base - row["score_base"], own - row["score"]
    sides = [np.sign(np.where(np.abs(each) < _NEUTRAL, 0, each)) for each in (base, own)]
    return float((sides[0] != sides[1]).mean())


def _skewness(questions: Sequence[pd.DataFrame]) -> Entry:
    samples = [[each[name].dropna().to_numpy() for name in each] for each in questions]
    sizes = [np.array([len(values) for values in each]) for each in samples]
    rng = np.random.default_rng(0)
    shown = {n: _sample_skewness(rng.gamma(4 / SKEWNESS**2, 1, (_DRAWS, n))).mean() for n in {*np.concatenate(sizes)}}
    most = float(np.mean([np.mean([shown[n] for n in each]) for each in sizes]))
    entry = _over_questions(
        "skewness of a sample", (float(np.mean([*map(_sample_skewness, each)])) for each in samples)
    )
    return entry._replace(presumed=f"below {most:.2f}: skewness {SKEWNESS:g}", missed=entry.high > most)


def _prior_df(questions: Sequence[pd.DataFrame], correlation: float) -> Entry:
    entry = _over_questions("", (_excess(each, correlation) for each in questions))
    value, high, low = (_df_of_spread(spread) for spread in entry[1:4])
    return Entry("prior degrees of freedom", value, low, high, f"at least {PRIOR_DF:g}", value < PRIOR_DF)


def _excess(losses: pd.DataFrame, correlation: float) -> float:
    """Variance of the log variances beyond that of their own degrees of freedom."""
    half_df = (losses.count() - 1) / 2
    logs = np.log(losses.var()) - special.digamma(half_df) + np.log(half_df)
    return float(logs.var() - (1 - correlation**2) * special.polygamma(1, half_df).mean())


def _df_of_spread(spread: float) -> float:
    """Degrees of freedom d0 with trigamma(d0 / 2) of that value."""
    if spread <= special.polygamma(1, _LARGEST_DF / 2):
        return np.inf
    return 2 * float(optimize.brentq(lambda half: special.polygamma(1, half) - spread, 1e-2, _LARGEST_DF))


def _correlation(losses: pd.DataFrame) -> float:
    pairs = losses.corr(min_periods=LEAST_SEEDS).to_numpy()[np.triu_indices(losses.shape[1], 1)]
    return float(np.nanmean(pairs))


def _ratio(questions: Sequence[Question], freeze: str) -> Entry:
    """How much more one freeze's losses vary over seeds than the others that are worth having."""
    logs = []
    for each in questions:
        deviations = np.log(_compared(each).std()).drop(freeze, errors="ignore")
        if each.seed_losses.get(freeze, pd.Series()).count() >= LEAST_SEEDS:
            logs.append(float(np.log(each.seed_losses[freeze].std()) - deviations.mean()))
    entry = _over_questions(f"deviation of {freeze} / of the others", logs)
    return entry._replace(value=np.exp(entry.value), low=np.exp(entry.low), high=np.exp(entry.high))


def _over_questions(name: str, values: Iterable[float]) -> Entry:
    """Their mean with its 95 % interval."""
    each = np.array([*values])
    mean, half = each.mean(), stats.t.ppf(0.975, len(each) - 1) * stats.sem(each)
    return Entry(name, float(mean), float(mean - half), float(mean + half))


def _sample_skewness(values: Floats) -> Floats:
    """Fisher's, adjusted for the number of values (..., n)."""
    skewness: Floats = stats.skew(values, axis=-1, bias=False)
    return skewness
