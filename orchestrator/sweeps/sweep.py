"""A sweep: all that one YAML file declares, and the trials it expands to.

    name: my-sweep
    trial:                      # settings that every trial shares; keys of trials.draft.TrialDraft
      model: starter
      optim: {lr: 1e-3, epochs: 5}
    space:                      # what varies: every combination of it, or random cells
      data: [UD_English-EWT-sample, UD_Naija-NSC-sample]
      freeze: [none, {strategy: first_k, depth: 2}]
      optim.lr: {log_uniform: [1e-5, 1e-3]}             # a distribution needs a random search
    search: {kind: random, cells: 20, seed: 0}        # orchestrator.sweeps.search_spec has all kinds
    schedule: asha              # which cells go on, which stop early; or `racing: true`, or a `goal`
    seeds: [0, 1, 2]            # replicates of every cell
    checkpoint: auto            # how often a running trial is kept: {epochs: 1}, {minutes: 10}, or off
    predictions: auto           # kept beside the scores: of tagging up to a size, or `all`, or `none`
    watch: {log: sweep.jsonl}   # a log in JSON, messages when it ends or stalls: see `notification_spec`

Settings that belong together vary as `cases`, each laid over `trial`:

    space:
      cases: [{task: sst2, data: {...}}, {task: cola, data: {...}}]

Mistakes are collected and told all at once, each with file, line and key.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from orchestrator.config.validation_messages import MAX_MISTAKES, most, wording
from orchestrator.config.yaml_document import Document, KeyPath, set_path
from orchestrator.sweeps.axis import Axis
from orchestrator.sweeps.notification_spec import WatchSpec
from orchestrator.sweeps.samplers import points_of
from orchestrator.sweeps.search_spec import GoalSpec, RacingKey, ScheduleKey, ScheduleSpec, SearchKey, SearchSpec
from orchestrator.sweeps.space import CASES, LayersError, Point, continuous, n_points, path_of
from trials.draft import DraftError, Lookup, ModelKey, TrialDraft
from trials.errors import ConfigError, PermafrostError
from trials.settings import CheckpointTimes, Frozen, Positive, Predictions, Seed
from trials.sources.local_models import STARTER
from trials.spec import TrialSpec

MAX_TRIALS = 100_000  # of a sweep, seeds included
MOST_SINCE = 300  # points that are looked at after one with a mistake, to tell of others too
MAX_VALUES = 2_000  # inside `trial`, or inside one choice of the space; they are copied for every trial


class Resources(Frozen):
    """What one trial gets; no part of its identity.

    Attributes:
        cpus: Cores, and threads of its arithmetic.
        gpus: GPUs; a fraction shares one, and ``packed`` as many trials as fit by their measured memory.
        device: Which nodes: ``any``, a kind of accelerator as Ray names it (``A100``), ``cpu`` for nodes without, or
            ``one``, the kind with most room: so that all times can be compared.
    """

    cpus: Positive = 1
    gpus: Annotated[float, Field(ge=0)] | Literal["packed"] = 0.0
    device: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.:-]*$", max_length=80)] = "any"


class Limits(Frozen):
    """When to give up; no part of a trial's identity. See `orchestrator.execution.trial_queue`.

    Attributes:
        lost: How often in a row a trial may lose its worker without an evaluation between.
        unavailable: How often it is tried again when a disk or a network did not answer.
        alike: So many first trials that all fail with the same words stop the sweep.
    """

    lost: Annotated[int, Field(ge=0)] = 10
    unavailable: Annotated[int, Field(ge=0)] = 4
    alike: Positive = 5


class CheckpointSpec(Frozen):
    """When a running trial is kept, so that it can go on from there; no part of its identity.

    Attributes:
        epochs: At the first evaluation after so many epochs.
        minutes: After so many minutes, in the midst of an epoch if need be.
        auto: At every evaluation, as long as that takes at most a twentieth of the time, and every two minutes.
    """

    epochs: Annotated[float, Field(gt=0)] | None = None
    minutes: Annotated[float, Field(gt=0)] | None = None
    auto: bool = False

    @property
    def is_off(self) -> bool:
        """Whether trials are never kept."""
        return self.epochs is None and self.minutes is None and not self.auto

    @property
    def times(self) -> CheckpointTimes | None:
        """When a trial saves checkpoints; None if never."""
        minutes = self.minutes or (2 if self.auto else None)
        seconds = None if minutes is None else 60 * minutes
        return None if self.is_off else CheckpointTimes(self.epochs, seconds, 0.05 if self.auto else None)


def _word_is_checkpoint(value: object) -> object:
    if value == "auto":
        return {"auto": True}
    return {} if value in ("off", False, None) else value  # YAML reads a bare `off` as false


def _n_values(value: object) -> int:
    """How many values are inside one another."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(_n_values, inside))


def _is_word(key: object) -> bool:
    return isinstance(key, str)


def _list_is_choice(value: object) -> object:
    return {"choice": value} if isinstance(value, list) else value


class SweepSpec(Frozen):
    """What a YAML file declares; see the module's example."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=80)]
    trial: dict[str, Any] = {}
    space: dict[str, Annotated[Axis, BeforeValidator(_list_is_choice)]] = {}
    seeds: Annotated[list[Seed], Field(min_length=1)] = [0]
    search: SearchKey = SearchSpec()
    schedule: ScheduleKey = ScheduleSpec()
    racing: RacingKey = None
    goal: GoalSpec | None = None
    resources: Resources = Resources()
    checkpoint: Annotated[CheckpointSpec, BeforeValidator(_word_is_checkpoint)] = CheckpointSpec(auto=True)
    limits: Limits = Limits()
    predictions: Predictions = "auto"
    watch: WatchSpec = WatchSpec()

    @model_validator(mode="after")
    def _fits_together(self) -> SweepSpec:
        self._check_cases()
        cases = self.space[CASES].choice if CASES in self.space else None
        if any("seed" in settings for settings in (self.trial, self.space, *(cases or ()))):
            raise ValueError("`seed` does not stand in `trial` or `space`: list the seeds under `seeds`")
        inside = [f"{b} is inside {a}" for a, b in itertools.permutations(self.space, 2) if b.startswith(f"{a}.")]
        if inside:
            raise ValueError(f"space: {', '.join(inside)}: one would undo the other; give their values under one key")
        if self.search.kind == "grid" and (distributed := continuous(self.space)):
            raise ValueError(
                f"a grid needs lists, but {', '.join(distributed)} is a distribution; use search.kind: random"
            )
        return self

    def search_words(self) -> Iterator[str]:
        """What decides which trials run, where that is not all of them."""
        if self.search.is_adaptive:
            yield f"{self.search.kind} for {', '.join(self.search.objectives)}"
        if self.schedule.kind != "none":
            yield f"{self.schedule.kind}: from {self.schedule.first:g} {self.schedule.by}"
        if self.racing is not None:
            yield f"a race of seeds: {self.racing.test} at {self.racing.confidence:.0%}"
        if self.goal is not None:
            goal = self.goal.choose_depth
            yield f"the deepest freeze that loses at most {goal.tolerance:g} points, at {goal.confidence:.0%}"

    @model_validator(mode="after")
    def _is_bounded(self) -> SweepSpec:
        cells = self.search.cells or n_points(self.space) or 1  # with depths by the model's layers: `expand` counts
        if (n := cells * len(self.seeds)) > MAX_TRIALS:
            raise ValueError(f"these are {n:,} trials, and a sweep has at most {MAX_TRIALS:,}. Make several of it")
        choices = [(f"space.{key}", choice) for key, axis in self.space.items() for choice in axis.choice or ()]
        for key, value in (("trial", self.trial), *choices):
            if _n_values(value) > MAX_VALUES:
                raise ValueError(f"{key}: holds more than {MAX_VALUES:,} values")
        return self

    def _check_cases(self) -> None:
        if CASES not in self.space:
            return
        cases = self.space[CASES].choice or []
        if not cases or not all(isinstance(case, dict) and case and all(map(_is_word, case)) for case in cases):
            raise ValueError("space.cases: a list of mappings, each of settings that belong together")
        twice = sorted(
            {str(key).split(".")[0] for case in cases for key in case} & {k.split(".")[0] for k in self.space}
        )
        if twice:
            raise ValueError(f"space: {', '.join(twice)} stands in `cases` too; one would undo the other")


def load_sweep(path: Path, settings: list[str]) -> tuple[SweepSpec, Document]:
    """Read a sweep from YAML, with `KEY=VALUE` settings put over it.

    Raises:
        ConfigError: with every mistake, each by file, line and key.
    """
    document = Document.read(path)
    for setting in settings:
        document.override(setting)
    try:
        return SweepSpec.model_validate(document.content), document
    except ValidationError as error:
        problems = [document.place(_shorthand(e["loc"])) + wording(e, SweepSpec) for e in error.errors()]
        wrong = {e["loc"][0] if e["loc"] else "space" for e in error.errors()}
        raise ConfigError(most([*problems, *_problems_of_the_rest(document, wrong)])) from error


def _problems_of_the_rest(document: Document, wrong: set[int | str]) -> tuple[str, ...]:
    """What is wrong with the trials of a sweep whose other keys are, so that one message can hold all mistakes."""
    if wrong & {"trial", "space"}:
        return ()
    rest = {key: document.content.get(key, {}) for key in ("trial", "space")}
    try:
        expand(SweepSpec.model_validate({"name": "rest", **rest}), document, Lookup(offline=True))
    except ConfigError as error:
        return error.problems
    except ValidationError:  # a distribution, which needs the search that is among the wrong keys
        return ()
    return ()


def expand(sweep: SweepSpec, document: Document, lookup: Lookup) -> list[TrialSpec]:
    """The trials of a sweep in its order, each once; of a search that learns, those of random cells in their place.

    Raises:
        ConfigError: with every mistake, each by file, line and key; `exit_code` is 3 if only files are at fault.
    """
    specs = dict[str, TrialSpec]()
    problems: dict[str, int] = {}
    points = points_of(sweep.search, sweep.space, layers_of(sweep, lookup))
    n_since = 0  # points since the first mistake
    while n_since <= MOST_SINCE:
        try:
            point = next(points, None)
        except (LayersError, PlacedError) as error:
            problems |= _found(document, sweep, error)
            break
        if point is None:
            break
        try:
            specs |= {spec.trial_id: spec for spec in replicates(sweep, point, lookup) if spec.trial_id not in specs}
        except (ValidationError, DraftError) as error:
            for text, code in _problems(document, point, error).items():
                problems.setdefault(text, code)
        n_since += bool(problems)
        if len(problems) > MAX_MISTAKES or len(specs) > MAX_TRIALS or _are_enough(sweep, len(specs)):
            break
    if len(specs) > MAX_TRIALS:
        problems[document.place(("space",)) + f"a sweep has at most {MAX_TRIALS:,} trials. Make several of it."] = 2
    if problems:
        raise ConfigError(most(problems), exit_code=min(problems.values()))
    return list(specs.values())


def _are_enough(sweep: SweepSpec, n_trials: int) -> bool:
    """Whether there are stand-ins for every cell of a search that learns."""
    return sweep.search.is_adaptive and n_trials >= (sweep.search.cells or 0) * len(set(sweep.seeds))


def replicates(sweep: SweepSpec, point: Point, lookup: Lookup) -> list[TrialSpec]:
    """The trials of one cell. Raises ValidationError, DraftError: it is none."""
    first = _draft(sweep, point, sweep.seeds[0]).resolve(lookup)
    return [first.with_seed(seed) for seed in dict.fromkeys(sweep.seeds)]  # what is valid with one seed is so with all


def layers_of(sweep: SweepSpec, lookup: Lookup) -> Callable[[Point], int]:
    """Looks up how many encoder layers the model of a point has. It raises PlacedError."""

    def n_layers(point: Point) -> int:
        try:
            draft = _ModelOnly.model_validate({"model": _content(sweep, point).get("model", STARTER)})
            return lookup.model(draft.model).n_layers
        except ValidationError as error:
            raise PlacedError([(point.place(e["loc"]), wording(e, TrialDraft)) for e in error.errors()], 2) from error
        except PermafrostError as error:
            raise PlacedError([(point.place(("model",)), str(error))], error.exit_code) from error

    return n_layers


class _ModelOnly(Frozen):
    model: ModelKey


class PlacedError(DraftError):
    """A point that cannot be made; its problems' paths are those of the sweep's file."""


def _draft(sweep: SweepSpec, point: Point, seed: int) -> TrialDraft:
    return TrialDraft.model_validate({**_content(sweep, point), "seed": seed})


def _content(sweep: SweepSpec, point: Point) -> dict[str, Any]:
    """A trial in a person's words."""
    content = copy.deepcopy(sweep.trial)
    for key, value in point.dotted():
        path = tuple(key.split("."))
        try:
            set_path(content, path, copy.deepcopy(value))
        except TypeError as error:
            raise DraftError([(path, str(error))], 2) from error
    return content


def _problems(document: Document, point: Point, error: ValidationError | DraftError) -> dict[str, int]:
    """What is wrong with a point, each by file, line and key, with its exit code."""
    if isinstance(error, DraftError):
        return {document.place(point.place(path)) + text: error.exit_code for path, text in error.problems}
    return {document.place(point.place(e["loc"])) + wording(e, TrialDraft): 2 for e in error.errors()}


def _found(document: Document, sweep: SweepSpec, error: LayersError | PlacedError) -> dict[str, int]:
    """What is wrong where a point could not even be made."""
    if isinstance(error, LayersError):
        return {document.place(path_of(error.name, sweep.space)) + str(error): 2}
    return {document.place(path) + text: error.exit_code for path, text in error.problems}


def _shorthand(path: tuple[int | str, ...]) -> KeyPath:
    """`choice` is not written where a bare list is."""
    return tuple(part for part in path if part != "choice")
