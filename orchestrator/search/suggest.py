"""Cells suggested by a sampler that learns from earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from orchestrator.search.cell import Cell
from orchestrator.search.optuna_search import Distributions, OptunaPoints, PastCell, distribution_of
from orchestrator.store.schema import State
from orchestrator.store.suggested import Suggested
from orchestrator.sweeps.axis import Axis
from orchestrator.sweeps.samplers import at_random
from orchestrator.sweeps.search_spec import Layers, SearchSpec
from orchestrator.sweeps.space import Point, Space, again, walk
from trials.spec import TrialSpec

Resolve = Callable[[Point], Sequence[TrialSpec] | None]  # the replicates of a point; None if the point is invalid
MOST_REPEATS = 25  # repeated suggestions in a row before a random point is drawn


class AdaptiveCells:
    """Cells suggested by a sampler, those of an earlier launch first."""

    def __init__(
        self,
        search: SearchSpec,
        space: Space,
        resolve: Resolve,
        n_layers: Layers,
        *,
        before: Sequence[Suggested] = (),
        record: Callable[[Suggested, Sequence[TrialSpec]], None] = lambda suggestion, specs: None,
    ) -> None:
        """`before`: suggestions of earlier launches; `record` is called with each new one before it runs."""
        assert search.cells is not None
        self._search, self._space, self._resolve, self._n_layers = search, space, resolve, n_layers
        self._n_cells, self._before, self._record = search.cells, list(before)[::-1], record
        self._points = OptunaPoints(search, space, n_layers)
        self._suggested: dict[str, tuple[dict[str, int | float], Distributions]] = {}  # by cell id
        self._number = 0

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The next cell not suggested before; None if there are enough, or no new one is found."""
        if len(past) >= self._n_cells:
            return None
        while self._before:
            suggestion = self._before.pop()
            specs = self._repeat(suggestion)
            if specs is not None:
                self._number = max(self._number, suggestion.number + 1)
                return specs
        for repeats in range(10 * MOST_REPEATS):
            number, self._number = self._number, self._number + 1
            if repeats < MOST_REPEATS:
                known = [past_cell(cell, *self._suggested[cell.cell_id], self._search.objectives) for cell in past]
                point, distributions = self._points.suggest(number, known)
            else:
                point, distributions = self._random(number)
            specs = self._fresh(point, distributions)
            if specs is not None:
                self._record(Suggested(number, point.parameters), specs)
                return specs
        return None

    def _random(self, number: int) -> tuple[Point, Distributions]:
        distributions: Distributions = {}
        draw = at_random(np.random.default_rng([self._search.seed, number]))

        def take(name: str, axis: Axis) -> tuple[int | None, object]:
            distributions[name] = distribution_of(axis)
            return draw(name, axis)

        return walk(self._space, take, self._n_layers), distributions

    def _repeat(self, suggestion: Suggested) -> Sequence[TrialSpec] | None:
        """A recorded cell; None if the space has changed and no longer contains it."""
        axes: dict[str, Axis] = {}
        point = again(self._space, suggestion.parameters, self._n_layers, axes.__setitem__)
        distributions = {name: distribution_of(axis) for name, axis in axes.items()}
        return None if point is None else self._fresh(point, distributions)

    def _fresh(self, point: Point, distributions: Distributions) -> Sequence[TrialSpec] | None:
        specs = self._resolve(point)
        if not specs or specs[0].cell_id in self._suggested:
            return None
        self._suggested[specs[0].cell_id] = point.parameters, distributions
        return specs


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
    ids = tuple(spec.trial_id for spec in cell.specs)
    return PastCell(parameters, distributions, values, state, best, ids)
