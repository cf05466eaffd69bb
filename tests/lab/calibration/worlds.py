"""Simulated sweeps with a known true loss: statistics of each sentence, under the baseline and a freeze.

A world draws what a store would keep: words and correct words a sentence, or counts of gold, predicted and correct
labels. Its losses come out centred on the true loss, so that a caller can put the truth where errors are likeliest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trials.metrics.pseudo_values import Score, label_f1, matthews, pseudo_values

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]  # mean 0, deviation 1
COLLAPSE = 0.1  # share of runs
TRUTH_SEEDS = 400_000  # draws of the mean over seeds where it has no closed form


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.standard_normal(shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Skewness 1.4 of the loss, so -1.4 of the score."""
    values: Floats = (rng.gamma(2.04, 1, shape) - 2.04) / np.sqrt(2.04)
    return values


def exponential(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.exponential(1, shape) - 1


def heteroscedastic(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Every seed has a deviation of its own, lognormal; excess kurtosis 5."""
    scale = np.exp(0.5 * rng.standard_normal(shape))
    values: Floats = scale * rng.standard_normal(shape) / np.exp(0.25)
    return values


@dataclass(frozen=True)
class Words:
    """Accuracy over words, as tagging has it.

    Attributes:
        seeds: Deviation of a seed's true loss, 0.01 is a point.
        sentences: Deviation of a sentence's true loss.
        n_sentences: Dev sentences.
        n_words: Mean words of a sentence; 1 for one label a sentence.
        hit: Share of the sentences that the freeze changes at all; 1 for normal losses of sentences.
        churn: Chance of a word to change in either direction for nothing.
        shape: Distribution of the seeds' losses.
        settings: Freezes that are compared; they share the baseline's luck, correlation a half.
        collapse: Share of the runs that fall by 30 points.
    """

    seeds: float
    sentences: float
    n_sentences: int = 500
    n_words: int = 15
    hit: float = 1.0
    churn: float = 0.02
    shape: Draw = normal
    settings: int = 1
    collapse: float = 0.0

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Losses (sweeps, settings, seeds, sentences) of mean 0, and which runs collapsed (sweeps, settings, seeds)."""
        shape = (sweeps, self.settings, n_seeds)
        words = 1 + rng.negative_binomial(2, 2 / (1 + self.n_words), (sweeps, self.n_sentences))
        if self.n_words == 1:
            words = np.ones_like(words)
        by_seed, by_sentence = self._correlated(rng, shape)
        rate = np.clip(by_seed + by_sentence, -0.9, 0.9)
        collapsed = rng.random(shape) < self.collapse
        rate = np.where(collapsed[..., None], 0.3, rate)
        lost, gained = np.maximum(rate, 0) + self.churn, np.maximum(-rate, 0) + self.churn
        change = rng.random(rate.shape) if self.n_words == 1 else None
        if change is not None:
            found = (change < lost).astype(np.int64) - (change > 1 - gained)
        else:
            many = np.broadcast_to(words[:, None, None, :], rate.shape)
            found = rng.binomial(many, np.minimum(lost, 1)) - rng.binomial(many, np.minimum(gained, 1))
        none = np.zeros_like(found[0]).reshape(-1, self.n_sentences)  # what the two runs both have right cancels
        losses = np.stack([found[i].reshape(none.shape) / words[i].mean() for i in range(sweeps)])
        return losses.reshape(rate.shape), collapsed

    def _correlated(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Losses by seed and by sentence; of settings, half of the variance is shared."""
        sentence_shape = (*shape[:2], 1, self.n_sentences)
        shared = rng.standard_normal((shape[0], 1, 1, self.n_sentences))
        by_sentence = np.sqrt(0.5) * (shared + rng.standard_normal(sentence_shape))
        if self.hit < 1:
            by_sentence = np.sign(by_sentence) * (rng.random(sentence_shape) < self.hit) / np.sqrt(self.hit)
        if self.settings == 1:
            by_seed = self.shape(rng, (*shape, 1))
        else:
            together = self.shape(rng, (shape[0], 1, shape[2], 1))
            by_seed = np.sqrt(0.5) * (together + self.shape(rng, (*shape, 1)))
        return self.seeds * by_seed, self.sentences * by_sentence


@dataclass(frozen=True)
class Classes:
    """A score of counts over texts of two classes, as GLUE's F1 and Matthews' correlation.

    Attributes:
        score: Takes counts to the score.
        seeds: Deviation of a seed's error rate under the freeze.
        n_sentences: Dev texts.
        positive: Share of the positive class.
        error: Error rate of the baseline.
        more: By how much the freeze's is higher.
        alike: Share of the texts that are as hard after the freeze as before.
        steady: Share of the texts whose difficulty is the same under a seed as under all.
        shape: Distribution of the seeds' error rates.
        truth: Where the true loss is remembered.
    """

    score: Score
    seeds: float = 0.01
    n_sentences: int = 500
    positive: float = 0.3
    error: float = 0.10
    more: float = 0.02
    alike: float = 0.8
    steady: float = 0.8
    shape: Draw = normal
    truth: dict[str, float] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """As of `Words`, one setting."""
        gold = rng.random((sweeps, self.n_sentences)) < self.positive
        rates = [self._errors(rng, (sweeps, n_seeds, 1), more) for more in (0.0, self.more)]
        hard = rng.random((2, sweeps, 1, self.n_sentences))  # a text is wrong where this is below the error rate
        hard[1] = np.where(rng.random(hard[1].shape) < self.alike, hard[0], hard[1])
        counts = []
        for hard_of, rate in zip(hard, rates, strict=True):
            shape = (sweeps, n_seeds, self.n_sentences)
            wrong = np.where(rng.random(shape) < self.steady, hard_of, rng.random(shape)) < rate
            predicted = gold[:, None, :] ^ wrong
            counts.append(_two_classes(np.broadcast_to(gold[:, None, :], predicted.shape), predicted))
        none, freeze = ([pseudo_values(each, self.score) for each in side] for side in counts)
        losses = np.stack(none) - np.stack(freeze)
        return (losses - self._true())[:, None], np.zeros((sweeps, 1, n_seeds), dtype=bool)

    def _errors(self, rng: np.random.Generator, shape: tuple[int, ...], more: float) -> Floats:
        spread = self.seeds if more else 0.3 * self.seeds
        return np.clip(self.error + more + spread * self.shape(rng, shape), 0.005, 0.6)

    def _true(self) -> float:
        """Mean over seeds of the loss on endless texts."""
        if "loss" not in self.truth:
            rng = np.random.default_rng(0)
            scores = [self.score(self._endless(self._errors(rng, (TRUTH_SEEDS,), more))) for more in (0.0, self.more)]
            self.truth["loss"] = float((scores[0] - scores[1]).mean())
        return self.truth["loss"]

    def _endless(self, error: Floats) -> Floats:
        """Expected counts (..., 3, 2) a text."""
        share = np.array([1 - self.positive, self.positive])
        correct = share * (1 - error[..., None])
        return np.stack([np.broadcast_to(share, correct.shape), correct + share[::-1] * error[..., None], correct], -2)


def _two_classes(gold: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> Floats:
    """Counts (..., 3, 2) of each text."""
    rows = [np.stack([~each, each], axis=-1) for each in (gold, predicted)]
    return np.stack([*rows, rows[0] & rows[1]], axis=-2).astype(np.float64)


WORLDS: dict[str, Words | Classes] = {
    "normal, mostly seeds": Words(seeds=0.010, sentences=0.03),
    "skewness -1.4, mostly seeds": Words(seeds=0.010, sentences=0.03, shape=skewed),
    "exponential, mostly seeds": Words(seeds=0.010, sentences=0.03, shape=exponential),
    "exponential, both": Words(seeds=0.006, sentences=0.06, shape=exponential),
    "mostly sentences": Words(seeds=0.001, sentences=0.10),
    "mixed": Words(seeds=0.006, sentences=0.08),
    "heteroscedastic": Words(seeds=0.008, sentences=0.05, shape=heteroscedastic),
    "coarse: 200 texts": Words(0.008, 0.18, n_sentences=200, n_words=1, hit=0.05, churn=0.005, shape=skewed),
    "F1": Classes(label_f1(1)),
    "Matthews": Classes(matthews, shape=skewed),
    "10 % collapse": Words(seeds=0.006, sentences=0.05, collapse=COLLAPSE),
}
