"""Cells suggested by Optuna's samplers, which learn from earlier ones.

Ray's own adapter is not used: it leaves trials running forever if a metric is not a number, and reports pruned trials
as complete. Here a suggestion is a function of the seed, its number and the results so far: the study is rebuilt from
these each time, the sampler is seeded with seed and number, and nothing is unpickled. So a killed search resumes as if
it had not been interrupted.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeGuard

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from orchestrator.search.trial_results import Cell
from orchestrator.store.plans import Suggestion
from orchestrator.sweeps.search_points import random_taker
from orchestrator.sweeps.search_spec import Layers, SearchSpec, less_is_better
from orchestrator.sweeps.space import Axis, Point, Space, Taken, rebuild, walk
from trials.record import State
from trials.spec import TrialSpec

Distributions = dict[str, BaseDistribution]
Resolve = Callable[[Point], Sequence[TrialSpec] | None]  # the replicates of a point; None if the point is invalid
MOST_REPEATS = 25  # repeated suggestions in a row before a random point is drawn


class AdaptiveCells:
    """Cells suggested by a sampler: first those of earlier launches, then new ones."""

    def __init__(
        self,
        search: SearchSpec,
        space: Space,
        resolve: Resolve,
        n_layers: Layers,
        *,
        earlier: Iterable[Suggestion] = (),
        record: Callable[[Suggestion, Sequence[TrialSpec]], None] = lambda suggestion, specs: None,
    ) -> None:
        """`record` stores a new suggestion with its replicates before any of them runs."""
        assert search.cells is not None
        self._search, self._space, self._resolve, self._n_layers = search, space, resolve, n_layers
        self._earlier, self._record = deque(earlier), record
        self._suggested: dict[str, tuple[dict[str, int | float], Distributions]] = {}  # by cell id
        self._over: dict[str, FrozenTrial] = {}  # of cells that have ended
        self._number = 0

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The replicates of the next cell not suggested before; None if there are enough, or no new one is found."""
        while self._earlier:
            specs = self._add(self._earlier.popleft())
            if specs is not None:
                return specs
        for repeats in range(0 if self._is_full else 10 * MOST_REPEATS):
            if repeats < MOST_REPEATS:
                results = list(map(self._frozen_trial, past))
                point = suggested_point(self._search, self._space, self._n_layers, self._number, results)
            else:
                draw = random_taker(np.random.default_rng([self._search.seed, self._number]))
                point = walk(self._space, draw, self._n_layers)
            suggestion = Suggestion(self._number, point.parameters)
            self._number += 1
            specs = self._add(suggestion)
            if specs is not None:
                self._record(suggestion, specs)
                return specs
        return None

    def _add(self, suggestion: Suggestion) -> Sequence[TrialSpec] | None:
        """The replicates; None if there are enough cells, or it is no new cell of the space."""
        axes: dict[str, Axis] = {}
        point = rebuild(self._space, suggestion.parameters, self._n_layers, axes.__setitem__)
        specs = None if point is None or self._is_full else self._resolve(point)
        self._number = max(self._number, suggestion.number + 1)
        if point is None or not self._is_new(specs):
            return None
        distributions = {name: distribution_of(axis) for name, axis in axes.items()}
        self._suggested[specs[0].cell_id] = point.parameters, distributions
        return specs

    @property
    def _is_full(self) -> bool:
        return len(self._suggested) >= (self._search.cells or 0)

    def _is_new(self, specs: Sequence[TrialSpec] | None) -> TypeGuard[Sequence[TrialSpec]]:
        return specs is not None and bool(specs) and specs[0].cell_id not in self._suggested

    def _frozen_trial(self, cell: Cell) -> FrozenTrial:
        if cell.cell_id in self._over:
            return self._over[cell.cell_id]
        trial = frozen_trial(cell, *self._suggested[cell.cell_id], self._search.objective)
        if cell.is_over:
            self._over[cell.cell_id] = trial
        return trial


def suggested_point(
    search: SearchSpec, space: Space, n_layers: Layers, number: int, past: Sequence[FrozenTrial]
) -> Point:
    """The point with a number, counted from 0 over all suggestions of the search, after these cells.

    Raises:
        PlacedError: An axis has no value for the model.
    """
    with _quiet():
        direction = StudyDirection.MINIMIZE if less_is_better(search.objective) else StudyDirection.MAXIMIZE
        study = optuna.create_study(direction=direction, sampler=_sampler(search, number))
        study.add_trials(past)
        trial = study.ask()

        def take(name: str, axis: Axis) -> Taken:
            value = _suggest(trial, name, distribution_of(axis))
            return (int(value), axis.choice[int(value)]) if axis.choice is not None else (None, value)

        return walk(space, take, n_layers)


def _sampler(search: SearchSpec, number: int) -> optuna.samplers.BaseSampler:
    seed = (search.seed * 1_000_003 + number) % (1 << 32)
    return optuna.samplers.TPESampler(n_startup_trials=search.startup, multivariate=True, group=True, seed=seed)


def _suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> int | float:
    if isinstance(distribution, FloatDistribution):
        return trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(name, distribution.low, distribution.high)
    assert isinstance(distribution, CategoricalDistribution)
    return int(trial.suggest_categorical(name, distribution.choices))  # type: ignore[arg-type]  # indices, see below


def distribution_of(axis: Axis) -> BaseDistribution:
    """The Optuna distribution of an axis; ascending numbers become integer positions."""
    if axis.choice is not None:
        return IntDistribution(0, len(axis.choice) - 1) if _ascends(axis.choice) else CategoricalDistribution(
            tuple(range(len(axis.choice)))
        )  # fmt: skip
    if axis.int_uniform:
        return IntDistribution(*axis.whole_bounds)
    low, high = axis.log_uniform or axis.uniform or (0.0, 1.0)
    return FloatDistribution(low, high, log=axis.log_uniform is not None)


def _ascends(values: Sequence[object]) -> bool:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(numbers) == len(values) > 1 and all(a < b for a, b in itertools.pairwise(numbers))


def frozen_trial(
    cell: Cell, parameters: dict[str, int | float], distributions: Distributions, objective: str
) -> FrozenTrial:
    """A cell as a trial of an Optuna study; one that has ended is never left running.

    Stopped and diverged cells are pruned, which is worse than every complete one; failed ones are ignored.
    """
    states = set(cell.ends.values())
    state, value, best = TrialState.RUNNING, None, dict[int, float]()
    if State.DIVERGED in states:
        state = TrialState.PRUNED
    elif State.PRUNED in states:
        seen = [trial.evaluations for trial in cell.progress.values() if trial.evaluations]
        scores = [max(evaluation.score for evaluation in evaluations) for evaluations in seen]
        epoch = min(evaluations[-1].epoch for evaluations in seen)  # of a seed that was stopped
        state, best = TrialState.PRUNED, {round(epoch): float(np.mean(scores))}
    elif cell.is_over:
        value = cell.mean(objective)
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
    return optuna.trial.create_trial(
        state=state,
        value=value,
        params=dict(parameters),
        distributions=dict(distributions),
        intermediate_values=best,
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's log, and its warning that `group` may change, as the version is pinned."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        logger.setLevel(level)
