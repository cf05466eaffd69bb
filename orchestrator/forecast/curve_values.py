"""Learning curves, and predictions as weighted samples: the values of `orchestrator.forecast.curve`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orchestrator.forecast.figure import HIGH, LOW, Figure

Floats = npt.NDArray[np.float64]
NOISE = 0.002  # least standard deviation of a score: dev sets have a few thousand labels
DOUBT = 0.3  # relative standard deviation of an extrapolated gain
AGAIN_DOUBT = 0.4  # relative standard deviation of the gain of one more epoch
WOBBLE = 0.1  # share of the newest changes that counts as noise
SAME = 1e-6  # tolerance for equal epochs: evaluations at thirds of an epoch are rounded
_DIGITS = 12
_MOST_AHEAD = 12
# Eleven equally likely values of Student's t with 4 degrees of freedom: heavy tails, as few points estimate the spread.
NODES: Floats = np.array([-2.2171, -1.2706, -0.8273, -0.5108, -0.2455, 0.0, 0.2455, 0.5108, 0.8273, 1.2706, 2.2171])


@dataclass(frozen=True)
class Curve:
    """The evaluations of a trial.

    Attributes:
        epochs: Passes over the train subset, above 0 and rising; fractions where a trial is evaluated more often.
        scores: The score of each; larger is better.

    Raises:
        ValueError: The two differ in length, an epoch is not above the one before, or a number is not finite.
    """

    epochs: tuple[float, ...]
    scores: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.epochs) != len(self.scores):
            raise ValueError(f"a curve has {len(self.epochs)} epochs, but {len(self.scores)} scores")
        if not all(map(math.isfinite, (*self.epochs, *self.scores))):
            raise ValueError("a curve has finite epochs and scores only")
        if any(later <= before for before, later in zip((0.0, *self.epochs), self.epochs, strict=False)):
            raise ValueError(f"epochs of a curve rise from above 0, not {self.epochs}")

    def __len__(self) -> int:
        return len(self.epochs)

    @property
    def now(self) -> float:
        """The epoch of the newest evaluation. Raises IndexError of an empty curve."""
        return self.epochs[-1]

    @property
    def best(self) -> float:
        """The best score so far. Raises ValueError of an empty curve."""
        return max(self.scores)

    def ahead(self, planned: float) -> Floats:
        """The epochs of the remaining evaluations, at the spacing so far, at most `_MOST_AHEAD`, with the end.

        Empty if the curve is at its planned end or beyond.
        """
        if self.now >= planned or self.ends_at(planned):
            return np.empty(0)
        step = float(np.median(np.diff((0.0, *self.epochs))))
        n = int(np.clip(round((planned - self.now) / step), 1, _MOST_AHEAD))
        return np.linspace(self.now, planned, n + 1)[1:]

    def ends_at(self, planned: float) -> bool:
        """Whether its last evaluation is at the planned end."""
        return len(self) > 0 and abs(self.now - planned) <= SAME * max(1.0, planned)


@dataclass(frozen=True, eq=False)
class Draws:
    """A weighted sample of a prediction.

    Attributes:
        values: (draws,).
        weights: (draws,), at least 0; their sum is the weight of this sample among others.
    """

    values: Floats
    weights: Floats

    @classmethod
    def around(cls, middles: Floats, weights: Floats, spread: Floats | float) -> Draws:
        """The distribution `NODES` around each middle, (middles,), with its weight and spread."""
        values = middles[:, None] + np.reshape(spread, (-1, 1)) * NODES
        return cls(values.ravel(), np.repeat(weights / len(NODES), len(NODES)))

    def at_least(self, least: float) -> Draws:
        """The sample with lower values raised to `least`."""
        return Draws(np.maximum(self.values, least), self.weights)

    def plus(self, shift: float) -> Draws:
        """The sample shifted by `shift`."""
        return Draws(self.values + shift, self.weights)

    def times(self, factor: float, share: float) -> Draws:
        """The values times `factor`, with a share of the weight."""
        return Draws(factor * self.values, share * self.weights)

    def figure(self, source: str, most: float) -> Figure:
        """Quantiles 0.1, 0.5 and 0.9, at most `most`, by linear interpolation between midpoints of the weights."""
        order = np.lexsort((self.weights, self.values.round(_DIGITS)))  # equal values have a fixed order
        values, weights = self.values[order], self.weights[order]
        places = (np.cumsum(weights) - weights / 2) / weights.sum()
        low, median, high = np.minimum(np.interp([LOW, 0.5, HIGH], places, values), most)
        return Figure(float(low), float(median), float(high), source)


@dataclass(frozen=True, eq=False)
class CurvePrediction:
    """The prediction of a trial from one source.

    Attributes:
        path: The score of each remaining evaluation.
        top: The best score by the planned end.
        gain: The gain over the last window of epochs; None if unknown.
    """

    path: Sequence[Draws]
    top: Draws
    gain: Draws | None
    label: str


def joined(parts: Sequence[Draws]) -> Draws:
    """Several samples as one."""
    return Draws(np.concatenate([part.values for part in parts]), np.concatenate([part.weights for part in parts]))


def between(epochs: Floats, scores: Floats, epoch: float) -> Floats:
    """The scores (curves,) at any epoch, by linear interpolation; `scores` is (curves, epochs)."""
    if len(epochs) == 1:
        return scores[:, 0]
    right = int(np.clip(np.searchsorted(epochs, epoch), 1, len(epochs) - 1))
    share = float(np.clip((epoch - epochs[right - 1]) / (epochs[right] - epochs[right - 1]), 0.0, 1.0))
    return np.asarray(scores[:, right - 1] * (1 - share) + scores[:, right] * share)


def jitter(curve: Curve) -> float:
    """Least standard deviation of an evaluation: `NOISE` and a share of the newest changes."""
    changes = np.abs(np.diff(curve.scores))[-3:]
    return float(np.hypot(NOISE, WOBBLE * changes.mean())) if len(changes) else NOISE
