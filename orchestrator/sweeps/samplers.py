"""The points of searches that do not learn: a grid, random samples, evenly spread samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from orchestrator.sweeps.axis import Axis, Bounds, inner_axes
from orchestrator.sweeps.search_spec import SearchSpec
from orchestrator.sweeps.space import Point, Space, Taken, Taker, grid, walk

Layers = Callable[[Point], int]
REPEATS = 4  # points drawn for each cell that is to stand in for one of a search that learns
MOST_DIMENSIONS = 21_201  # of Sobol' sequences, as scipy has them


def points_of(search: SearchSpec, space: Space, n_layers: Layers) -> Iterator[Point]:
    """The points in their order; of a search that learns, random ones in their place, and more, as some are repeats."""
    if search.kind == "grid":
        return grid(space, n_layers)
    assert search.cells is not None
    if search.kind == "sobol":
        return _spread(space, search.cells, search.seed, n_layers)
    return _random(space, search.cells * (REPEATS if search.is_adaptive else 1), search.seed, n_layers)


def _random(space: Space, n: int, seed: int, n_layers: Layers) -> Iterator[Point]:
    take = at_random(np.random.default_rng(seed))
    for _ in range(n):
        yield walk(space, take, n_layers)


def at_random(rng: np.random.Generator) -> Taker:
    """Takes every value with the same chance."""

    def take(name: str, axis: Axis) -> Taken:
        if axis.choice is not None:
            index = int(rng.integers(len(axis.choice)))
            return index, axis.choice[index]
        if axis.int_uniform:
            low, high = axis.whole
            return None, int(rng.integers(low, high, endpoint=True))
        if axis.log_uniform:
            return None, _between_logs(axis.log_uniform, lambda low, high: rng.uniform(low, high))
        assert axis.uniform
        return None, float(rng.uniform(*axis.uniform))

    return take


def _spread(space: Space, n: int, seed: int, n_layers: Layers) -> Iterator[Point]:
    """A scrambled Sobol' sequence, a dimension for each axis; with more cells it goes on where it ended.

    An axis is given its dimension when it is first met, so those that only some points have are spread too.
    """
    from scipy.stats import qmc  # half a second to import

    rows: list[np.ndarray] = []  # a dimension each, made when its name is met
    dimensions: dict[str, int] = {}
    children = np.random.SeedSequence(seed).spawn(1)[0]
    sobol = qmc.Sobol(min(_n_names(space), MOST_DIMENSIONS), scramble=True, rng=np.random.default_rng(children))
    table = sobol.random_base2(max(1, math.ceil(math.log2(max(n, 2)))))
    rows.extend(table.T)
    for i in range(n):
        yield walk(space, _at(rows, dimensions, i), n_layers)


def _at(rows: list[np.ndarray], dimensions: dict[str, int], i: int) -> Taker:
    def take(name: str, axis: Axis) -> Taken:
        dimension = dimensions.setdefault(name, len(dimensions))
        share = float(rows[dimension % len(rows)][i])  # in [0, 1)
        if axis.is_listed:
            index = min(int(share * axis.n_values), axis.n_values - 1)
            return (index if axis.choice is not None else None), axis.value(index)
        low, high = axis.log_uniform or axis.uniform or (0.0, 1.0)
        if axis.log_uniform:
            return None, _between_logs(axis.log_uniform, lambda low, high: low + share * (high - low))
        return None, low + share * (high - low)

    return take


def _between_logs(bounds: Bounds, chosen: Callable[[float, float], float]) -> float:
    """What is chosen between the logarithms of two bounds; rounding does not lead out of them."""
    low, high = bounds
    return min(max(math.exp(chosen(math.log(low), math.log(high))), low), high)


def _n_names(space: Space) -> int:
    """At least as many as there are axes, those inside others too."""
    return sum(1 + len(inner_axes(axis.choice or [])) for axis in space.values()) or 1
