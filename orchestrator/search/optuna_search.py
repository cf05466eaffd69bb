"""Points that Optuna's samplers suggest, and its studies in a file.

Ray's own adapter is not used: it leaves trials running for ever where a metric is not a number, and tells pruned ones
as complete. Here a suggestion is a function of the seed, its number and what came back so far: the study is made anew
from that each time, the sampler is seeded with seed and number, and nothing is unpickled. So a search that was killed
goes on as if it had not been.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from orchestrator.sweeps.axis import Axis
from orchestrator.sweeps.search_spec import SearchSpec, less_is_better
from orchestrator.sweeps.space import Point, Space, Taken, walk

Distributions = dict[str, BaseDistribution]


@dataclass(frozen=True)
class Told:
    """A cell that was suggested before, as the sampler hears of it.

    Attributes:
        parameters: Of its point.
        distributions: What they were taken from.
        values: Of each objective, the mean over seeds; None where there are none (yet).
        state: ``running``, ``complete``, ``pruned`` (stopped, or diverged: worse than all that are complete), or
            ``failed`` (says nothing).
        best: Where it was pruned: the epoch it came to and its best score by then.
        trial_ids: Of its replicates.
    """

    parameters: dict[str, int | float]
    distributions: Distributions
    values: tuple[float, ...] | None
    state: str
    best: tuple[float, float] | None = None
    trial_ids: tuple[str, ...] = ()


class OptunaPoints:
    """Suggests points of a space by a search's sampler."""

    def __init__(self, search: SearchSpec, space: Space, n_layers: Callable[[Point], int]) -> None:
        self._search, self._space, self._n_layers = search, space, n_layers
        self._frozen: dict[int, FrozenTrial] = {}  # those told that will not change any more, by number

    def suggest(self, number: int, past: Sequence[Told]) -> tuple[Point, Distributions]:
        """The point of a number, counted from 0 over all that were ever asked for.

        Raises:
            LayersError: an axis has no value for the model.
        """
        with _quiet():
            study = optuna.create_study(directions=directions(self._search), sampler=self._sampler(number))
            study.add_trials([self._trial(i, told) for i, told in enumerate(past)])
            trial = study.ask()
            found: Distributions = {}

            def take(name: str, axis: Axis) -> Taken:
                found[name] = distribution = distribution_of(axis)
                value = _suggested(trial, name, distribution)
                return (int(value), axis.choice[int(value)]) if axis.choice is not None else (None, value)

            return walk(self._space, take, self._n_layers), found

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        seed = (self._search.seed * 1_000_003 + number) % (1 << 32)
        startup = self._search.startup
        return optuna.samplers.TPESampler(n_startup_trials=startup, multivariate=True, group=True, seed=seed)

    def _trial(self, number: int, told: Told) -> FrozenTrial:
        if number in self._frozen:
            return self._frozen[number]
        trial = frozen_trial(told, n_objectives=len(self._search.objectives))
        if told.state != "running" and told.best is None:
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
    """An axis in Optuna's words. Ascending numbers are an order of places (YAML takes `3e-5` for a text: 3.0e-5)."""
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
    """Of each objective."""
    return [StudyDirection.MINIMIZE if less_is_better(name) else StudyDirection.MAXIMIZE for name in search.objectives]


def frozen_trial(told: Told, *, n_objectives: int) -> FrozenTrial:
    """A cell as a trial of an Optuna study. None is left running that has ended, whatever became of it."""
    states = {"running": TrialState.RUNNING, "complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    state = states.get(told.state, TrialState.FAIL)
    if state is TrialState.PRUNED and n_objectives > 1:
        state = TrialState.FAIL  # of several objectives Optuna knows no pruning
    intermediate = {round(told.best[0]): told.best[1]} if told.best and n_objectives == 1 else {}
    return optuna.trial.create_trial(
        state=state,
        values=list(told.values) if state is TrialState.COMPLETE and told.values is not None else None,
        params=dict(told.parameters),
        distributions=dict(told.distributions),
        intermediate_values=intermediate,
        user_attrs={"trial_ids": list(told.trial_ids)},
    )


def write_study(path: Path, name: str, search: SearchSpec, past: Sequence[Told]) -> int:
    """Write a search as an Optuna study in an SQLite file, which `optuna-dashboard sqlite:///FILE` opens.

    Cells that have not ended are left out. Returns how many were written.
    """
    ended = [told for told in past if told.state != "running"]
    with _quiet():
        study = optuna.create_study(
            storage=f"sqlite:///{path}", study_name=name, directions=directions(search), load_if_exists=False
        )
        if len(search.objectives) > 1 or search.objectives != ("score",):
            study.set_metric_names(list(search.objectives))
        study.add_trials([frozen_trial(told, n_objectives=len(search.objectives)) for told in ended])
    return len(ended)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's lines of log, and its warnings that `group` may change: the version is pinned."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        logger.setLevel(level)
