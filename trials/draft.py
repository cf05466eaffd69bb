"""A trial as a person writes it, and its resolution into a `TrialSpec`.

A draft names things (`starter`, a folder, `first_k`); resolving looks them up on this machine: the model's sizes and
revision, the corpus's digest and size, the layers a strategy freezes. Everything that is wrong is collected first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from trials.datasets.corpus import CORPUS_FORMATS, SPLITS, fingerprint, load_corpus
from trials.errors import DataError, PermafrostError, unknown
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, possible_depths
from trials.models.source import STARTER, find_model
from trials.spec import DataSpec, FreezeSpec, Frozen, ModelSpec, Positive, Recipe, TrialSpec
from trials.starter import BUNDLED_TREEBANKS, treebank_path
from trials.tasks import TASKS

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Problem = tuple[tuple[str | int, ...], str]  # the key path in the draft, and what is wrong there


class DraftError(PermafrostError):
    """A draft that cannot become a trial. `problems` are key paths and texts, for the caller to point at a line.

    `exit_code` is 2 for a wrong setting, 3 if all that is wrong is a file that is absent or broken.
    """

    def __init__(self, problems: list[Problem], exit_code: int) -> None:
        self.problems, self.exit_code = problems, exit_code
        super().__init__("\n".join(f"{'.'.join(map(str, path))}: {text}" for path, text in problems))


class DataDraft(Frozen):
    """A corpus as a person names it: a bundled sample, a folder, or its files.

    Attributes:
        name: What to call it; by default the sample's, folder's or train file's name.
        bundled: A sample that comes with the project, e.g. ``UD_English-EWT-sample``.
        folder: A folder with one ``*train.conllu``, one ``*dev.conllu`` and perhaps one ``*test.conllu``.
        train, dev, test: The files themselves.
        format: A registered corpus format.
    """

    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")] | None = None
    bundled: str | None = None
    folder: str | None = None
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    format: str = "conllu"

    @model_validator(mode="after")
    def _one_way(self) -> DataDraft:
        ways = [self.bundled is not None, self.folder is not None, (self.train or self.dev or self.test) is not None]
        if sum(ways) != 1:
            raise ValueError("name the corpus in one way: `bundled`, `folder`, or `train` and `dev`")
        if ways[2] and not (self.train and self.dev):
            raise ValueError("`train` and `dev` are both needed; `test` may be left out")
        return self

    @field_validator("bundled")
    @classmethod
    def _is_bundled(cls, name: str | None) -> str | None:
        if name is not None and name not in BUNDLED_TREEBANKS:
            raise ValueError(unknown(name, BUNDLED_TREEBANKS))
        return name

    @field_validator("format")
    @classmethod
    def _is_format(cls, name: str) -> str:
        CORPUS_FORMATS[name]
        return name

    def resolve(self) -> DataSpec:
        """Find the files and digest them. Raises DataError."""
        train, dev, test = self._files()
        return DataSpec(
            name=self.name or self.bundled or (Path(self.folder).resolve().name if self.folder else train.stem),
            train=str(train),
            dev=str(dev),
            test=str(test) if test else None,
            format=self.format,
            fingerprint=fingerprint(train, dev, test),
        )

    def _files(self) -> tuple[Path, Path, Path | None]:
        if self.train is not None and self.dev is not None:
            return _absolute(self.train), _absolute(self.dev), _absolute(self.test) if self.test else None
        folder = treebank_path(self.bundled) if self.bundled else _absolute(self.folder or "")
        if not folder.is_dir():
            raise DataError(f"no folder {folder}. Give the folder that holds the treebank's files.")
        train, dev, test = (sorted(folder.glob(f"*{split}.conllu")) for split in SPLITS)
        return _only(folder, "train", train), _only(folder, "dev", dev), _only(folder, "test", test) if test else None


def _absolute(path: str) -> Path:
    return Path(path).expanduser().resolve()


def _only(folder: Path, split: str, found: list[Path]) -> Path:
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise DataError(f"{folder}: needs one file *{split}.conllu, found {names}. Name the files with train/dev/test.")
    return found[0]


class FreezeDraft(Frozen):
    """Which parts to freeze, in a person's words; a bare word is a strategy.

    Attributes:
        strategy: A registered strategy, or ``layers``.
        depth: How many layers it freezes; may be left out where the strategy has only one depth.
        layers: The indices themselves, with the strategy ``layers``.
        embeddings: Whether the embedding tables are frozen as well.
    """

    strategy: str
    depth: Annotated[int, Field(ge=0)] | None = None
    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    embeddings: bool = False

    @field_validator("strategy")
    @classmethod
    def _is_strategy(cls, name: str) -> str:
        if name not in (known := [*FREEZE_STRATEGIES, LAYERS]):
            raise ValueError(unknown(name, known))
        return name

    @model_validator(mode="after")
    def _layers_only_with_layers(self) -> FreezeDraft:
        if (self.strategy == LAYERS) != (self.layers is not None):
            raise ValueError(f"`layers: [...]` and `strategy: {LAYERS}` go together")
        if self.layers is not None and self.depth is not None:
            raise ValueError("`depth` is the length of `layers`; leave it out")
        return self

    def resolve(self, model: ModelSpec) -> FreezeSpec:
        """The layers this freezes in a model. Raises DraftError with a path inside `freeze`."""
        layers = self._listed(model) if self.layers is not None else self._ruled(model)
        strategy = self.strategy if layers else "none"
        return FreezeSpec(strategy=strategy, layers=tuple(sorted(layers)), embeddings=self.embeddings)

    def _listed(self, model: ModelSpec) -> frozenset[int]:
        assert self.layers is not None
        beyond = [layer for layer in self.layers if layer >= model.n_layers]
        if beyond:
            last = model.n_layers - 1
            raise DraftError([(("layers",), f"{beyond} is beyond layer {last}, the last of model {model.name!r}.")], 2)
        return frozenset(self.layers)

    def _ruled(self, model: ModelSpec) -> frozenset[int]:
        possible = possible_depths(self.strategy, model.n_layers)
        if self.depth is None and len(possible) > 1:
            raise DraftError([(("depth",), f"{self.strategy} needs a depth, {possible[0]} to {possible[-1]}.")], 2)
        depth = possible[0] if self.depth is None else self.depth
        if depth not in possible:
            span = f"{possible[0]} to {possible[-1]}" if len(possible) > 1 else f"only {possible[0]}"
            text = f"{depth} is no depth of {self.strategy} in model {model.name!r} of {model.n_layers} layers: {span}."
            raise DraftError([(("depth",), text)], 2)
        return FREEZE_STRATEGIES[self.strategy](model.n_layers, depth)


def _bare_word(key: str) -> BeforeValidator:
    """Let `freeze: none` stand for `freeze: {strategy: none}`."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


class TrialDraft(Recipe):
    """One trial in a person's words.

    Attributes:
        data: The corpus; a bare word is a bundled sample.
        model: ``starter``, or a folder that `transformers` can load.
        freeze: What to freeze; a bare word is a strategy.
        train_size: Sentences of the nested train subset; None means all.
    """

    data: Annotated[DataDraft, _bare_word("bundled")]
    model: str = STARTER
    freeze: Annotated[FreezeDraft, _bare_word("strategy")] = FreezeDraft(strategy="none")
    train_size: Positive | None = None

    @field_validator("task")
    @classmethod
    def _is_task(cls, name: str) -> str:
        TASKS[name]
        return name

    def resolve(self, lookup: Lookup) -> TrialSpec:
        """Look everything up. Raises DraftError with all that is wrong."""
        found = _Collector()
        data = model = freeze = corpus = None
        with found.under("data"):
            data = lookup.data(self.data)
            corpus = lookup.corpus(data)
        with found.under("model"):
            model = lookup.model(self.model)
        if model is not None:
            with found.under("freeze"):
                freeze = self.freeze.resolve(model)
            if self.max_length > model.n_positions:
                found.add("max_length", f"{self.max_length} is beyond the {model.n_positions} positions of the model.")
        n_train = len(corpus.train) if corpus else 0
        if corpus and self.train_size and self.train_size > n_train:
            found.add("train_size", f"{self.train_size} is larger than the train split, which has {n_train} sentences.")
        found.raise_if_any()
        assert data is not None
        assert model is not None
        assert freeze is not None
        same = self.model_dump(include=set(Recipe.model_fields))
        return TrialSpec(**same, data=data, model=model, freeze=freeze, train_size=self.train_size or n_train)


class Lookup:
    """Looks each corpus and model up once, for all drafts of a plan."""

    def __init__(self) -> None:
        self.data = _once(DataDraft.resolve)
        self.model = _once(find_model)
        self.corpus = _once(load_corpus)


def _once(look_up: Callable[[K], V]) -> Callable[[K], V]:
    """Remember what was found, and also what was not: a broken corpus is read once, not for every trial."""
    found: dict[K, V | PermafrostError] = {}

    def remembered(key: K) -> V:
        if key not in found:
            try:
                found[key] = look_up(key)
            except PermafrostError as error:
                found[key] = error
        result = found[key]
        if isinstance(result, PermafrostError):
            raise result
        return result

    return remembered


class _Collector:
    """Gathers what goes wrong in several steps, so that one message can hold all of it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.codes: set[int] = set()

    def add(self, key: str, text: str, *, code: int = 2) -> None:
        self.problems.append(((key,), text))
        self.codes.add(code)

    @contextmanager
    def under(self, key: str) -> Iterator[None]:
        """File an error of the block under a key of the draft."""
        try:
            yield
        except DraftError as error:
            self.problems.extend(((key, *path), text) for path, text in error.problems)
            self.codes.add(error.exit_code)
        except PermafrostError as error:
            self.add(key, str(error), code=error.exit_code)

    def raise_if_any(self) -> None:
        if self.problems:
            raise DraftError(self.problems, min(self.codes))
