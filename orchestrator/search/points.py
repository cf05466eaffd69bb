"""The points of searches that do not learn: a grid, random samples, evenly spread samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from orchestrator.search.axis import Axis
from orchestrator.search.space import Point, Space, Taken, Taker, grid, walk
from orchestrator.search.spec import SearchSpec

Layers = Callable[[Point], int]
MOST_DIMENSIONS = 21_201  # of Sobol' sequences, as scipy has them


def points_of(search: SearchSpec, space: Space, n_layers: Layers) -> Iterator[Point]:
    """The points in their order; of a search that learns, random ones in their place."""
    if search.kind == "grid":
        return grid(space, n_layers)
    assert search.cells is not None
    if search.kind == "sobol":
        return _spread(space, search.cells, search.seed, n_layers)
    return _random(space, search.cells, search.seed, n_layers)


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
            lowest, highest = axis.log_uniform
            return None, math.exp(rng.uniform(math.log(lowest), math.log(highest)))
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
            return None, math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        return None, low + share * (high - low)

    return take


def _n_names(space: Space) -> int:
    """At least as many as there are axes, those inside others too."""
    from orchestrator.search.axis import inner_axes

    return sum(1 + len(inner_axes(axis.choice or [])) for axis in space.values()) or 1
