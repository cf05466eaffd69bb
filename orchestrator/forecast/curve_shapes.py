"""Extrapolation of a learning curve by a few families of shapes, fitted and averaged.

Saturating power laws, exponentials with Janoschek's exponent and logarithms are the families that surveys of
extrapolation recommend (T. Domhan, J. T. Springenberg & F. Hutter, "Speeding up automatic hyperparameter optimization
of deep neural networks by extrapolation of learning curves", IJCAI 2015; T. Viering & M. Loog, "The shape of learning
curves: a review", arXiv 2103.10948). They are averaged, because a few points cannot distinguish them. Where Domhan et
al. sample the parameters by a Markov chain, here the non-linear ones lie on a grid and the linear ones are solved for,
which takes a fraction of a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestrator.forecast.curve_values import (
    AGAIN_DOUBT,
    DOUBT,
    Curve,
    CurvePrediction,
    Draws,
    Floats,
    between,
    jitter,
)

_POWERS = (0.25, 0.5, 1.0, 1.5, 2.0)
_RATES, _BENDS = (1.5, 3.0, 6.0), (0.7, 1.0, 1.5)  # of exponentials; the unit of time is the planned run
_SHIFTS = (0.0, 1.0)  # of logarithms, in epochs
FAMILIES = (*("power",) * len(_POWERS), *("exponential",) * len(_RATES) * len(_BENDS), *("log",) * len(_SHIFTS))
_PRIOR = np.array(
    [1 / FAMILIES.count(family) for family in FAMILIES]
)  # each family has the same prior weight, (shapes,)
_SHRINK = 0.05  # shrinkage of the height of a shape, divided by the number of points
_EARLY = 4.0  # extra uncertainty, divided by the squared number of points
_CARRY = 0.5  # share of the newest residual that persists: curves drift
_TINY = 1e-9  # least standard deviation of a shape over the points


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """Extrapolations of a curve by each shape.

    Attributes:
        epochs: Epochs of the remaining evaluations, up to the planned end, (points,).
        paths: Scores there by each shape, (shapes, points).
        weights: Weight of each shape; they sum to 1, (shapes,).
        noise: Standard deviation of an evaluation around each shape, (shapes,).
    """

    curve: Curve
    epochs: Floats
    paths: Floats
    weights: Floats
    noise: Floats

    def prediction(self, window: float) -> CurvePrediction:
        """The prediction, with the gain over the last `window` epochs before the planned end."""
        path = [self._around(scores) for scores in self.paths.T]
        top = self._around(self.paths.max(axis=1)).at_least(self.curve.best)
        return CurvePrediction(path, top, self._gain(window), "its own curve")

    def _gain(self, window: float) -> Draws | None:
        """The gain over the window; None if it begins before the first evaluation."""
        start = float(self.epochs[-1]) - window
        if start < self.curve.epochs[0]:
            return None
        known = np.broadcast_to(self.curve.scores, (len(self.paths), len(self.curve)))
        x, y = np.array([*self.curve.epochs, *self.epochs]), np.hstack([known, self.paths])
        gains = y[:, -1] - between(x, y, start)
        return Draws.around(gains, self.weights, np.hypot(np.sqrt(2) * self.noise, AGAIN_DOUBT * gains))

    def _around(self, middles: Floats) -> Draws:
        doubt = DOUBT * (1 + _EARLY / len(self.curve) ** 2)
        spread = np.hypot(self.noise, doubt * (middles - self.curve.scores[-1]))
        return Draws.around(middles, self.weights, spread)


def extrapolated(curve: Curve, planned: float, *, anneals: bool) -> Extrapolation | None:
    """Extrapolate a curve to its planned end; None with fewer than two points, or for a complete curve.

    A shape is y(x) = a + b f(x), where f is -x^-c, -exp(-c (x/X)^d) or log(x + c). Here x is not the epoch but the
    area under the learning rate: for a rate that falls to zero at T, e - e^2/(2T) after e epochs, and X = T/2 at the
    end. That removes the effect of the schedule on the shape, and halved the mean error of predictions from 7 of 9
    epochs. For each (c, d) of a grid, a and b minimise the squared errors weighted by the epoch, so that late points
    count more, with b slightly shrunk. The weight of a shape is (mean squared error + noise^2)^(-n/2), the normal
    likelihood at its best variance.
    """
    ahead = curve.ahead(planned)
    if len(curve) < 2 or not len(ahead):
        return None
    x, y = np.array(curve.epochs), np.array(curve.scores)
    f, g = (_shapes(*_learned(epochs, planned, anneals=anneals)) for epochs in (x, ahead))  # (shapes, n or points)
    share = x / x.sum()
    middle = (f * share).sum(axis=1, keepdims=True)
    width = np.maximum(np.sqrt((share * (f - middle) ** 2).sum(axis=1, keepdims=True)), _TINY)
    f, g = (f - middle) / width, (g - middle) / width
    level = float(share @ y)
    slope = (f * share * (y - level)).sum(axis=1, keepdims=True) / (1 + _SHRINK / len(x))
    left = y - level - slope * f
    error = (share * left**2).sum(axis=1)
    floor = jitter(curve) ** 2
    likelihood = np.log(_PRIOR) - len(x) / 2 * np.log(error + floor)
    weights = np.exp(likelihood - likelihood.max())
    return Extrapolation(
        curve=curve,
        epochs=ahead,
        paths=level + slope * g + _CARRY * left[:, -1:],
        weights=weights / weights.sum(),
        noise=np.sqrt(error + floor),
    )


def _learned(epochs: Floats, planned: float, *, anneals: bool) -> tuple[Floats, float]:
    """The area under the learning rate in epochs at the peak rate, and that of the whole trial; warm-up is ignored."""
    return (epochs - epochs**2 / (2 * planned), planned / 2) if anneals else (epochs, planned)


def _shapes(x: Floats, whole: float) -> Floats:
    """Each shape at each x, in the order of `FAMILIES`, (shapes, points)."""
    part = x / whole
    powers = [-(x**-power) for power in _POWERS]
    exponentials = [-np.exp(-rate * part**bend) for rate in _RATES for bend in _BENDS]
    return np.array([*powers, *exponentials, *(np.log(x + shift) for shift in _SHIFTS)])
