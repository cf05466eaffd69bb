"""Regression of cost on work: the cost per unit of each kind of work, and the spread of trials around it.

Seconds (or bytes) are a sum of terms, each a non-negative coefficient times an amount of work, so that more work is
never forecast to be cheaper. Errors are relative: each observation is divided by its value before non-negative least
squares (Lawson & Hanson 1974). Outliers, frequent on a busy machine, have reduced weights (Huber 1964).

The log residual of a trial is the sum of three random effects: of its shape, which the terms do not fully describe;
of its launch, as the speed of a machine varies; and of the trial. Their variances are estimated jointly by
expectation maximisation (Laird & Ware 1982), with a prior that counts as a few observations, so that a handful of
trials does not look exact. An observed shape is corrected by its estimated effect, which is shrunk the more, the
fewer its trials.

It reads no store, so that a machine without pyarrow can fit the peak memory of its trials (`make gpu`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ROUNDS = 12
HUBER = 2.0  # robust standard deviations beyond which an observation has a reduced weight
PRIOR_WEIGHT = 0.05  # weight of the prior shares relative to one observation


@dataclass(frozen=True)
class Terms:
    """Non-negative coefficients, one per term."""

    coefficients: tuple[float, ...]

    def of(self, terms: Sequence[float]) -> float:
        """Predicted seconds or bytes for amounts of work, (terms,)."""
        return float(np.dot(self.coefficients, terms))


def fit_terms(work: Sequence[Sequence[float]], observed: Sequence[float], shares: Sequence[float]) -> Terms:
    """Fit coefficients to observations.

    Args:
        work: (observations, terms).
        observed: (observations,) seconds or bytes, above 0.
        shares: (terms,) prior share of each term, for observations that cannot separate the terms.
    """
    amounts, values = np.asarray(work, float), np.asarray(observed, float)
    relative = amounts / values[:, None]
    typical = relative.mean(axis=0)
    used = typical > 0
    from scipy.optimize import nnls  # takes half a second, which a launch without past trials does not need

    prior = PRIOR_WEIGHT * np.diag(typical)
    weights = np.ones(len(values))
    coefficients = np.zeros(amounts.shape[1])
    for _ in range(ROUNDS):
        left = np.vstack([relative * weights[:, None], prior])
        right = np.concatenate([weights, PRIOR_WEIGHT * np.asarray(shares)])
        coefficients[used], _norm = nnls(left[:, used], right)
        errors = np.abs(relative @ coefficients - 1)
        scale = max(1.4826 * float(np.median(errors)), 0.01)  # standard deviation from the median of absolute errors
        weights = np.sqrt(np.minimum(1, HUBER * scale / np.maximum(errors, 1e-12)))
    return Terms(tuple(coefficients.tolist()))


@dataclass(frozen=True)
class Prior:
    """Prior standard deviations of the log effects, and the number of observations that they count as."""

    trial: float = 0.05
    shape: float = 0.10
    launch: float = 0.08
    counts: float = 3.0


@dataclass(frozen=True)
class Spread:
    """The spread of trials around the regression, as standard deviations of log effects.

    Attributes:
        trial, shape, launch: Standard deviation of each effect.
        shapes: Observed shape -> its log effect and standard error.
        launches: Observed launch -> the same.
    """

    trial: float
    shape: float
    launch: float
    shapes: dict[str, tuple[float, float]]
    launches: dict[str, tuple[float, float]]
    n: int

    def of_shape(self, key: str) -> tuple[float, float]:
        """The log effect of a shape and its standard error; 0 and the spread of shapes if it was not observed."""
        return self.shapes.get(key, (0.0, self.shape))

    def of_launch(self, key: str | None) -> tuple[float, float]:
        """The log effect of the next launch and its standard error, given a launch that ended just now, if any."""
        mean, error = self.launches.get(key or "", (0.0, 0.0))
        return mean, math.hypot(error, self.launch)


def fit_spread(log_errors: Sequence[float], shapes: Sequence[str], launches: Sequence[str], prior: Prior) -> Spread:
    """Estimate the spread of observations.

    Args:
        log_errors: (observations,) logarithm of observed over predicted.
        shapes: (observations,) shape of each.
        launches: (observations,) launch of each.
    """
    errors = np.asarray(log_errors, float)
    errors = np.clip(
        errors, *(np.median(errors) + np.array([-1.0, 1.0]))
    )  # limits the influence of a trial that is more than e times slower
    shape, launch = _Effect(shapes, prior.shape, prior.counts), _Effect(launches, prior.launch, prior.counts)
    trial = prior.trial
    for _ in range(4 * ROUNDS):
        shape.update(errors - launch.each, trial)
        launch.update(errors - shape.each, trial)
        rest = errors - shape.each - launch.each
        own = float(rest @ rest) + float(np.sum(shape.errors[shape.index] ** 2))
        trial = math.sqrt((prior.counts * prior.trial**2 + own) / (prior.counts + len(errors)))
    return Spread(trial, shape.sd, launch.sd, shape.estimates(), launch.estimates(), len(errors))


class _Effect:
    """A random effect: what the observations with the same key have in common."""

    def __init__(self, keys: Sequence[str], sd: float, counts: float) -> None:
        self.names, self.index = np.unique(np.asarray(keys, dtype=object).astype(str), return_inverse=True)
        self.counts = np.bincount(self.index)
        self.means, self.errors = np.zeros(len(self.names)), np.full(len(self.names), sd)
        self.sd, self._prior_sd, self._prior_counts = sd, sd, counts

    @property
    def each(self) -> np.ndarray:
        """(observations,) the effect on each observation."""
        return self.means[self.index]

    def update(self, errors: np.ndarray, trial: float) -> None:
        """Re-estimate the mean of each key, shrunk to 0, and the spread of the means."""
        shrunk = self.counts + (trial / self.sd) ** 2
        self.means = np.bincount(self.index, errors, minlength=len(self.names)) / shrunk
        self.errors = trial / np.sqrt(shrunk)
        total = self._prior_counts * self._prior_sd**2 + float(np.sum(self.means**2 + self.errors**2))
        self.sd = math.sqrt(total / (self._prior_counts + len(self.names)))

    def estimates(self) -> dict[str, tuple[float, float]]:
        """Key -> mean and standard error."""
        return dict(zip(self.names.tolist(), zip(self.means.tolist(), self.errors.tolist(), strict=True), strict=True))
