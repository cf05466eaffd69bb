"""A learning curve, and what may come of it as a weighted sample: the values of `orchestrator.forecast.curve`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orchestrator.forecast.figure import HIGH, LOW, Figure

Floats = npt.NDArray[np.float64]
NOISE = 0.002  # of a score, at least: dev sets have a few thousand labels
DOUBT = 0.3  # standard deviation of a gain that a curve itself promises, as a share of it
AGAIN_DOUBT = 0.4  # likewise of what another epoch brings
WOBBLE = 0.1  # of the newest changes counts as noise
SAME = 1e-6  # epochs so near to each other are one: evaluations at thirds of an epoch are rounded
_DIGITS = 12
_MOST_AHEAD = 12
# Eleven equally likely values of Student's t with 4 degrees of freedom: tails of a spread that few points tell.
NODES: Floats = np.array([-2.2171, -1.2706, -0.8273, -0.5108, -0.2455, 0.0, 0.2455, 0.5108, 0.8273, 1.2706, 2.2171])


@dataclass(frozen=True)
class Curve:
    """The evaluations of a trial.

    Attributes:
        epochs: Passes over the train subset, above 0 and rising; fractions where a trial is evaluated more often.
        scores: Of each; larger is better.

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
        """The epochs of the evaluations to come, as far apart as those before, at most `_MOST_AHEAD`, with the end.

        Empty where the curve is at its end, or beyond.
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
    """What may come, as a weighted sample.

    Attributes:
        values: (draws,).
        weights: (draws,), at least 0; their sum is the weight of all this among others.
    """

    values: Floats
    weights: Floats

    @classmethod
    def around(cls, middles: Floats, weights: Floats, spread: Floats | float) -> Draws:
        """A bell of `NODES` around each middle, (middles,), with the middle's weight and spread."""
        values = middles[:, None] + np.reshape(spread, (-1, 1)) * NODES
        return cls(values.ravel(), np.repeat(weights / len(NODES), len(NODES)))

    def at_least(self, least: float) -> Draws:
        """With all that is lower raised to it."""
        return Draws(np.maximum(self.values, least), self.weights)

    def plus(self, shift: float) -> Draws:
        """With all moved."""
        return Draws(self.values + shift, self.weights)

    def times(self, factor: float, share: float) -> Draws:
        """Values times a factor, with a part of the weight."""
        return Draws(factor * self.values, share * self.weights)

    def figure(self, source: str, most: float) -> Figure:
        """Quantiles 0.1, 0.5 and 0.9, none above `most`; midpoints of the steps of the weights, joined by lines."""
        order = np.lexsort((self.weights, self.values.round(_DIGITS)))  # of equals always the same one comes last
        values, weights = self.values[order], self.weights[order]
        places = (np.cumsum(weights) - weights / 2) / weights.sum()
        low, median, high = np.minimum(np.interp([LOW, 0.5, HIGH], places, values), most)
        return Figure(float(low), float(median), float(high), source)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What one source tells of a trial.

    Attributes:
        path: The score of each evaluation to come.
        top: The best score by the planned end.
        gain: Over the last epochs before the end; None where not known.
        said: What it is, in words.
    """

    path: Sequence[Draws]
    top: Draws
    gain: Draws | None
    said: str


def joined(parts: Sequence[Draws]) -> Draws:
    """Several samples as one, each with its weight."""
    return Draws(np.concatenate([part.values for part in parts]), np.concatenate([part.weights for part in parts]))


def between(epochs: Floats, scores: Floats, epoch: float) -> Floats:
    """The scores of curves with the same epochs at any epoch, on lines between evaluations, (curves,)."""
    if len(epochs) == 1:
        return scores[:, 0]
    right = int(np.clip(np.searchsorted(epochs, epoch), 1, len(epochs) - 1))
    share = float(np.clip((epoch - epochs[right - 1]) / (epochs[right] - epochs[right - 1]), 0.0, 1.0))
    found: Floats = scores[:, right - 1] * (1 - share) + scores[:, right] * share
    return found


def jitter(curve: Curve) -> float:
    """Standard deviation of an evaluation, at least: `NOISE`, and a part of the newest changes."""
    changes = np.abs(np.diff(curve.scores))[-3:]
    return float(np.hypot(NOISE, WOBBLE * changes.mean())) if len(changes) else NOISE
