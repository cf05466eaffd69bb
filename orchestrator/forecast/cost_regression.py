"""A cost model: what a unit of each kind of work takes, fitted to observed trials, and how far trials lie from it.

Seconds (or bytes) are a sum of terms, each a coefficient of at least zero times an amount of work, so that more work is
never forecast cheaper. Errors are relative, so each observation is divided by its size before non-negative least
squares (Lawson & Hanson 1974), and outliers, of which a busy machine has many, are weighted down (Huber 1964).

How far trials lie from it is a sum of three logarithms: one of their shape, which the terms do not know everything of;
one of the launch, as machines are faster on some days; and one of each trial. Their variances are estimated together
by expectation and maximisation (Laird & Ware 1982), from a prior that counts as a few observations, so that a handful
of trials does not look exact. A shape that was seen is corrected by what was seen of it, shrunk as its n demands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

ROUNDS = 12
HUBER = 2.0  # of a robust standard deviation: beyond it an observation counts less
PRIOR_WEIGHT = 0.05  # of the prior's shares against one observation


@dataclass(frozen=True)
class Terms:
    """Coefficients, one a term, at least 0."""

    coefficients: tuple[float, ...]

    def of(self, terms: Sequence[float]) -> float:
        """Seconds or bytes of so much work."""
        return float(np.dot(self.coefficients, terms))


def fit_terms(work: Sequence[Sequence[float]], seen: Sequence[float], shares: Sequence[float]) -> Terms:
    """Coefficients for observations.

    Args:
        work: (observations, terms).
        seen: (observations,) seconds or bytes, above 0.
        shares: (terms,) which part of the whole each term is where the observations do not tell, as is so of one alone.
    """
    amounts, values = np.asarray(work, float), np.asarray(seen, float)
    relative = amounts / values[:, None]
    typical = relative.mean(axis=0)
    used = typical > 0
    prior = PRIOR_WEIGHT * np.diag(typical)
    weights = np.ones(len(values))
    found = np.zeros(amounts.shape[1])
    for _ in range(ROUNDS):
        left = np.vstack([relative * weights[:, None], prior])
        right = np.concatenate([weights, PRIOR_WEIGHT * np.asarray(shares)])
        found[used], _norm = nnls(left[:, used], right)
        missed = np.abs(relative @ found - 1)
        scale = max(1.4826 * float(np.median(missed)), 0.01)  # of a normal distribution's absolute values
        weights = np.sqrt(np.minimum(1, HUBER * scale / np.maximum(missed, 1e-12)))
    return Terms(tuple(found.tolist()))


@dataclass(frozen=True)
class Prior:
    """Standard deviations of logarithms before anything is seen, and as how many observations they count."""

    trial: float = 0.05
    shape: float = 0.10
    launch: float = 0.08
    counts: float = 3.0


@dataclass(frozen=True)
class Spread:
    """How far trials lie from the terms, as standard deviations of logarithms.

    Attributes:
        trial, shape, launch: Of each trial, shape, launch by itself.
        shapes: Of each shape seen: its own logarithm and what it may be off.
        launches: Of each launch seen, likewise.
        n: Observations.
    """

    trial: float
    shape: float
    launch: float
    shapes: dict[str, tuple[float, float]]
    launches: dict[str, tuple[float, float]]
    n: int

    def of_shape(self, key: str) -> tuple[float, float]:
        """A shape's logarithm and what it may be off; 0 and the spread of shapes where it was never seen."""
        return self.shapes.get(key, (0.0, self.shape))

    def of_launch(self, key: str | None) -> tuple[float, float]:
        """Of the next launch: as launches differ, about that of this key, if one has only just been."""
        mean, off = self.launches.get(key or "", (0.0, 0.0))
        return mean, math.hypot(off, self.launch)


def fit_spread(missed: Sequence[float], shapes: Sequence[str], launches: Sequence[str], prior: Prior) -> Spread:
    """The spread of observations.

    Args:
        missed: (observations,) logarithm of what was seen over what the terms say.
        shapes: (observations,) shape of each.
        launches: (observations,) launch of each.
        prior: What is believed before.
    """
    errors = np.asarray(missed, float)
    errors = np.clip(errors, *(np.median(errors) + np.array([-1.0, 1.0])))  # a trial e times slower is told by n alone
    shape, launch = _Effect(shapes, prior.shape, prior.counts), _Effect(launches, prior.launch, prior.counts)
    trial = prior.trial
    for _ in range(4 * ROUNDS):
        shape.update(errors - launch.each, trial)
        launch.update(errors - shape.each, trial)
        rest = errors - shape.each - launch.each
        own = float(rest @ rest) + float(np.sum(shape.off[shape.index] ** 2))
        trial = math.sqrt((prior.counts * prior.trial**2 + own) / (prior.counts + len(errors)))
    return Spread(trial, shape.sd, launch.sd, shape.seen(), launch.seen(), len(errors))


class _Effect:
    """What the observations of a group have in common."""

    def __init__(self, keys: Sequence[str], sd: float, counts: float) -> None:
        self.names, self.index = np.unique(np.asarray(keys, dtype=object).astype(str), return_inverse=True)
        self.counts = np.bincount(self.index)
        self.means, self.off = np.zeros(len(self.names)), np.full(len(self.names), sd)
        self.sd, self._prior_sd, self._prior_counts = sd, sd, counts

    @property
    def each(self) -> np.ndarray:
        """(observations,) the logarithm of each one's group."""
        return self.means[self.index]

    def update(self, errors: np.ndarray, trial: float) -> None:
        """Estimate the groups' means anew, shrunk to 0, and their spread."""
        shrunk = self.counts + (trial / self.sd) ** 2
        self.means = np.bincount(self.index, errors, minlength=len(self.names)) / shrunk
        self.off = trial / np.sqrt(shrunk)
        total = self._prior_counts * self._prior_sd**2 + float(np.sum(self.means**2 + self.off**2))
        self.sd = math.sqrt(total / (self._prior_counts + len(self.names)))

    def seen(self) -> dict[str, tuple[float, float]]:
        """Name to mean and what it may be off."""
        return dict(zip(self.names.tolist(), zip(self.means.tolist(), self.off.tolist(), strict=True), strict=True))
