"""Cells that a sampler suggests, which learns from those before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from orchestrator.search.cell import Cell
from orchestrator.search.optuna_search import Distributions, OptunaPoints, Told, distribution_of
from orchestrator.store.plans import Suggested
from orchestrator.store.schema import State
from orchestrator.sweeps.axis import Axis
from orchestrator.sweeps.samplers import Layers, at_random
from orchestrator.sweeps.search_spec import SearchSpec
from orchestrator.sweeps.space import Point, Space, again, walk
from trials.spec import TrialSpec

Resolve = Callable[[Point], Sequence[TrialSpec] | None]  # the replicates of a point; None where it is no trial
MOST_REPEATS = 25  # suggestions in a row of cells that were suggested before, until a random one is taken


class LearnedCells:
    """Cells that a sampler suggests, those of an earlier launch first."""

    def __init__(
        self,
        search: SearchSpec,
        space: Space,
        resolve: Resolve,
        n_layers: Layers,
        *,
        before: Sequence[Suggested] = (),
        suggested: Callable[[Suggested, Sequence[TrialSpec]], None] = lambda suggestion, specs: None,
    ) -> None:
        """`before` were suggested in earlier launches; `suggested` hears of every new one before it runs."""
        assert search.cells is not None
        self._search, self._space, self._resolve, self._n_layers = search, space, resolve, n_layers
        self._n_cells, self._before, self._suggested = search.cells, list(before)[::-1], suggested
        self._points = OptunaPoints(search, space, n_layers)
        self._met: dict[str, tuple[dict[str, int | float], Distributions]] = {}  # by cell
        self._number = 0

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The next cell that was not suggested before; None when there are enough, or no others are found."""
        if len(past) >= self._n_cells:
            return None
        while self._before:
            suggestion = self._before.pop()
            specs = self._once_more(suggestion)
            if specs is not None:
                self._number = max(self._number, suggestion.number + 1)
                return specs
        for repeats in range(10 * MOST_REPEATS):
            number, self._number = self._number, self._number + 1
            if repeats < MOST_REPEATS:
                point, distributions = self._points.suggest(number, self.told(past))
            else:
                point, distributions = self._random(number)
            specs = self._fresh(point, distributions)
            if specs is not None:
                self._suggested(Suggested(number, point.parameters), specs)
                return specs
        return None

    def told(self, past: Sequence[Cell]) -> list[Told]:
        """The cells so far, as a sampler hears of them."""
        return [cell_told(cell, *self._met[cell.cell_id], self._search.objectives) for cell in past]

    def _random(self, number: int) -> tuple[Point, Distributions]:
        found: Distributions = {}
        draw = at_random(np.random.default_rng([self._search.seed, number]))

        def take(name: str, axis: Axis) -> tuple[int | None, object]:
            found[name] = distribution_of(axis)
            return draw(name, axis)

        return walk(self._space, take, self._n_layers), found

    def _once_more(self, suggestion: Suggested) -> Sequence[TrialSpec] | None:
        """A recorded cell; None where the space has changed and does not hold it any more."""
        found: Distributions = {}

        def met(name: str, axis: Axis) -> None:
            found[name] = distribution_of(axis)

        point = again(self._space, suggestion.parameters, self._n_layers, met)
        return None if point is None else self._fresh(point, found)

    def _fresh(self, point: Point, distributions: Distributions) -> Sequence[TrialSpec] | None:
        specs = self._resolve(point)
        if not specs or specs[0].cell_id in self._met:
            return None
        self._met[specs[0].cell_id] = point.parameters, distributions
        return specs


def cell_told(
    cell: Cell, parameters: dict[str, int | float], distributions: Distributions, objectives: Sequence[str]
) -> Told:
    """A cell as a sampler hears of it."""
    state, values, best = "running", None, None
    states = set(cell.over.values())
    if State.DIVERGED in states:
        state = "pruned"
    elif cell.is_over and State.COMPLETED in states:
        found = [cell.mean(name) for name in objectives]
        values = tuple(value for value in found if value is not None)
        state, values = ("complete", values) if len(values) == len(found) else ("failed", None)
    elif cell.is_over and states != {State.PRUNED}:
        state = "failed"
    elif len(cell.waiting) + len(cell.over) == len(cell.specs):
        epoch = max(seen.evaluations[-1].epoch for seen in cell.seen.values() if seen.evaluations)
        state, best = "pruned", (epoch, cell.mean_best() or 0.0)
    ids = tuple(spec.trial_id for spec in cell.specs)
    return Told(parameters, distributions, values, state, best, ids)
