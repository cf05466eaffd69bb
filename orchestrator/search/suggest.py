"""Cells suggested by a sampler that learns from earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from orchestrator.search.cell import Cell
from orchestrator.search.optuna_search import Distributions, OptunaPoints, PastCell, distribution_of
from orchestrator.store.decisions import Suggested
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import Layers, SearchSpec, at_random
from orchestrator.sweeps.space import Axis, Point, Space, again, walk
from trials.spec import TrialSpec

Resolve = Callable[[Point], Sequence[TrialSpec] | None]  # the replicates of a point; None if the point is invalid
MOST_REPEATS = 25  # repeated suggestions in a row before a random point is drawn


class AdaptiveCells:
    """Cells suggested by a sampler: this driver's, and those of other drivers and earlier launches."""

    is_adaptive = True

    def __init__(self, search: SearchSpec, space: Space, resolve: Resolve, n_layers: Layers) -> None:
        assert search.cells is not None
        self._search, self._space, self._resolve, self._n_layers = search, space, resolve, n_layers
        self._points = OptunaPoints(search, space, n_layers)
        self._suggested: dict[str, tuple[dict[str, int | float], Distributions]] = {}  # by cell id
        self._number = 0

    def suggest(self, past: Sequence[Cell]) -> tuple[Suggested, Sequence[TrialSpec]] | None:
        """The next cell not suggested before; None if there are enough, or no new one is found."""
        if self._is_full:
            return None
        for repeats in range(10 * MOST_REPEATS):
            number, self._number = self._number, self._number + 1
            if repeats < MOST_REPEATS:
                known = [past_cell(cell, *self._suggested[cell.cell_id], self._search.objectives) for cell in past]
                point, _ = self._points.suggest(number, known)
            else:
                point = self._random(number)
            if self._is_new(specs := self._resolve(point)):
                return Suggested(number, point.parameters), specs
        return None

    def add(self, suggested: Suggested) -> Sequence[TrialSpec] | None:
        """The replicates; None if there are enough cells, or the space has changed and no longer contains it."""
        axes: dict[str, Axis] = {}
        point = again(self._space, suggested.parameters, self._n_layers, axes.__setitem__)
        specs = None if point is None or self._is_full else self._resolve(point)
        if point is None or not self._is_new(specs):
            return None
        distributions = {name: distribution_of(axis) for name, axis in axes.items()}
        self._suggested[specs[0].cell_id] = point.parameters, distributions
        self._number = max(self._number, suggested.number + 1)
        return specs

    @property
    def _is_full(self) -> bool:
        return len(self._suggested) >= (self._search.cells or 0)

    def _is_new(self, specs: Sequence[TrialSpec] | None) -> TypeGuard[Sequence[TrialSpec]]:
        return specs is not None and bool(specs) and specs[0].cell_id not in self._suggested

    def _random(self, number: int) -> Point:
        draw = at_random(np.random.default_rng([self._search.seed, number]))
        return walk(self._space, draw, self._n_layers)


def past_cell(
    cell: Cell, parameters: dict[str, int | float], distributions: Distributions, objectives: Sequence[str]
) -> PastCell:
    """A cell as a sampler sees it."""
    state, values, best = "running", None, None
    states = set(cell.over.values())
    if State.DIVERGED in states:
        state = "pruned"
    elif cell.is_over and State.COMPLETED in states:
        means = [cell.mean(name) for name in objectives]
        values = tuple(value for value in means if value is not None)
        state, values = ("complete", values) if len(values) == len(means) else ("failed", None)
    elif cell.is_over and states != {State.PRUNED}:
        state = "failed"
    elif len(cell.waiting) + len(cell.over) == len(cell.specs):
        epoch = max(trial.evaluations[-1].epoch for trial in cell.progress.values() if trial.evaluations)
        state, best = "pruned", (epoch, cell.mean_best() or 0.0)
    return PastCell(parameters, distributions, values, state, best)
