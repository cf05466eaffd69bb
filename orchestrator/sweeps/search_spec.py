"""How a sweep says what is run: a searcher, a scheduler, a race of seeds, or a goal.

search: {kind: tpe, cells: 40}                                   # the best score
search: {kind: pareto, cells: 60, objectives: [score, train_s]}  # what trades off against what
schedule: {kind: asha, first: 1, factor: 3}                      # promising cells go on, the others pause
racing: {confidence: 0.95}                                       # seeds where they decide
goal: {choose_depth: {tolerance: 0.5, trials: 60}}               # the deepest freeze that loses at most that
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from trials.metrics.metric import METRICS
from trials.settings import Frozen, Positive, Seed

Confidence = Annotated[float, Field(ge=0.5, lt=1)]
ADAPTIVE = ("tpe", "pareto")  # searchers that learn from what came back
COSTS = ("train_s", "energy_j", "peak_memory_bytes", "trainable_params")  # objectives that are no quality
COUNTED = ("random", "sobol", *ADAPTIVE)  # those that need to be told how many cells


def less_is_better(objective: str) -> bool:
    """Whether an objective is minimised: a cost, or a metric such as an error rate."""
    return objective in COSTS or (objective in METRICS and not METRICS[objective].higher_is_better)


class SearchSpec(Frozen):
    """How the space is walked; a bare word is a kind.

    Attributes:
        kind: ``grid`` for every combination; ``random`` for samples; ``sobol`` for samples that are spread evenly
            (Sobol' 1967, scrambled); ``tpe`` for a tree-structured Parzen estimator (Bergstra et al. 2011), which
            looks where cells were good; ``pareto`` for the same with several objectives.
        cells: How many cells, before the seeds; not of a grid.
        seed: Of the sampling, not of the trials.
        startup: Cells that ``tpe`` and ``pareto`` draw at random before they learn.
        objectives: What is searched for: ``score``, another dev metric of the task, or a cost (`train_s`, `energy_j`,
            `peak_memory_bytes`, `trainable_params`). Costs are made small, metrics large.
    """

    kind: Literal["grid", "random", "sobol", "tpe", "pareto"] = "grid"
    cells: Positive | None = None
    seed: Seed = 0
    startup: Positive = 10
    objectives: Annotated[tuple[str, ...], Field(min_length=1, max_length=3)] = ("score",)

    @model_validator(mode="after")
    def _is_counted(self) -> SearchSpec:
        if (self.kind in COUNTED) != (self.cells is not None):
            raise ValueError(f"`cells: N` goes with `kind: random`, `{'`, `'.join(COUNTED[1:])}` and with nothing else")
        if len(set(self.objectives)) < len(self.objectives):
            raise ValueError(f"objectives {list(self.objectives)}: one is given twice")
        if (self.kind == "pareto") != (len(self.objectives) > 1):
            raise ValueError("`kind: pareto` needs two objectives or three, every other kind one")
        return self

    @property
    def is_adaptive(self) -> bool:
        """Whether what comes next depends on what came back."""
        return self.kind in ADAPTIVE


class ScheduleSpec(Frozen):
    """Which cells go on, and which stop before their end; a bare word is a kind.

    Attributes:
        kind: ``none``; ``asha`` (Li et al. 2020): cells pause at rungs, and whenever there is room the best go on;
            ``halving`` (Jamieson and Talwalkar 2016): the same, but a rung waits for all of its cells; ``median``
            (Golovin et al. 2017): a cell stops where its best score is below the median of the others' running means.
        by: What rungs count: ``epochs`` or ``examples`` seen.
        first: The first rung, or, of ``median``, when it looks for the first time.
        factor: One in so many goes on, and each rung is so many times as far as the one before.
        each_group: Rank inside each objective group (task, metric, corpus, train size) by itself. Without it a sweep of
            several is refused, as scores of different groups do not compare.
    """

    kind: Literal["none", "asha", "halving", "median"] = "none"
    by: Literal["epochs", "examples"] = "epochs"
    first: Annotated[float, Field(gt=0)] = 1.0
    factor: Annotated[float, Field(ge=2, le=100)] = 3.0
    each_group: bool = False


class RacingSpec(Frozen):
    """Seeds are added cell by cell; one that is clearly dominated gets no more. Bare ``true`` takes all defaults.

    Attributes:
        test: ``student`` on differences paired by seed, with one variance for all cells; ``wilcoxon``, signed ranks of
            the same pairs, which can tell nothing before the fifth; ``hoeffding``, bounds for scores between 0 and 1,
            which suppose nothing else and need hundreds of seeds.
        confidence: That the best cell is not dropped, over all looks and cells together.
    """

    test: Literal["student", "wilcoxon", "hoeffding"] = "student"
    confidence: Confidence = 0.95


class DepthGoalSpec(Frozen):
    """The deepest freeze whose loss against the baseline, paired by seed, is within a tolerance.

    Attributes:
        tolerance: Largest acceptable mean loss, in points (hundredths of the score).
        confidence: That the answer does not truly lose more, over all looks and depths together.
        trials: At most so many, baselines included; None for as many as cells and seeds allow.
        min_seeds: Replicates before a depth is judged for the first time.
    """

    tolerance: Annotated[float, Field(gt=0, lt=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    trials: Positive | None = None
    min_seeds: Annotated[int, Field(ge=2)] = 3


class GoalSpec(Frozen):
    """A question that decides by itself what is run."""

    choose_depth: DepthGoalSpec


def _word_is_kind(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


def _true_is_default(value: object) -> Any:
    return {} if value is True else None if value is False else value


SearchKey = Annotated[SearchSpec, BeforeValidator(_word_is_kind)]
ScheduleKey = Annotated[ScheduleSpec, BeforeValidator(_word_is_kind)]
RacingKey = Annotated[RacingSpec | None, BeforeValidator(_true_is_default)]
