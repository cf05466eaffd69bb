"""A trial as a YAML or JSON file declares it, and its resolution into a `TrialSpec`.

A draft names things (`starter`, a folder, a treebank, `first_k`). Resolving it looks up the model's sizes and revision,
the corpus's digest and size and the layers that a strategy freezes, and downloads files if necessary. All errors are
collected before they are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Annotated, ParamSpec, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from trials.errors import ConfigError, DataError, ModelError, NotFetchedError, PermafrostError, unknown_name
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, frozen_layers, has_depths, possible_depths
from trials.model_checks.checked_models import check_model
from trials.plugins.registry import HINT
from trials.sources.cache import download_ban
from trials.sources.places.corpus_draft import DataDraft, Located, named_corpus
from trials.sources.places.model_draft import ModelDraft, find_model, named_model
from trials.spec import (
    EMBEDDINGS_ALONE,
    FROZEN_EMBEDDINGS,
    DataSpec,
    FreezeSpec,
    Frozen,
    ModelSpec,
    Positive,
    Recipe,
    TrialSpec,
    beyond_bounds,
    conflicts,
)
from trials.starter import STARTER
from trials.tasks import TASKS
from trials.tasks.task_corpus import counted_corpus, drop_unlabelled

K = ParamSpec("K")
V = TypeVar("V")
F = TypeVar("F")
Problem = tuple[tuple[str | int, ...], str]  # key path in the draft, message


class DraftError(PermafrostError):
    """A draft that cannot be resolved. `problems` are key paths and messages, so that a caller can find the lines.

    `exit_code` is 2 for a wrong setting, 3 if the only problem is a file that is absent or broken.
    """

    def __init__(self, problems: list[Problem], exit_code: int) -> None:
        self.problems, self.exit_code = problems, exit_code
        super().__init__(*(f"{'.'.join(map(str, path))}: {text}" for path, text in problems))


class FreezeDraft(Frozen):
    """Which parts to freeze, as a file declares it; a bare word is a strategy.

    Attributes:
        strategy: A registered strategy, or ``layers``.
        depth: How many layers it freezes; optional if the strategy has only one depth. -1 freezes the embeddings
            only, as the "frozen layers" are counted in the freezing-BERT post.
        layers: The indices of the layers, with the strategy ``layers``.
        embeddings: Whether the embedding tables are frozen as well.
    """

    strategy: str
    depth: Annotated[int, Field(ge=-1)] | None = None
    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    embeddings: bool = False

    @field_validator("strategy")
    @classmethod
    def _is_strategy(cls, name: str) -> str:
        if name not in (names := [*FREEZE_STRATEGIES, LAYERS]):
            raise ValueError(f"{unknown_name(name, names)} {HINT}")
        return name

    @model_validator(mode="after")
    def _fits_together(self) -> FreezeDraft:
        if (self.strategy == LAYERS) != (self.layers is not None):
            raise ValueError(f"`layers: [...]` and `strategy: {LAYERS}` go together")
        if self.layers is not None and self.depth is not None:
            raise ValueError("`depth` is the length of `layers`; leave it out")
        if self.depth == -1 and not has_depths(self.strategy):
            raise ValueError(f"`depth: -1` is not a depth of {self.strategy}; the embeddings alone: {EMBEDDINGS_ALONE}")
        if self.depth == -1 and "embeddings" in self.model_fields_set and not self.embeddings:
            raise ValueError("`depth: -1` freezes the embeddings, which `embeddings: false` does not; leave one out")
        return self

    def resolve(self, model: ModelSpec) -> FreezeSpec:
        """The layers that are frozen in a given model. Raises DraftError with a path inside `freeze`."""
        if self.depth == -1:
            return FreezeSpec(strategy="none", layers=(), embeddings=True)
        layers = self._given_layers(model) if self.layers is not None else self._layers_of_rule(model)
        strategy = self.strategy if layers else "none"
        return FreezeSpec(strategy=strategy, layers=tuple(sorted(layers)), embeddings=self.embeddings)

    def usual(self, freeze: FreezeSpec) -> str:
        """That this is another spelling of a setting that is usually written otherwise; empty if it is not.

        Args:
            freeze: What it was resolved to.
        """
        if freeze.layers:
            return ""
        alone = {"strategy": "first_k", "depth": 0, "embeddings": True}
        is_usual = self.model_dump(exclude_defaults=True) == alone if freeze.embeddings else self.strategy == "none"
        if is_usual:
            return ""
        given = self.model_dump(mode="json", exclude_defaults=True)
        listed = ", ".join(f"{key}: {value}" for key, value in given.items())
        what, setting = ("the embeddings alone", EMBEDDINGS_ALONE) if freeze.embeddings else ("nothing", "none")
        return f"`freeze: {{{listed.replace('True', 'true')}}}` freezes {what}: it is the setting `{setting}`."

    def _given_layers(self, model: ModelSpec) -> frozenset[int]:
        assert self.layers is not None
        beyond = [layer for layer in self.layers if layer >= model.n_layers]
        if beyond:
            last = model.n_layers - 1
            raise DraftError([(("layers",), f"{beyond} is beyond layer {last}, the last of model {model.name!r}.")], 2)
        return frozenset(self.layers)

    def _layers_of_rule(self, model: ModelSpec) -> frozenset[int]:
        possible = possible_depths(self.strategy, model.n_layers)
        if self.depth is None and len(possible) > 1:
            raise DraftError([(("depth",), f"{self.strategy} needs a depth: {_depth_list(possible)}.")], 2)
        # Without a possible depth the strategy is still asked, so that its own error says why there is none.
        depth = self.depth if self.depth is not None else (possible or [model.n_layers])[0]
        try:
            return frozen_layers(self.strategy, model.n_layers, depth)
        except ValueError as error:
            text = f"{depth} is not a depth of {self.strategy} in model {model.name!r} of {model.n_layers} layers: "
            text += f"{_depth_list(possible)}." if possible else f"none is ({error})."
            raise DraftError([(("depth",), text)], 2) from error


def freeze_of_label(label: str, n_layers: int) -> FreezeSpec | None:
    """What the label of a setting names in an encoder of `n_layers` layers; None for a label of none."""
    word = label.removesuffix(FROZEN_EMBEDDINGS)
    listed, _, _ = word.removeprefix(f"{LAYERS} ").partition(" by ")
    if word.startswith(f"{LAYERS} ") and all(number.isdecimal() for number in listed.split(",")):
        layers = tuple(map(int, listed.split(",")))
        if max(layers) >= n_layers:
            return None
        return FreezeSpec(strategy=LAYERS, layers=layers, embeddings=word != label)
    # Plug-ins name strategies freely, so that labels are not parsed: each possible freeze is labelled and compared.
    for name in FREEZE_STRATEGIES:
        for depth in possible_depths(name, n_layers):
            layers = tuple(sorted(frozen_layers(name, n_layers, depth)))
            for embeddings in (False, True):
                freeze = FreezeSpec(strategy=name, layers=layers, embeddings=embeddings)
                if freeze.label == label:
                    return freeze
    return None


def _depth_list(depths: list[int]) -> str:
    """Possible depths: `0 to 6` where they are all there are, else each: `0, 2, 4, 6`."""
    if len(depths) == 1:
        return f"only {depths[0]}"
    if depths == list(range(depths[0], depths[-1] + 1)):
        return f"{depths[0]} to {depths[-1]}"
    return ", ".join(map(str, depths))


def _bare(named: Callable[[str], object]) -> BeforeValidator:
    """Accept a bare word in place of the mapping that it names."""

    def read(value: object) -> object:
        try:
            return named(value) if isinstance(value, str) else value
        except ConfigError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(read)


ModelKey = Annotated[ModelDraft, _bare(named_model)]


class TrialDraft(Recipe):
    """One trial as a file declares it.

    Attributes:
        data: The corpus; a bare word is a bundled sample, a folder, a treebank as ``UD_English-EWT``, or a dataset of
            the hub as ``nyu-mll/glue/sst2``, in this order.
        model: The pretrained encoder; a bare word is ``starter``, a folder that `transformers` can load, or a
            repository of the hub as ``distilbert/distilbert-base-cased``, in this order.
        freeze: What to freeze; a bare word is a strategy.
        train_size: Sentences of the nested train subset; None means all.
    """

    data: Annotated[DataDraft, _bare(named_corpus)]
    model: ModelKey = ModelDraft(folder=STARTER)
    freeze: Annotated[FreezeDraft, _bare(lambda word: {"strategy": word})] = FreezeDraft(strategy="none")
    train_size: Positive | None = None

    @field_validator("task")
    @classmethod
    def _is_task(cls, name: str) -> str:
        TASKS[name]
        return name

    @model_validator(mode="after")
    def _score_is_measured(self) -> TrialDraft:
        if self.task in TASKS and self.score is not None and self.score not in TASKS[self.task].metrics:
            raise ValueError(
                f"score: {unknown_name(self.score, TASKS[self.task].metrics)} ({self.task} measures these.)"
            )
        return self

    def resolve(self, lookup: Lookup) -> TrialSpec:
        """Look everything up. Raises DraftError with all problems, and NotFetchedError."""
        errors = _Collector()
        data = model = freeze = None
        with errors.collect_under("data"):
            data = lookup.data(self.data, self.task)
        with errors.collect_under("model"):
            model = lookup.model(self.model)
            columns = TASKS[self.task].columns if data is None else data.columns
            lookup.check(model, TASKS[self.task].head, pairs=columns.pair is not None)
        if model is not None:
            with errors.collect_under("freeze"):
                freeze = self.freeze.resolve(model)
                if note := self.freeze.usual(freeze):
                    lookup.spellings[note] = None
            if self.max_length > model.n_positions:
                errors.add("max_length", f"{self.max_length} is beyond the {model.n_positions} positions of the model.")
        for key, reason in (*beyond_bounds(self), *(conflicts(self, freeze, model) if freeze and model else ())):
            errors.add(key, reason)
        n_train = data.sizes[0] if data and data.sizes else 0
        if data and self.train_size and self.train_size > n_train:
            text = f"{self.train_size} is larger than the train split, which has {n_train} sentences."
            errors.add("train_size", text)
        errors.raise_if_any()
        if data is None or model is None or freeze is None:
            raise NotFetchedError
        same = self.model_dump(include=set(Recipe.model_fields))
        return TrialSpec(**same, data=data, model=model, freeze=freeze, train_size=self.train_size or n_train)


class Lookup:
    """Resolves each corpus and model once for all drafts of a plan.

    Of a sweep with mistakes nothing is fetched: with `is_check`, what is on this machine is looked up offline, and what
    is not, but may be elsewhere, raises NotFetchedError.

    Attributes:
        files: From a `DataDraft` to where its files are, downloaded if necessary.
        locate: From a `DataDraft` to a `DataSpec`, whose corpus has not been read as a whole.
        data: From a `DataDraft` and a task's name to a `DataSpec`, whose corpus has been read and validated.
        model: From a `ModelDraft` to a `ModelSpec`.
        check: From a `ModelSpec` and a task's head to notes on the model; raises ModelError if trials would fail.
        resolved: What names without an exact version were found to mean, a sentence each, by source.
        spellings: Which freezes were another spelling of one that is usually written otherwise, a sentence each.
    """

    def __init__(self, *, offline: bool = False, is_check: bool = False) -> None:
        offline = offline or is_check
        self.resolved: dict[str, str] = {}
        self.spellings: dict[str, None] = {}

        def note(draft: DataDraft | ModelDraft, source: str | None) -> None:
            if source is not None and not draft.is_pinned:
                self.resolved[source] = draft.version(source) + (
                    " in the cache" if download_ban(offline=offline) else ""
                )

        def find(look_up: Callable[..., F], draft: DataDraft | ModelDraft) -> F:
            try:
                return look_up(draft, offline=offline)
            except (DataError, ModelError) as error:
                if is_check and draft.is_remote:
                    raise NotFetchedError from error
                raise

        def files(draft: DataDraft) -> Located:
            located = find(DataDraft.locate, draft)
            note(draft, located.source)
            return located

        def exact(draft: DataDraft) -> DataDraft:
            """Looked up once: the newest version may change meanwhile."""
            return draft if draft.is_pinned else draft.pin(self.files(draft).source)

        def find_one(draft: ModelDraft) -> ModelSpec:
            model = find(find_model, draft)
            note(draft, model.source)
            return model

        def find_data(draft: DataDraft, task: str) -> DataSpec:
            data = drop_unlabelled(task, exact(draft).resolve(TASKS[task].columns, offline=offline))
            return counted_corpus(task, data)

        self.files = _once(files)
        self.locate = _once(lambda draft: exact(draft).resolve(offline=offline))
        self.data = _once(find_data)
        self.model = _once(find_one)
        self.check = _once(check_model)

    def note_same(self, first: FreezeSpec, other: FreezeSpec) -> None:
        """Note that two spellings of one freeze were given, if they differ."""
        if first.label != other.label:
            note = f"`{first.label}` and `{other.label}` freeze the same layers: they are one setting."
            self.spellings[note] = None


def _once(look_up: Callable[K, V]) -> Callable[K, V]:
    """Cache results and errors alike: a broken corpus is read once, not for every trial."""
    results: dict[Hashable, V | PermafrostError] = {}

    def look_up_once(*args: K.args, **named: K.kwargs) -> V:
        key = (args, *sorted(named.items()))
        if key not in results:
            try:
                results[key] = look_up(*args, **named)
            except PermafrostError as error:
                results[key] = error
        result = results[key]
        if isinstance(result, PermafrostError):
            raise result
        return result

    return look_up_once


class _Collector:
    """Collects the problems of several steps, to raise them together."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.codes: set[int] = set()

    def add(self, key: str, text: str, *, code: int = 2) -> None:
        self.problems.append((tuple(key.split(".")), text))
        self.codes.add(code)

    @contextmanager
    def collect_under(self, key: str) -> Iterator[None]:
        """Collect an error of the block under a key of the draft."""
        try:
            yield
        except DraftError as error:
            self.problems.extend(((key, *path), text) for path, text in error.problems)
            self.codes.add(error.exit_code)
        except NotFetchedError:
            pass
        except PermafrostError as error:
            for line in str(error).split("\n"):  # a message has a line for each problem
                self.add(key, line, code=error.exit_code)

    def raise_if_any(self) -> None:
        if self.problems:
            raise DraftError(self.problems, min(self.codes))
