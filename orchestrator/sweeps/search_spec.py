"""The keys that decide which trials of a sweep run: search, schedule, goal.

search: {kind: tpe, cells: 40}                                   # the best score
schedule: {kind: asha, first: 1, factor: 3}                      # promising trials continue, the others stop
goal: {choose_depth: {tolerance: 0.5, trials: 60}}               # the deepest freeze within a tolerance
goal: {tolerance: 0.5, cost: training_cost_s}                    # what is asked, where all trials run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from orchestrator.analysis.decision_plan import MIN_SAVING, DecisionPlan
from orchestrator.sweeps.space import Point, Space
from trials.metrics.metric import METRICS
from trials.plugins.registry import Registry
from trials.record import SAVED
from trials.spec import Frozen, Positive, Seed

Layers = Callable[[Point], int]  # encoder layers of a point's model


def less_is_better(objective: str) -> bool:
    """Whether an objective is minimised, as an error rate is."""
    return objective in METRICS and not METRICS[objective].higher_is_better


@dataclass(frozen=True)
class SearchKind:
    """One way to choose points of a space, registered under the word that the YAML uses.

    Attributes:
        points: Yields the points in order; of an adaptive search, random ones for planning, more than its cells because
            some repeat.
        needs_cells: Whether `cells` says how many; otherwise the space does.
        is_adaptive: Whether the next point depends on results; `orchestrator.search.optuna_search` chooses it.
    """

    points: Callable[[SearchSpec, Space, Layers], Iterator[Point]]
    needs_cells: bool = True
    is_adaptive: bool = False


SEARCHES: Registry[SearchKind] = Registry("search")


class SearchSpec(Frozen):
    """How cells are chosen from the space; a bare word is a kind.

    Attributes:
        kind: ``grid`` for every combination; ``random`` for samples; ``sobol`` for evenly spread samples (Sobol'
            1967, scrambled); ``tpe`` for a tree-structured Parzen estimator (Bergstra et al. 2011), which samples where
            cells scored well.
        cells: Number of cells, not counting seeds; not for a grid.
        seed: Seed of the sampling, not of the trials.
        startup: Random cells of ``tpe`` before the first model-based one.
        objective: What is optimised: ``score``, or another dev metric of the task.
    """

    kind: str = "grid"
    cells: Positive | None = None
    seed: Seed = 0
    startup: Positive = 10
    objective: str = "score"

    @field_validator("kind")
    @classmethod
    def _is_registered(cls, kind: str) -> str:
        SEARCHES[kind]
        return kind

    @model_validator(mode="after")
    def _fits_its_kind(self) -> SearchSpec:
        if SEARCHES[self.kind].needs_cells != (self.cells is not None):
            counted = "`, `".join(kind for kind in SEARCHES if SEARCHES[kind].needs_cells)
            raise ValueError(f"`cells: N` is required with `kind: {counted}` and not allowed with any other")
        return self

    @property
    def is_adaptive(self) -> bool:
        """Whether the next cell depends on results."""
        return SEARCHES[self.kind].is_adaptive


class ScheduleSpec(Frozen):
    """Which trials continue and which stop early; a bare word is a kind.

    Attributes:
        kind: ``none``; ``asha`` (Li et al. 2020): a trial stops at a rung unless its cell is among the best that
            came there so far.
        by: What rungs count: ``epochs`` or ``examples`` seen.
        first: The first rung.
        factor: One in `factor` cells continues, and each rung is `factor` times as far as the previous one.
        each_group: Rank within each objective group (task, metric, corpus, train size). Without it a sweep with several
            is refused, as scores of different groups are not comparable.
    """

    kind: Literal["none", "asha"] = "none"
    by: Literal["epochs", "examples"] = "epochs"
    first: Annotated[float, Field(gt=0)] = 1.0
    factor: Annotated[float, Field(ge=2, le=100)] = 3.0
    each_group: bool = False


class DepthGoalSpec(Frozen):
    """The deepest freeze whose loss against the baseline, paired by seed, is within a tolerance.

    Attributes:
        tolerance: Largest acceptable mean loss, in points (hundredths of the score).
        confidence: Probability that the answer does not truly lose more, over all tests and depths, on average over
            seeds and over sentences like those of dev, as long as runs do not collapse.
        trials: Maximum number of trials, baselines included; None for all cells and seeds.
        min_seeds: Replicates before the first test of a depth.
    """

    tolerance: Annotated[float, Field(gt=0, lt=100)]
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    trials: Positive | None = None
    min_seeds: Annotated[int, Field(ge=2)] = 3


class GoalSpec(Frozen):
    """What the sweep asks: its answers, report and pages take these values unless told otherwise.

    Attributes:
        tolerance: Largest acceptable mean loss, in points (hundredths of the score); with `choose_depth`, its own.
        cost: What freezing should save, e.g. ``training_flops`` or ``training_cost_s``; null for training FLOPs where
            they are recorded, else trainable parameters.
        min_saving: Share of that cost below which a freeze is not worth having.
        most_seeds: The seeds that are planned, fixed before the first look; null for as many as `seeds` lists, and
            where seeds are added later, as it listed when trials could first be looked at.
        choose_depth: How deep can be frozen within a tolerance? The answer decides which trials run; null runs all.
    """

    tolerance: Annotated[float, Field(ge=0, lt=100)] | None = None
    cost: str | None = None
    min_saving: Annotated[float, Field(ge=0, lt=1)] = MIN_SAVING
    most_seeds: Annotated[int, Field(ge=2, le=100)] | None = None
    choose_depth: DepthGoalSpec | None = None

    @field_validator("cost")
    @classmethod
    def _is_cost(cls, cost: str | None) -> str | None:
        if cost is not None and cost not in SAVED:
            raise ValueError(f"{cost!r} is not one of {', '.join(SAVED)}")
        return cost

    @model_validator(mode="after")
    def _has_one_tolerance(self) -> GoalSpec:
        if self.choose_depth is not None and self.tolerance is not None:
            raise ValueError("`tolerance` stands twice: with `choose_depth`, leave the outer one out")
        return self

    @property
    def plan(self) -> DecisionPlan:
        """What decisions go by."""
        depth = self.choose_depth
        tolerance = self.tolerance if depth is None else depth.tolerance
        return DecisionPlan(
            tolerance=DecisionPlan.tolerance if tolerance is None else tolerance,
            cost=self.cost,
            min_saving=self.min_saving,
            error=DecisionPlan.error if depth is None else round(1 - depth.confidence, 12),
            most_seeds=self.most_seeds,
            min_seeds=DecisionPlan.min_seeds if depth is None else depth.min_seeds,
        )


def _word_is_kind(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


SearchKey = Annotated[SearchSpec, BeforeValidator(_word_is_kind)]
ScheduleKey = Annotated[ScheduleSpec, BeforeValidator(_word_is_kind)]
