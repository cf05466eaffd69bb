"""A sweep: all that one YAML file declares, and the trials it expands to.

    name: my-sweep
    trial:                      # settings that every trial shares; keys of trials.draft.TrialDraft
      model: starter
      optim: {lr: 1e-3, epochs: 5}
    space:                      # what varies: every combination of it, or random cells
      data: [UD_English-EWT-sample, UD_Naija-NSC-sample]
      freeze: [none, {strategy: first_k, depth: 2}]
      optim.lr: {log_uniform: [1e-5, 1e-3]}             # a distribution needs a random search
    search: {kind: random, cells: 20, seed: 0}
    seeds: [0, 1, 2]            # replicates of every cell
    checkpoint: auto            # how often a running trial is kept: {epochs: 1}, {minutes: 10}, or off
    predictions: auto           # kept beside the scores: of tagging up to a size, or `all`, or `none`
    watch: {log: sweep.jsonl}   # a log in JSON, messages when it ends or stalls: see orchestrator.watching.spec

Settings that belong together vary as `cases`, each laid over `trial`:

    space:
      cases: [{task: sst2, data: {...}}, {task: cola, data: {...}}]

Mistakes are collected and told all at once, each with file, line and key.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from orchestrator.watching.spec import WatchSpec
from orchestrator.wording import MOST_TOLD, most, wording
from orchestrator.yaml_file import Document, KeyPath, set_path
from trials.draft import DraftError, Lookup, TrialDraft
from trials.errors import ConfigError
from trials.spec import Frozen, Positive, Predictions, Seed, TrialSpec

Bounds = tuple[float, float]
MAX_TRIALS = 100_000  # of a sweep, seeds included
MAX_VALUES = 2_000  # inside `trial`, or inside one choice of the space; they are copied for every trial
CASES = "cases"  # the key of the space whose choices are several settings at once
Point = dict[str, tuple[int | None, Any]]  # a cell: key of the space -> (index into its list or None, value)


class Axis(Frozen):
    """What one setting may be; exactly one of the attributes is given, and a bare list is a `choice`.

    Attributes:
        choice: These values.
        uniform: A number between two bounds.
        log_uniform: The same, uniform in its logarithm.
        int_uniform: A whole number between two bounds, both included.
    """

    choice: Annotated[list[Any], Field(min_length=1)] | None = None
    uniform: Bounds | None = None
    log_uniform: Bounds | None = None
    int_uniform: tuple[int, int] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Axis:
        given = [name for name in self.model_fields_set if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(Axis.model_fields)}")
        bounds = None if self.choice else getattr(self, given[0])
        if bounds and not bounds[0] < bounds[1]:
            raise ValueError(f"{list(bounds)}: the first bound must be below the second")
        if bounds and max(map(abs, bounds)) >= (2**63 if self.int_uniform else 1e300):
            raise ValueError(f"{list(bounds)}: bounds this large cannot be drawn between")
        if self.log_uniform and self.log_uniform[0] <= 0:
            raise ValueError(f"{list(self.log_uniform)}: a logarithm needs bounds above 0")
        return self

    def draw(self, rng: np.random.Generator) -> tuple[int | None, Any]:
        """A random value, with its index where it comes from a list."""
        if self.choice:
            index = int(rng.integers(len(self.choice)))
            return index, self.choice[index]
        if self.int_uniform:
            return None, int(rng.integers(self.int_uniform[0], self.int_uniform[1], endpoint=True))
        if self.log_uniform:
            low, high = self.log_uniform
            return None, math.exp(rng.uniform(math.log(low), math.log(high)))
        assert self.uniform
        return None, float(rng.uniform(*self.uniform))


class SearchSpec(Frozen):
    """How the space is walked; a bare word is a kind.

    Attributes:
        kind: `grid` for every combination, `random` for samples.
        cells: How many random cells, before the seeds.
        seed: Of the sampling, not of the trials.
    """

    kind: Literal["grid", "random"] = "grid"
    cells: Positive | None = None
    seed: Seed = 0

    @model_validator(mode="after")
    def _random_is_counted(self) -> SearchSpec:
        if (self.kind == "random") != (self.cells is not None):
            raise ValueError("`kind: random` and `cells: N` go together")
        return self


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
    """When to give up; no part of a trial's identity. See `orchestrator.attempts`.

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

    def times(self) -> dict[str, Any]:
        """As `trials.checkpoint.Checkpoints` takes it."""
        if self.auto:
            return {"epochs": self.epochs, "seconds": 60 * (self.minutes or 2), "share": 0.05}
        return {"epochs": self.epochs, "seconds": None if self.minutes is None else 60 * self.minutes, "share": None}


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


def _word_is_kind(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


class SweepSpec(Frozen):
    """What a YAML file declares; see the module's example."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=80)]
    trial: dict[str, Any] = {}
    space: dict[str, Annotated[Axis, BeforeValidator(_list_is_choice)]] = {}
    seeds: Annotated[list[Seed], Field(min_length=1)] = [0]
    search: Annotated[SearchSpec, BeforeValidator(_word_is_kind)] = SearchSpec()
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
        continuous = [key for key, axis in self.space.items() if not axis.choice]
        if self.search.kind == "grid" and continuous:
            raise ValueError(
                f"a grid needs lists, but {', '.join(continuous)} is a distribution; use search.kind: random"
            )
        return self

    @model_validator(mode="after")
    def _is_bounded(self) -> SweepSpec:
        cells = self.search.cells or math.prod(len(axis.choice or ()) for axis in self.space.values())
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

    def cells(self) -> Iterator[Point]:
        """Each cell's point in the space, without the seed."""
        if self.search.cells is not None:
            rng = np.random.default_rng(self.search.seed)
            for _ in range(self.search.cells):
                yield {key: axis.draw(rng) for key, axis in self.space.items()}
            return
        lists = [list(enumerate(axis.choice or [])) for axis in self.space.values()]
        for combination in itertools.product(*lists):
            yield dict(zip(self.space, combination, strict=True))


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
    """The trials of a sweep in its order, each once.

    Raises:
        ConfigError: with every mistake, each by file, line and key; `exit_code` is 3 if only files are at fault.
    """
    specs = dict[str, TrialSpec]()
    problems: dict[str, int] = {}
    for point in sweep.cells():
        try:
            first = _draft(sweep, point, sweep.seeds[0]).resolve(lookup)
        except ValidationError as error:
            for e in error.errors():
                text = document.place(_in_sweep(e["loc"], point)) + wording(e, TrialDraft)
                problems.setdefault(text, 2)
        except DraftError as error:
            for path, text in error.problems:
                problems.setdefault(document.place(_in_sweep(path, point)) + text, error.exit_code)
        else:
            for spec in map(first.with_seed, sweep.seeds):  # what is valid with one seed is so with all
                specs.setdefault(spec.trial_id, spec)
        if len(problems) > MOST_TOLD:
            break
    if problems:
        raise ConfigError(most(problems), exit_code=min(problems.values()))
    return list(specs.values())


def _draft(sweep: SweepSpec, point: Point, seed: int) -> TrialDraft:
    content = copy.deepcopy(sweep.trial)
    for key, value in _settings(point):
        path = tuple(key.split("."))
        try:
            set_path(content, path, copy.deepcopy(value))
        except TypeError as error:
            raise DraftError([(path, str(error))], 2) from error
    return TrialDraft.model_validate({**content, "seed": seed})


def _settings(point: Point) -> Iterator[tuple[str, Any]]:
    """The dotted settings of a point, those of its case among them."""
    for key, (_, value) in point.items():
        yield from value.items() if key == CASES else [(key, value)]


def _in_sweep(path: tuple[int | str, ...], point: Point) -> KeyPath:
    """Where in the sweep's file the setting at a draft's path was given."""
    for key, (index, value) in point.items():
        for inner in value if key == CASES else ():
            if path[: len(parts := tuple(inner.split(".")))] == parts:
                return ("space", CASES, *(() if index is None else (index,)), inner, *path[len(parts) :])
        parts = tuple(key.split("."))
        if path[: len(parts)] == parts:
            return ("space", key, *(() if index is None else (index,)), *path[len(parts) :])
    return ("trial", *path)


def _shorthand(path: tuple[int | str, ...]) -> KeyPath:
    """`choice` is not written where a bare list is."""
    return tuple(part for part in path if part != "choice")
