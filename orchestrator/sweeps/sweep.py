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
    watch: {log: sweep.jsonl}   # JSON log, notifications, trackers: see `notification_spec`
    plugins: [mine]             # modules that register strategies, tasks, metrics, ...: see `trials.plugins.loading`

Settings that belong together vary as `cases`, each of which overrides `trial`:

    space:
      cases: [{task: sst2, data: {...}}, {task: cola, data: {...}}]

Errors are collected and reported together, each with file, line and key.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.config.limits import Limits
from orchestrator.config.quantities import counted
from orchestrator.config.yaml_document import MAX_MISTAKES, Document, faults, most, set_path
from orchestrator.sweeps.hints import with_hint
from orchestrator.sweeps.named_paths import look_beside
from orchestrator.sweeps.search_points import points_of
from orchestrator.sweeps.search_spec import GoalSpec, ScheduleKey, ScheduleSpec, SearchKey, SearchSpec
from orchestrator.sweeps.space import CASES, Axis, LayersError, Point, continuous, n_points, path_of
from orchestrator.sweeps.watch_spec import WatchSpec
from trials.draft import DraftError, Lookup, ModelKey, TrialDraft
from trials.errors import ConfigError, PermafrostError
from trials.escaping import composed
from trials.plugins.loading import load
from trials.settings import Frozen, Predictions, Seed
from trials.spec import TrialSpec
from trials.starter import STARTER
from trials.training.checkpoint_times import CheckpointTimes

MAX_TRIALS = 100_000  # per sweep, seeds included
MOST_SINCE = 300  # points that are still checked after the first error, to report others too
MOST_CPUS = 4_096  # of a trial, which runs on one node; the largest have 2,000 hardware threads
MOST_NAME_BYTES = 180  # of a sweep's name; file systems allow 255, and Ray's logs of a job add 50
MAX_VALUES = 2_000  # in `trial`, or in one choice of the space; they are copied for every trial


class Resources(Frozen):
    """The resources of one trial; not part of its identity.

    Attributes:
        cpus: Cores, and threads per process.
        gpus: ``auto``: as many trials share a GPU as its memory and the cores allow; none where CUDA does not work. 1
            for a whole one, a fraction for a share, 0 for none, which hides them; ``packed`` is ``auto`` that needs
            one.
        device: Which nodes: ``any``, a kind of accelerator as Ray names it (``A100``), ``cpu`` for nodes without, or
            ``one``, the kind with most room, so that all times can be compared.
    """

    cpus: Annotated[int, Field(gt=0, le=MOST_CPUS)] = 1
    gpus: Annotated[float, Field(ge=0, le=1)] | Literal["auto", "packed"] = "auto"
    device: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.:-]*$", max_length=80)] = "any"


class CheckpointSpec(Frozen):
    """When a running trial saves checkpoints; not part of its identity.

    Attributes:
        epochs: At the first evaluation after so many epochs.
        minutes: After so many minutes, also within an epoch.
        auto: At every evaluation, while that takes at most a twentieth of the time, and every two minutes.
    """

    epochs: Annotated[float, Field(gt=0)] | None = None
    minutes: Annotated[float, Field(gt=0)] | None = None
    auto: bool = False

    @property
    def is_off(self) -> bool:
        """Whether no checkpoints are saved."""
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
    """The number of nested values."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(_n_values, inside))


def _word_is_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _list_is_choice(value: object) -> object:
    return {"choice": value} if isinstance(value, list) else value


def _file_name(name: str) -> str:
    """The name in the form in which it is stored and looked up."""
    name = composed(name)
    if (n_bytes := len(name.encode())) > MOST_NAME_BYTES:
        raise ValueError(f"has {n_bytes} bytes in UTF-8; a file's name with it has room for {MOST_NAME_BYTES}")
    if hidden := [character for character in name if not character.isprintable()]:
        raise ValueError(f"has the invisible character U+{ord(hidden[0]):04X}; leave it out")
    return name


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
        watch: Log and notifications.
        plugins: Modules that register strategies, rules, tasks, metrics or statistics of your own; looked for beside
            the file, in the working folder, and among what is installed.
    """

    name: Annotated[str, Field(pattern=r"^[^\W_][\w.-]*$", max_length=80), AfterValidator(_file_name)]
    trial: dict[str, Any] = {}
    space: dict[str, Annotated[Axis, BeforeValidator(_list_is_choice)]] = {}
    seeds: Annotated[list[Seed], Field(min_length=1)] = [0]
    search: SearchKey = SearchSpec()
    schedule: ScheduleKey = ScheduleSpec()
    goal: GoalSpec | None = None
    resources: Resources = Resources()
    checkpoint: Annotated[CheckpointSpec, BeforeValidator(_word_is_checkpoint)] = CheckpointSpec(auto=True)
    limits: Limits = Limits()
    keep: Literal["weights"] | None = None
    predictions: Predictions = "auto"
    watch: WatchSpec = WatchSpec()
    plugins: Annotated[tuple[str, ...], BeforeValidator(_word_is_list)] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> SweepSpec:
        self._check_cases()
        cases = self.space[CASES].choice if CASES in self.space else None
        if twice := [str(seed) for seed, n in Counter(self.seeds).items() if n > 1]:
            raise ValueError(f"seeds: {', '.join(twice)} is listed twice, but a seed gives one trial of a setting")
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
            yield f"{self.search.kind} for {', '.join(self.search.objectives)}"
        if self.schedule.kind != "none":
            yield f"{self.schedule.kind}: from {self.schedule.first:g} {self.schedule.by}"
        if self.goal is not None and self.goal.choose_depth is not None:
            goal = self.goal.choose_depth
            limit = f"{counted(goal.tolerance, 'point')}, at {goal.confidence:.0%} confidence"
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


def load_sweep(path: Path, settings: list[str]) -> tuple[SweepSpec, Document]:
    """Read a sweep from YAML, with settings overridden by `KEY=VALUE`. Raises ConfigError."""
    document = Document.read(path, [*SweepSpec.model_fields, *TrialDraft.model_fields])
    for setting in settings:
        document.override(setting)
    return declared_sweep(document), document


def sweep_of_text(path: Path, text: str) -> tuple[SweepSpec, Document]:
    """A sweep from the text of a file that is not written yet. Raises ConfigError."""
    document = Document.of_text(path, text)
    return declared_sweep(document), document


def declared_sweep(document: Document) -> SweepSpec:
    """The sweep that a document declares, with its plug-ins loaded and its paths found. Raises ConfigError."""
    _load_plugins(document)
    look_beside(document)
    try:
        return SweepSpec.model_validate(document.content)
    except ValidationError as error:
        all_faults = faults(error, SweepSpec)
        # a bare list does not write `choice`
        paths = [tuple(part for part in fault.path if part != "choice") for fault in all_faults]
        problems = [
            document.place(path) + with_hint(path, fault) for path, fault in zip(paths, all_faults, strict=True)
        ]
        wrong = {fault.path[0] if fault.path else "space" for fault in all_faults}
        raise ConfigError(most([*problems, *_problems_of_the_rest(document, wrong)])) from error


def _load_plugins(document: Document) -> None:
    """Load the modules that are listed under `plugins`; what is no list of words is reported with all other faults."""
    named = _word_is_list(document.content.get("plugins", []))
    if isinstance(named, list):
        beside = (document.path.parent, Path())
        for n, module in enumerate(named):
            if isinstance(module, str):
                load([module], beside, document.place(("plugins", n)).removesuffix(": "))


def _problems_of_the_rest(document: Document, wrong: set[int | str]) -> tuple[str, ...]:
    """Errors in the trials of a sweep that has errors in other keys, so that one message reports all."""
    if wrong & {"trial", "space"}:
        return ()
    rest = {key: document.content.get(key, {}) for key in ("trial", "space")}
    try:
        expand(SweepSpec.model_validate({"name": "rest", **rest}), document, Lookup(offline=True))
    except ConfigError as error:
        return error.problems
    except ValidationError:  # a distribution, which needs the invalid search
        return ()
    return ()


def expand(sweep: SweepSpec, document: Document, lookup: Lookup) -> list[TrialSpec]:
    """The distinct trials of a sweep, in order; for an adaptive search, those of random cells instead.

    Raises:
        ConfigError: all errors, each with file, line and key; `exit_code` is 3 if only files are at fault.
    """
    specs = dict[str, TrialSpec]()
    problems: dict[str, int] = {}
    points = points_of(sweep.search, sweep.space, layers_of(sweep, lookup))
    n_since = 0  # points since the first error
    while n_since <= MOST_SINCE:
        try:
            point = next(points, None)
        except (LayersError, PlacedError) as error:
            problems |= _point_problems(document, sweep, error)
            break
        if point is None:
            break
        try:
            for spec in replicates(sweep, point, lookup):
                lookup.note_same(specs.setdefault(spec.trial_id, spec).freeze, spec.freeze)
        except (ValidationError, DraftError) as error:
            for text, code in _problems(document, point, error).items():
                problems.setdefault(text, code)
        n_since += bool(problems)
        # Every cell of an adaptive search has a random cell in its place.
        are_enough = sweep.search.is_adaptive and len(specs) >= (sweep.search.cells or 0) * len(set(sweep.seeds))
        if len(problems) > MAX_MISTAKES or len(specs) > MAX_TRIALS or are_enough:
            break
    if len(specs) > MAX_TRIALS:
        text = f"a sweep has at most {MAX_TRIALS:,} trials. Split it into several sweeps."
        problems[document.place(("space",)) + text] = 2
    if problems:
        raise ConfigError(most(problems), exit_code=min(problems.values()))
    return list(specs.values())


def replicates(sweep: SweepSpec, point: Point, lookup: Lookup) -> list[TrialSpec]:
    """The trials of one point. Raises ValidationError or DraftError if its settings are not valid."""
    first = TrialDraft.model_validate({**_content(sweep, point), "seed": sweep.seeds[0]}).resolve(lookup)
    if len(set(sweep.seeds)) > 1 and None not in (first.subset_seed, first.init_seed, first.order_seed):
        reason = (
            "with `subset_seed` and `order_seed` as well, nothing is left that the seed draws, so all `seeds` would "
        )
        raise DraftError(
            [(("init_seed",), f"{reason}give one and the same result. Leave one out, or list one seed.")], 2
        )
    return [first.with_seed(seed) for seed in dict.fromkeys(sweep.seeds)]  # validity does not depend on the seed


def layers_of(sweep: SweepSpec, lookup: Lookup) -> Callable[[Point], int]:
    """A function from a point to the number of encoder layers of its model; it raises PlacedError."""

    def n_layers(point: Point) -> int:
        try:
            draft = _ModelOnly.model_validate({"model": _content(sweep, point).get("model", STARTER)})
            return lookup.model(draft.model).n_layers
        except ValidationError as error:
            raise PlacedError(
                [(point.place(fault.path), fault.text) for fault in faults(error, _ModelOnly)], 2
            ) from error
        except PermafrostError as error:
            raise PlacedError([(point.place(("model",)), str(error))], error.exit_code) from error

    return n_layers


class _ModelOnly(Frozen):
    model: ModelKey


class PlacedError(DraftError):
    """An invalid point; the paths of its problems are those of the sweep's file."""


def _content(sweep: SweepSpec, point: Point) -> dict[str, Any]:
    """The content of a trial's draft."""
    content = copy.deepcopy(sweep.trial)
    for key, value in point.dotted():
        path = tuple(key.split("."))
        try:
            set_path(content, path, copy.deepcopy(value))
        except TypeError as error:
            raise DraftError([(path, str(error))], 2) from error
    return content


def _problems(document: Document, point: Point, error: ValidationError | DraftError) -> dict[str, int]:
    """The problems of a point, each with file, line and key, and its exit code."""
    if isinstance(error, DraftError):
        return {document.place(point.place(path)) + text: error.exit_code for path, text in error.problems}
    placed = [(point.place(fault.path), fault) for fault in faults(error, TrialDraft)]
    return {document.place(path) + with_hint(path, fault): 2 for path, fault in placed}


def _point_problems(document: Document, sweep: SweepSpec, error: LayersError | PlacedError) -> dict[str, int]:
    """The problems of a point that could not be constructed."""
    if isinstance(error, LayersError):
        return {document.place(path_of(error.name, sweep.space)) + str(error): 2}
    return {document.place(path) + text: error.exit_code for path, text in error.problems}
