"""Simulated sweeps with a known true loss: statistics of each sentence, under the baseline and a freeze.

A world draws words and correct words a sentence, counts of gold, predicted and correct labels, or losses as such. They
come out centred on the true loss, so that a caller can put the truth where errors are likeliest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orchestrator.analysis.prospects import FREEZEBENCH
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import Folds, Sample, document_sizes, item_losses
from tests.lab.calibration.shapes import Draw, exponential, heteroscedastic, normal, skewed, t5
from trials.metrics.contributions import Score, label_f1, matthews, pseudo_values

COLLAPSE = 0.1  # share of runs
ALIKE = 0.5  # correlation between the losses of two settings, over seeds and over items; 0.49 in the shipped trials
FOLDS = 5
TRUTH_SEEDS = 400_000  # draws of the mean over seeds where it has no closed form


class Drawn(NamedTuple):
    """Simulated sweeps.

    Attributes:
        losses: (sweeps, settings, seeds, items) less the true loss.
        collapsed: (sweeps, settings, seeds) which runs did; None for none.
        sizes: (items,) sentences of each, where items are documents; or the folds that seeds are scored on.
        plain: The losses by sentence, as they would be if nothing was known of documents, or of words.
    """

    losses: Floats
    collapsed: npt.NDArray[np.bool_] | None = None
    sizes: Sample | None = None
    plain: Floats | None = None


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
        settings: Freezes that are compared; their losses correlate by a half.
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

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> Drawn:
        """All settings."""
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
        return Drawn(losses.reshape(rate.shape), collapsed if self.collapse else None)

    def _correlated(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Losses by seed and by sentence; of settings, half of the variance is shared."""
        by_sentence = normal(rng, (*shape[:2], self.n_sentences), ALIKE)[:, :, None]
        if self.hit < 1:
            by_sentence = np.sign(by_sentence) * (rng.random(by_sentence.shape) < self.hit) / np.sqrt(self.hit)
        return self.seeds * self.shape(rng, shape, ALIKE)[..., None], self.sentences * by_sentence


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

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> Drawn:
        """One setting."""
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
        return Drawn((losses - self._true())[:, None])

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


@dataclass(frozen=True)
class Crossed:
    """Losses of seeds and of items that add up, with noise of each seed's own on each item.

    Attributes:
        seeds_share: Share of the seeds in the variance of the mean over eight seeds.
        shape: Distribution of the seeds' losses.
        ratio: How many times as variable over seeds the first setting is.
        alike: Correlation between the losses of two settings under one seed.
        seeds: Deviation of the mean loss of a seed, 0.01 is a point.
    """

    seeds_share: float
    shape: Draw = normal
    ratio: float = 1.0
    alike: float = ALIKE
    seeds: float = 0.01
    settings: int = 3
    n_items: int = 100

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> Drawn:
        """All settings."""
        items = self.seeds * np.sqrt(self.n_items / 8 * (1 / self.seeds_share - 1))
        by_item = items * normal(rng, (sweeps, self.settings, self.n_items), ALIKE)
        noise = 0.5 * items * rng.standard_normal((sweeps, self.settings, n_seeds, self.n_items))
        by_seed = self.seeds * self.shape(rng, (sweeps, self.settings, n_seeds), self.alike)
        by_seed[:, 0] *= self.ratio
        return Drawn(by_seed[..., None] + by_item[:, :, None] + noise)


@dataclass(frozen=True)
class Documents:
    """Sentences of documents of unequal sizes (lognormal with deviation 0.8 of their logarithm; equal at 0).

    Attributes:
        alike: Correlation of the losses of two sentences of a document.
    """

    n_documents: int
    alike: float
    unequal: float = 0.8
    seeds: float = 0.003
    sentences: float = 0.1
    n_sentences: int = 500
    settings: int = 1

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> Drawn:
        """All settings; the sizes are the same in all sweeps that are drawn together."""
        raw = rng.lognormal(0, self.unequal, self.n_documents)
        sizes = np.maximum(1, np.round(self.n_sentences * raw / raw.sum())).astype(np.int64)
        codes = np.repeat(np.arange(self.n_documents), sizes)
        shape = (sweeps, self.settings)
        shared = np.sqrt(self.alike) * normal(rng, (*shape, self.n_documents), ALIKE)[..., codes]
        own = np.sqrt(1 - self.alike) * normal(rng, (*shape, len(codes)), ALIKE)
        by_seed = self.seeds * normal(rng, (*shape, n_seeds), ALIKE)
        noise = self.sentences * rng.standard_normal((*shape, n_seeds, len(codes)))
        by_sentence = by_seed[..., None] + self.sentences * (shared + own)[:, :, None] + noise
        items = item_losses(by_sentence.reshape(-1, len(codes)), codes).reshape(*shape, n_seeds, -1)
        return Drawn(items, sizes=document_sizes(codes, len(codes)), plain=by_sentence)


@dataclass(frozen=True)
class Ratio:
    """Accuracy over words, with `loss` lost by the freeze: sentences differ in their words and in their difficulty."""

    loss: float
    seeds: float = 0.003
    error: float = 0.05
    n_sentences: int = 500
    n_words: int = 15

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> Drawn:
        """One setting; `plain` are the losses without the ratio's linear form."""
        words = 1 + rng.negative_binomial(2, 2 / (1 + self.n_words), (sweeps, 1, self.n_sentences))
        seeds = self.seeds * rng.standard_normal((sweeps, n_seeds, 1))
        rate = np.clip(self.loss + seeds, 0, 1)
        difficulty = rng.gamma(2, 1 / 2, (sweeps, 1, self.n_sentences))
        missed = rng.binomial(words, np.minimum(rate * difficulty, 1))
        noise = rng.binomial(words, self.error, missed.shape) - rng.binomial(words, self.error, missed.shape)
        plain = (missed + noise) / words.mean(axis=2, keepdims=True)
        linear = np.stack([item_losses(one, words=of[0]) for one, of in zip(plain, words, strict=True)])
        true = float(np.minimum(self.loss * rng.gamma(2, 1 / 2, TRUTH_SEEDS), 1).mean())
        return Drawn(linear[:, None] - true, plain=plain[:, None] - true)


@dataclass(frozen=True)
class Folded:
    """Cross-validation: each seed's loss is of its own fold, and any two are correlated as their test share is large.

    Attributes:
        of_fold: Share of the variance that the fold itself has, the same under every seed that is scored on it; None
            for the correlation of Nadeau and Bengio between any two seeds, 1 / folds.
    """

    folds: int
    shape: Draw = normal
    of_fold: float | None = None
    deviation: float = 0.004

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> Drawn:
        """One setting."""
        shared = 1 / self.folds if self.of_fold is None else self.of_fold
        common = rng.standard_normal((sweeps, 1, 1 if self.of_fold is None else self.folds))
        of_seeds = common[:, :, np.arange(n_seeds) % common.shape[2]]
        losses = np.sqrt(shared) * of_seeds + np.sqrt(1 - shared) * self.shape(rng, (sweeps, 1, n_seeds))
        return Drawn(self.deviation * losses[..., None], sizes=Folds(self.folds, 260))


@dataclass(frozen=True)
class InFolds:
    """A cross-validation over items: each seed is scored on one fold of them, and train sets overlap.

    Attributes:
        world: Of whose `n_sentences` each fold has its share.
        common: Deviation of what the losses of all seeds share, as their train sets overlap: 1 / (folds - 1) of the
            variance of one seed, which Nadeau and Bengio presume.
    """

    world: Words | Classes
    common: float
    folds: int = FOLDS

    def draw(self, rng: np.random.Generator, sweeps: int, n_seeds: int) -> Drawn:
        """All settings of the world."""
        n = self.world.n_sentences // self.folds
        fold_of = np.arange(n_seeds) % self.folds
        parts = []
        for fold, rounds in enumerate(np.bincount(fold_of, minlength=self.folds).tolist()):
            scored = replace(self.world, n_sentences=n).draw(rng, sweeps, rounds).losses
            part = np.full((*scored.shape[:2], n_seeds, n), np.nan)
            part[:, :, fold_of == fold] = scored
            parts.append(part)
        common = self.common * normal(rng, (*parts[0].shape[:2], 1), ALIKE)[..., None]
        return Drawn(np.concatenate(parts, axis=-1) + common, sizes=Folds(self.folds, n * self.folds))


World = Words | Classes | Crossed | Documents | Ratio | Folded | InFolds
SHAPES: dict[str, Draw] = {"normal": normal, "t5": t5, "skewness 1": skewed}
SHARES = (0.5, 0.8, 0.9, 0.98)  # of the seeds in the variance
SINGLE: dict[str, World] = {  # one setting
    f"{name}, seeds {100 * share:g} %": Crossed(share, shape, settings=1, n_items=40)
    for name, shape in SHAPES.items()
    for share in SHARES
}
FAMILIES: dict[str, World] = {  # settings that are compared and share their variance over seeds
    f"{name}, seeds {100 * share:g} %, one {ratio:g} times, alike {alike:g}": Crossed(share, shape, ratio, alike)
    for name, shape in SHAPES.items()
    for share, ratio in ((0.5, 1.0), (0.5, 3.0), (0.9, 1.5), (0.98, 3.0))
    for alike in (0.0, 0.5, 1.0)
}
STRESS: dict[str, World] = {  # more skewed than is promised for
    f"exponential, seeds {100 * share:g} %": Crossed(share, exponential) for share in SHARES
}
OTHERS: dict[str, World] = {
    "mostly sentences": Words(seeds=0.001, sentences=0.10),
    "mixed": Words(seeds=0.006, sentences=0.08),
    "heteroscedastic": Words(seeds=0.008, sentences=0.05, shape=heteroscedastic),
    "coarse: 200 texts": Words(0.008, 0.18, n_sentences=200, n_words=1, hit=0.05, churn=0.005, shape=skewed),
    **{
        f"churn {200 * churn:g} %": Words(0.008, 0.05, n_words=1, churn=churn, shape=skewed, settings=3)
        for churn in (0.05, 0.12)
    },
    "F1": Classes(label_f1(1)),
    "Matthews": Classes(matthews, shape=skewed),
    "10 % collapse, left out": Words(seeds=0.006, sentences=0.05, collapse=COLLAPSE),
    **{f"{n} documents, alike {alike:g}": Documents(n, alike) for n in (5, 10, 40) for alike in (0, 0.05, 0.2)},
    **{f"{n} documents, compared": Documents(n, 0.05, settings=3, n_sentences=200) for n in (5, 10)},
    **{f"words, loss {100 * loss:g} points": Ratio(loss) for loss in (0.01, 0.03, 0.1)},
    **{f"{n} folds, skewness 1": Folded(n, skewed) for n in (4, 5, 10)},
    **{f"{n} folds, alike {alike:g}": Folded(n, of_fold=alike) for n in (4, 5, 10) for alike in (0.5, 0.9)},
}


def _small(what: str, n: int, times: int, shape: Draw) -> tuple[Words | Classes, float]:
    """A small set whose losses vary as in FreezeBench, over seeds so many times as much, and what seeds share."""
    own, common = np.sqrt(1 - 1 / FOLDS), np.sqrt(1 / FOLDS)
    if what == "F1":  # falls by 1.5 points for each of the error rate
        return Classes(label_f1(1), 0.006 * times * own, n, shape=shape), 0.009 * times * common
    of = FREEZEBENCH["tags" if what == "tags" else "classes"]
    seeds, sentences = of.seeds / 100 * times, of.examples / 100
    n_words, hit, churn = (15, 0.3, 0.01) if what == "tags" else (1, 0.05, 0.05)  # so that seeds differ as there
    return Words(seeds * own, sentences, n, n_words, hit, churn, shape, settings=3), seeds * common


SMALL = {
    f"{what}, {n:,} in folds, seeds {times} times, {name}": _small(what, n, times, SHAPES[name])
    for what in ("texts", "tags", "F1")
    for n in (300, 1000)
    for times in (1, 5)
    for name in ("normal", "skewness 1")
}
# Where it matters what is a sample, and of what: the dev set, documents, words.
NEGLECTED = [
    name for name in OTHERS if isinstance(OTHERS[name], Documents | Ratio) or name in ("mostly sentences", "mixed")
]
WORLDS = SINGLE | FAMILIES | STRESS | OTHERS
