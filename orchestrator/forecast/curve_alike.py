"""Prediction of a curve from complete curves that were similar so far.

Complete curves of the same task predict how a curve continues better than any parametric shape (A. Klein, S. Falkner,
J. T. Springenberg & F. Hutter, "Learning curve prediction with Bayesian neural networks", ICLR 2017; A. Chandrashekaran
& I. R. Lane, "Speeding up hyper-parameter optimization by extrapolation of learning curves using previous builds", ECML
PKDD 2017). Here nothing is learned beforehand: the gains of each curve from the same epoch on are weighted by the
similarity of its level and slope there, and adjusted to the level and slope of the trial by local linear regression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from orchestrator.config.quantities import counted
from orchestrator.forecast.curve_values import AGAIN_DOUBT, NOISE, SAME, Curve, CurvePrediction, Draws, Floats, between

MOST = 400  # complete curves used, the newest
_SHARE, _FEW = 0.1, 8  # share of the curves that set the width of the kernel, and their least number
_NEAR = 64  # nearest curves with any weight
_NARROWEST = 1e-3
_RIDGE = 0.3  # of the local regression
_FLOOR = 0.003  # differences in score below this count as equal
_UNSURE = 0.3  # relative standard deviation of a gain predicted by one curve
_DISTRUST = 1.0  # effective number of similar curves that weigh as much as the trial's own


class Others:
    """Complete curves that end at the same epoch."""

    def __init__(self, curves: Iterable[Curve], planned: float) -> None:
        """Curves that do not end at the planned epoch are ignored; the newest come last."""
        ended = [curve for curve in curves if curve.ends_at(planned)][-MOST:]
        by_grid = groupby(sorted(ended, key=lambda curve: curve.epochs), key=lambda curve: curve.epochs)
        self._grids = [(np.array(grid), np.array([curve.scores for curve in same])) for grid, same in by_grid]
        self._n = len(ended)

    def __len__(self) -> int:
        return self._n

    def like(self, curve: Curve, ahead: Floats, window: float) -> Alike | None:
        """The prediction from the curves that start as early as this one; None without any.

        Args:
            curve: The curve so far, at least one evaluation.
            ahead: The epochs of its remaining evaluations, (points,).
            window: Number of last epochs whose gain is predicted as well.
        """
        known = [(grid, scores) for grid, scores in self._grids if grid[0] <= curve.now + SAME]
        if not known:
            return None
        gains = np.concatenate([_gains(grid, scores, (curve.now, *ahead), window) for grid, scores in known])
        apart = np.concatenate([_apart(grid, scores, curve) for grid, scores in known])
        return _weighted(curve, gains, apart)


@dataclass(frozen=True, eq=False)
class Alike:
    """The prediction from other curves.

    Attributes:
        trust: Its weight relative to the trial's own curve, 0 to 1.
        n: Number of other curves.
    """

    prediction: CurvePrediction
    trust: float
    n: int


def _gains(grid: Floats, scores: Floats, places: Sequence[float], window: float) -> Floats:
    """Gains of each curve, (curves, 2 + points): of the best score; over the last window; at each place from now."""
    best = scores[:, grid <= places[0] + SAME].max(axis=1)
    early = between(grid, scores, max(float(grid[-1]) - window, float(grid[0])))
    now, *later = (between(grid, scores, place) for place in places)
    return np.stack([scores.max(axis=1) - best, scores[:, -1] - early, *(score - now for score in later)], axis=1)


def _apart(grid: Floats, scores: Floats, curve: Curve) -> Floats:
    """Signed differences of each curve from the trial in level and slope, (curves, 1 or 2)."""
    own, mine = np.array(curve.epochs), np.array([curve.scores])
    first = max(own[0], grid[0])
    places = [max(curve.now - back, first) for back in (0.0, 1.0, 2.0)]
    now, one, two = (between(grid, scores, place) - between(own, mine, place) for place in places)
    level, slope = (now + one) / 2, now - two
    return np.stack([level] if len(curve) == 1 else [level, slope], axis=1)


def _weighted(curve: Curve, gains: Floats, apart: Floats) -> Alike:
    """A Gaussian kernel weights the curves by distance; its width adapts to the distance of the near curves."""
    z = apart / np.maximum(apart.std(axis=0), _FLOOR)
    far = (z**2).sum(axis=1)
    near = np.argsort(far, kind="stable")[:_NEAR]
    width = max(float(far[near[min(len(z), max(_FEW, int(_SHARE * len(z)))) - 1]]), _NARROWEST)
    z, far, gains = z[near], far[near], gains[near]
    weights = np.exp((far[0] - far) / width)
    weights /= weights.sum()
    effective = 1 / float(weights @ weights)
    moved = gains - z @ _line(z, gains, weights)
    middle = weights @ moved
    spread = np.hypot(NOISE, np.sqrt((weights @ (moved - middle) ** 2 + (_UNSURE * middle) ** 2) / effective))
    spreads = np.broadcast_to(spread, moved.shape).copy()
    spreads[:, 1] = np.hypot(spreads[:, 1], AGAIN_DOUBT * moved[:, 1])
    top, gain, *path = (Draws.around(middles, weights, s) for middles, s in zip(moved.T, spreads.T, strict=True))
    prediction = CurvePrediction(
        path=[place.plus(curve.scores[-1]) for place in path],
        top=top.plus(curve.best).at_least(curve.best),
        gain=gain,
        label=counted(len(apart), "other trial"),
    )
    return Alike(prediction, effective / (effective + _DISTRUST * (1 + float(np.sqrt(weights @ far))) ** 2), len(apart))


def _line(z: Floats, gains: Floats, weights: Floats) -> Floats:
    """Slopes of the gains in level and slope, by weighted ridge regression, (1 or 2, gains)."""
    centred = z - weights @ z
    spread = (centred * weights[:, None]).T @ centred
    ridge = (_RIDGE * np.trace(spread) / len(spread) + 1e-6) * np.eye(len(spread))
    slopes: Floats = np.linalg.solve(spread + ridge, (centred * weights[:, None]).T @ (gains - weights @ gains))
    return slopes
