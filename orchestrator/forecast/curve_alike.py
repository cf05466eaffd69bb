"""What came after in complete curves that were alike so far.

Complete curves of the same task say more of how a curve goes on than any shape does (A. Klein, S. Falkner,
J. T. Springenberg & F. Hutter, "Learning curve prediction with Bayesian neural networks", ICLR 2017; A. Chandrashekaran
& I. R. Lane, "Speeding up hyper-parameter optimization by extrapolation of learning curves using previous builds", ECML
PKDD 2017). Here nothing is learned beforehand: each curve's gains from the same epoch on count the more, the
nearer its level and its slope there are, and are moved to the trial's place by a local line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from orchestrator.forecast.curve_values import AGAIN_DOUBT, NOISE, SAME, Curve, Draws, Evidence, Floats, between

MOST = 400  # complete curves that are looked at, the newest of them
_SHARE, _FEW = 0.1, 8  # of the curves are near ones, and at least so many
_NEAR = 64  # of the others, the nearest, count at all
_NARROWEST = 1e-3
_RIDGE = 0.3  # of the local line
_FLOOR = 0.003  # of a score: levels and slopes as near as this are the same
_UNSURE = 0.3  # of a gain, where one curve tells it
_DISTRUST = 1.0  # other curves must be so many, and near, to count as much as the trial's own


class Others:
    """Complete curves that end at the same epoch."""

    def __init__(self, curves: Iterable[Curve], planned: float) -> None:
        """Of the curves those that end at the planned epoch count; the newest come last."""
        ended = [curve for curve in curves if curve.ends_at(planned)][-MOST:]
        by_grid = groupby(sorted(ended, key=lambda curve: curve.epochs), key=lambda curve: curve.epochs)
        self._grids = [(np.array(grid), np.array([c.scores for c in found])) for grid, found in by_grid]
        self._n = len(ended)

    def __len__(self) -> int:
        return self._n

    def like(self, curve: Curve, ahead: Floats, window: float) -> Alike | None:
        """What came after in those that were evaluated as early as the curve; None without any.

        Args:
            curve: At least one evaluation.
            ahead: The epochs of its evaluations to come, (points,).
            window: The gain over so many epochs before the end is told, too.
        """
        known = [(grid, scores) for grid, scores in self._grids if grid[0] <= curve.now + SAME]
        if not known:
            return None
        gains = np.concatenate([_gains(grid, scores, (curve.now, *ahead), window) for grid, scores in known])
        apart = np.concatenate([_apart(grid, scores, curve) for grid, scores in known])
        return _weighted(curve, gains, apart)


@dataclass(frozen=True, eq=False)
class Alike:
    """What the other curves tell of one.

    Attributes:
        evidence: What came after.
        trust: Its weight beside the trial's own curve, 0 to 1.
        n: Curves.
    """

    evidence: Evidence
    trust: float
    n: int


def _gains(grid: Floats, scores: Floats, places: Sequence[float], window: float) -> Floats:
    """Of each curve, (curves, 2 + points): best by the end less best so far; over the window; each place less now."""
    best = scores[:, grid <= places[0] + SAME].max(axis=1)
    early = between(grid, scores, max(float(grid[-1]) - window, float(grid[0])))
    now, *later = (between(grid, scores, place) for place in places)
    return np.stack([scores.max(axis=1) - best, scores[:, -1] - early, *(score - now for score in later)], axis=1)


def _apart(grid: Floats, scores: Floats, curve: Curve) -> Floats:
    """How far each curve is from the trial in level and slope, with their sign, (curves, 1 or 2)."""
    own, mine = np.array(curve.epochs), np.array([curve.scores])
    first = max(own[0], grid[0])
    places = [max(curve.now - back, first) for back in (0.0, 1.0, 2.0)]
    now, one, two = (between(grid, scores, place) - between(own, mine, place) for place in places)
    level, slope = (now + one) / 2, now - two
    return np.stack([level] if len(curve) == 1 else [level, slope], axis=1)


def _weighted(curve: Curve, gains: Floats, apart: Floats) -> Alike:
    """Weights fall with the distance as a bell does, as wide as there are near curves to be had."""
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
    evidence = Evidence(
        path=[place.plus(curve.scores[-1]) for place in path],
        top=top.plus(curve.best).at_least(curve.best),
        gain=gain,
        said=f"{len(apart)} other trial{'s' * (len(apart) != 1)}",
    )
    return Alike(evidence, effective / (effective + _DISTRUST * (1 + float(np.sqrt(weights @ far))) ** 2), len(apart))


def _line(z: Floats, gains: Floats, weights: Floats) -> Floats:
    """Slopes of the gains in the distance, by weighted least squares with a ridge, (1 or 2, gains)."""
    centred = z - weights @ z
    spread = (centred * weights[:, None]).T @ centred
    ridge = (_RIDGE * np.trace(spread) / len(spread) + 1e-6) * np.eye(len(spread))
    slopes: Floats = np.linalg.solve(spread + ridge, (centred * weights[:, None]).T @ (gains - weights @ gains))
    return slopes
