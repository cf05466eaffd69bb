"""The kinds of search, and the points of those that do not depend on results: a grid, random and Sobol' samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from orchestrator.sweeps.search_spec import SEARCHES, Layers, SearchKind, SearchSpec
from orchestrator.sweeps.space import Axis, Bounds, Point, Space, Taken, Taker, grid, inner_axes, walk

REPEATS = 4  # random points drawn per planned cell of an adaptive search, as some points are equal
MOST_DIMENSIONS = 21_201  # limit of scipy's Sobol' sequences


def points_of(search: SearchSpec, space: Space, n_layers: Layers) -> Iterator[Point]:
    """The points of a search in order; of an adaptive one, random points in their place (`SearchKind.points`)."""
    return SEARCHES[search.kind].points(search, space, n_layers)


def _grid(search: SearchSpec, space: Space, n_layers: Layers) -> Iterator[Point]:
    return grid(space, n_layers)


def _random(search: SearchSpec, space: Space, n_layers: Layers) -> Iterator[Point]:
    assert search.cells is not None
    take = random_taker(np.random.default_rng(search.seed))
    for _ in range(search.cells * (REPEATS if search.is_adaptive else 1)):
        yield walk(space, take, n_layers)


def random_taker(rng: np.random.Generator) -> Taker:
    """Takes every value with equal probability."""

    def take(name: str, axis: Axis) -> Taken:
        if axis.choice is not None:
            index = int(rng.integers(len(axis.choice)))
            return index, axis.choice[index]
        if axis.int_uniform:
            low, high = axis.whole_bounds
            return None, int(rng.integers(low, high, endpoint=True))
        if axis.log_uniform:
            return None, _between_logs(axis.log_uniform, lambda low, high: rng.uniform(low, high))
        assert axis.uniform
        return None, float(rng.uniform(*axis.uniform))

    return take


def _sobol(search: SearchSpec, space: Space, n_layers: Layers) -> Iterator[Point]:
    """A scrambled Sobol' sequence, one dimension per axis; more cells continue the same sequence.

    An axis gets its dimension when it first occurs, so conditional axes are spread evenly too.
    """
    from scipy.stats import qmc  # takes half a second to import

    assert search.cells is not None
    n = search.cells
    rows: list[np.ndarray] = []  # one per dimension
    dimensions: dict[str, int] = {}
    children = np.random.SeedSequence(search.seed).spawn(1)[0]
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
    """A value chosen between the logarithms of two bounds, clipped to the bounds against rounding."""
    low, high = bounds
    return min(max(math.exp(chosen(math.log(low), math.log(high))), low), high)


def _n_names(space: Space) -> int:
    """An upper bound on the number of axes, nested ones included."""
    return sum(1 + len(inner_axes(axis.choice or [])) for axis in space.values()) or 1


SEARCHES.register("grid")(SearchKind(_grid, needs_cells=False))
SEARCHES.register("random")(SearchKind(_random))
SEARCHES.register("sobol")(SearchKind(_sobol))
SEARCHES.register("tpe")(SearchKind(_random, is_adaptive=True))
