"""Points suggested by Optuna's samplers.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from orchestrator.sweeps.search_spec import SearchSpec, less_is_better
from orchestrator.sweeps.space import Axis, Point, Space, Taken, walk

Distributions = dict[str, BaseDistribution]


@dataclass(frozen=True)
class PastCell:
    """A cell that was suggested before, as the sampler sees it.

    Attributes:
        values: Mean over seeds of each objective; None without results.
        state: ``running``, ``complete``, ``pruned`` (stopped or diverged: worse than every complete cell), or
            ``failed`` (ignored).
        best: For a pruned cell, its last epoch and its best score.
    """

    parameters: dict[str, int | float]
    distributions: Distributions
    values: tuple[float, ...] | None
    state: str
    best: tuple[float, float] | None = None


class OptunaPoints:
    """Suggests points of a space by the sampler of a search."""

    def __init__(self, search: SearchSpec, space: Space, n_layers: Callable[[Point], int]) -> None:
        self._search, self._space, self._n_layers = search, space, n_layers
        self._frozen: dict[int, FrozenTrial] = {}  # number -> trial of an ended cell

    def suggest(self, number: int, past: Sequence[PastCell]) -> tuple[Point, Distributions]:
        """The point with a number, counted from 0 over all suggestions of the search.

        Raises:
            LayersError: An axis has no value for the model.
        """
        with _quiet():
            study = optuna.create_study(directions=directions(self._search), sampler=self._sampler(number))
            study.add_trials([self._trial(i, cell) for i, cell in enumerate(past)])
            trial = study.ask()
            distributions: Distributions = {}

            def take(name: str, axis: Axis) -> Taken:
                distributions[name] = distribution = distribution_of(axis)
                value = _suggested(trial, name, distribution)
                return (int(value), axis.choice[int(value)]) if axis.choice is not None else (None, value)

            return walk(self._space, take, self._n_layers), distributions

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        seed = (self._search.seed * 1_000_003 + number) % (1 << 32)
        startup = self._search.startup
        return optuna.samplers.TPESampler(n_startup_trials=startup, multivariate=True, group=True, seed=seed)

    def _trial(self, number: int, cell: PastCell) -> FrozenTrial:
        if number in self._frozen:
            return self._frozen[number]
        trial = frozen_trial(cell, n_objectives=len(self._search.objectives))
        if cell.state != "running" and cell.best is None:
            self._frozen[number] = trial
        return trial


def _suggested(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> int | float:
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
        return IntDistribution(*axis.whole)
    low, high = axis.log_uniform or axis.uniform or (0.0, 1.0)
    return FloatDistribution(low, high, log=axis.log_uniform is not None)


def _ascends(values: Sequence[object]) -> bool:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(numbers) == len(values) > 1 and all(a < b for a, b in itertools.pairwise(numbers))


def directions(search: SearchSpec) -> list[StudyDirection]:
    """The direction of each objective."""
    return [StudyDirection.MINIMIZE if less_is_better(name) else StudyDirection.MAXIMIZE for name in search.objectives]


def frozen_trial(cell: PastCell, *, n_objectives: int) -> FrozenTrial:
    """A cell as a trial of an Optuna study. An ended cell is never left running."""
    states = {"running": TrialState.RUNNING, "complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    state = states.get(cell.state, TrialState.FAIL)
    if state is TrialState.PRUNED and n_objectives > 1:
        state = TrialState.FAIL  # Optuna has no pruning for several objectives
    intermediate = {round(cell.best[0]): cell.best[1]} if cell.best and n_objectives == 1 else {}
    return optuna.trial.create_trial(
        state=state,
        values=list(cell.values) if state is TrialState.COMPLETE and cell.values is not None else None,
        params=dict(cell.parameters),
        distributions=dict(cell.distributions),
        intermediate_values=intermediate,
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log and its warning that `group` may change: the version is pinned."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        logger.setLevel(level)
