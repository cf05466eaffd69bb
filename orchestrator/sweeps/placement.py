"""Which layers to freeze, not only how many: `search: {kind: placement, cells: 40, order: [2, 1, 3, 0, 4, 5]}`.

For every number of layers but none and all: the first ones, the last ones, evenly spread ones, those that come first in
`order`, then random subsets. With the layers by drift, the least first, as `permafrost layers` prints them, the sets of
`order` are those of a greedy backward search that thaws the layer that moves most, then the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from orchestrator.sweeps.search_spec import SEARCHES, Layers, SearchKind, SearchSpec
from orchestrator.sweeps.space import Point, Space, grid
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS

FREEZE = "freeze"
LayerSet = tuple[int, ...]  # ascending indices, from 0 next to the embeddings


def _placement(search: SearchSpec, space: Space, n_layers: Layers) -> Iterator[Point]:
    """Nothing frozen and sets of layers, `cells` in all, shared by the points of the rest of the space."""
    assert search.cells is not None
    others = list(grid({key: axis for key, axis in space.items() if key != FREEZE}, n_layers))
    for point in others:
        for layers in islice(layer_sets(n_layers(point), search), max(1, search.cells // len(others))):
            frozen = _freeze(layers, n_layers(point)) if layers else "none"
            yield Point({**point.settings, FREEZE: (None, frozen)}, point.parameters)


def _freeze(layers: LayerSet, n_layers: int) -> dict[str, object]:
    """The first and the last layers by their names, so that they are compared by depth as in any other sweep."""
    for strategy in ("first_k", "last_k"):
        if set(layers) == FREEZE_STRATEGIES[strategy](n_layers, len(layers)):
            return {"strategy": strategy, "depth": len(layers), "embeddings": True}
    return {"strategy": LAYERS, "layers": list(layers), "embeddings": True}


def layer_sets(n_layers: int, search: SearchSpec) -> Iterator[LayerSet]:
    """Distinct sets: the empty one, the anchors by size, those of `order`, then random ones, a size after the other."""
    seen: set[LayerSet] = set()
    for layers in _candidates(n_layers, search):
        if layers not in seen:
            seen.add(layers)
            yield layers
        if len(seen) == 2**n_layers - 1:  # all but the whole encoder
            return


def _candidates(n_layers: int, search: SearchSpec) -> Iterator[LayerSet]:
    sizes = range(1, n_layers)
    yield ()
    yield from (tuple(range(size)) for size in sizes)
    yield from (tuple(range(n_layers - size, n_layers)) for size in sizes)
    yield from (tuple(sorted({i * n_layers // size for i in range(size)})) for size in sizes)
    if search.order:
        yield from (tuple(sorted(search.order[:size])) for size in sizes)
    rng = np.random.default_rng(search.seed)
    while len(sizes):
        yield from (tuple(sorted(rng.choice(n_layers, size, replace=False).tolist())) for size in sizes)


SEARCHES.register("placement")(SearchKind(_placement))
