"""A sweep: what one YAML file declares, and the trials that it expands to.

    name: my-sweep
    trial:                      # settings that every trial shares; keys of trials.draft.TrialDraft
      model: starter
      optim: {lr: 1e-3, epochs: 5}
    space:                      # what varies: all combinations, or a search
      data: [UD_English-EWT-sample, UD_Naija-NSC-sample]
      freeze: [none, {strategy: first_k, depth: 2}]
      optim.lr: {log_uniform: [1e-5, 1e-3]}             # a distribution needs a random search
    search: {kind: random, cells: 20, seed: 0}        # orchestrator.sweeps.search_spec has all kinds
    schedule: asha              # which cells continue; or a `goal` that chooses depths
    seeds: [0, 1, 2]            # replicates of every cell; init_seed and order_seed in `space` add more
    checkpoint: auto            # when running trials save checkpoints: {epochs: 1}, {minutes: 10}, or off
    keep: weights               # store the trained tensors of each trial's best epoch, for `export model`
    predictions: auto           # stored predictions: of tagging up to a size, or `all`, or `none`
    plugins: [mine]             # modules that register strategies, tasks, metrics, ...: see `trials.plugins.loading`

Settings that belong together vary as `cases`, each of which overrides `trial`:

    space:
      cases: [{task: sst2, data: {...}}, {task: cola, data: {...}}]

Errors are collected and reported together, each with file, line and key (`load_sweep`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.config.limits import Limits, Resources
from orchestrator.config.quantities import amount
from orchestrator.store.plans import SweepName
from orchestrator.sweeps.search_spec import GoalSpec, ScheduleKey, ScheduleSpec, SearchKey, SearchSpec
from orchestrator.sweeps.space import CASES, Axis, continuous, n_points
from trials.spec import Frozen, Predictions, Seed
from trials.training.checkpoint_times import CheckpointKey, CheckpointSpec

MAX_TRIALS = 100_000  # per sweep, seeds included
MAX_VALUES = 2_000  # in `trial`, or in one choice of the space; they are copied for every trial


def _n_values(value: object) -> int:
    """The number of nested values."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(_n_values, inside))


def listed_word(value: object) -> object:
    """A list of one for a bare word; any other value as it is."""
    return [value] if isinstance(value, str) else value


def _list_is_choice(value: object) -> object:
    return {"choice": value} if isinstance(value, list) else value


def _distinct(seeds: list[int]) -> list[int]:
    if twice := [str(seed) for seed, n in Counter(seeds).items() if n > 1]:
        raise ValueError(f"{', '.join(twice)} is listed twice, but a seed gives one trial of a setting")
    return seeds


class SweepSpec(Frozen):
    """What a YAML file declares; see the module's example.

    Attributes:
        name: Its name in the store, in tables and for `permafrost stop`: letters of any script, digits, `_`, `.`, `-`.
        trial: Settings that all trials share: keys of a trial; nested ones as mappings.
        space: What varies: keys of a trial, nested ones with dots, each with its values; `cases` vary several together.
        seeds: The replicates of every setting.
        search: How settings are chosen from the space.
        schedule: Which settings continue and which stop early.
        goal: What is asked: tolerance, cost to save, and whether the answer decides which trials run.
        resources: What one trial gets.
        checkpoint: When running trials save checkpoints; a bare word is ``auto`` or ``off``.
        limits: When to give up.
        keep: ``weights`` stores the trained tensors of each trial's best epoch, so that a model is exported without
            training; null stores none.
        predictions: Which predictions are stored: ``auto`` for those of tagging up to a size, ``all`` or ``none``.
        plugins: Modules that register strategies, rules, tasks, metrics or statistics of your own; looked for beside
            the file, in the working folder, and among what is installed.
    """

    name: SweepName
    trial: dict[str, Any] = {}
    space: dict[str, Annotated[Axis, BeforeValidator(_list_is_choice)]] = {}
    seeds: Annotated[list[Seed], Field(min_length=1), AfterValidator(_distinct)] = [0]
    search: SearchKey = SearchSpec()
    schedule: ScheduleKey = ScheduleSpec()
    goal: GoalSpec | None = None
    resources: Resources = Resources()
    checkpoint: CheckpointKey = CheckpointSpec(auto=True)
    limits: Limits = Limits()
    keep: Literal["weights"] | None = None
    predictions: Predictions = "auto"
    plugins: Annotated[tuple[str, ...], BeforeValidator(listed_word)] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> SweepSpec:
        self._check_cases()
        cases = self.space[CASES].choice if CASES in self.space else None
        if any("seed" in settings for settings in (self.trial, self.space, *(cases or ()))):
            raise ValueError("`seed` is not allowed in `trial` or `space`: list the seeds under `seeds`")
        if self.search.is_adaptive and any({"init_seed", "order_seed"} & {*s} for s in (self.space, *(cases or ()))):
            raise ValueError(
                f"`init_seed` and `order_seed` make replicates, not settings that `search: {self.search.kind}` can "
                "choose: vary them in a grid"
            )
        inside = [f"{b} is inside {a}" for a, b in itertools.permutations(self.space, 2) if b.startswith(f"{a}.")]
        if inside:
            raise ValueError(f"space: {', '.join(inside)}: they override each other; give their values under one key")
        if self.search.kind == "grid" and (distributed := continuous(self.space)):
            raise ValueError(
                f"a grid needs lists, but {', '.join(distributed)} is a distribution; use search.kind: random"
            )
        return self

    @property
    def chooses_depth(self) -> bool:
        """Whether the answer to its goal decides which trials run."""
        return self.goal is not None and self.goal.choose_depth is not None

    @property
    def decision_plan(self) -> DecisionPlan:
        """What its answers go by."""
        return DecisionPlan() if self.goal is None else self.goal.plan

    def search_words(self) -> Iterator[str]:
        """One line per key that decides which trials run; none if all of them do."""
        if self.search.is_adaptive:
            yield f"{self.search.kind} for {self.search.objective}"
        if self.schedule.kind != "none":
            yield f"{self.schedule.kind}: from {self.schedule.first:g} {self.schedule.by}"
        if self.goal is not None and self.goal.choose_depth is not None:
            goal = self.goal.choose_depth
            limit = f"{amount(goal.tolerance, 'point')}, at {goal.confidence:.0%} confidence"
            yield f"choose_depth: the deepest freeze that loses at most {limit}"

    @model_validator(mode="after")
    def _is_bounded(self) -> SweepSpec:
        cells = (
            self.search.cells or n_points(self.space) or 1
        )  # depths up to the model's layers are counted by `expand`
        if (n := cells * len(self.seeds)) > MAX_TRIALS:
            raise ValueError(f"{n:,} trials exceed the limit of {MAX_TRIALS:,} per sweep. Split it into several sweeps")
        choices = [(f"space.{key}", choice) for key, axis in self.space.items() for choice in axis.choice or ()]
        for key, value in (("trial", self.trial), *choices):
            if _n_values(value) > MAX_VALUES:
                raise ValueError(f"{key}: holds more than {MAX_VALUES:,} values")
        return self

    def _check_cases(self) -> None:
        if CASES not in self.space:
            return
        cases = self.space[CASES].choice or []
        if not cases or not all(
            isinstance(case, dict) and case and all(isinstance(key, str) for key in case) for case in cases
        ):
            raise ValueError("space.cases: must be a list of mappings of settings")
        twice = sorted(
            {str(key).split(".")[0] for case in cases for key in case} & {k.split(".")[0] for k in self.space}
        )
        if twice:
            raise ValueError(f"space: {', '.join(twice)} is in `cases` too; they override each other")
