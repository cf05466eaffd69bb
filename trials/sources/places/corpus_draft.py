"""A corpus as a YAML file declares it, and what is asked of its source: where the files of each split are."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field, field_validator, model_validator

from trials.corpora.corpus import CORPUS_FORMATS, SPLITS, fingerprint
from trials.corpora.layout import layout_by_name, layout_of
from trials.corpora.split_names import Splits
from trials.errors import DataError, unknown_name
from trials.plugins.registry import Registry
from trials.sources.cache import FetchedCorpus
from trials.sources.source import FileSource, Sourced
from trials.spec import Columns, DataSpec, Files, First, Folds, HeldOut, Scheme
from trials.starter import BUNDLED_TREEBANKS

CORPUS_SOURCES: Registry[FileSource[DataDraft, Located]] = Registry("source of corpora")
CORPUS_FORM = "ud:NAME or hub:OWNER/NAME[/CONFIG], then @RELEASE or @REVISION"  # of a name with its version
HELD_OUT = 0.1  # share of train that serves as dev if one file is all there is
WAYS = ("bundled", "folder", "train", "ud", "hub")  # the keys of which one says where it comes from


class Located(NamedTuple):
    """Where a corpus is.

    Attributes:
        source: Its name and version at where it was downloaded from; None for files of this machine.
        held_out: Share of train that serves as dev.
        notes: What was taken that a person may not expect; a sentence each.
        format: Its format, where that is known without looking.
    """

    name: str
    source: str | None
    splits: Splits
    held_out: float | None
    notes: tuple[str, ...] = ()
    format: str | None = None


class DataDraft(Sourced):
    """A corpus as a YAML file declares it: where it comes from, in one of five ways, and how its files are read.

    Attributes:
        name: Its name in tables; by default the sample's, folder's, treebank's or train file's name.
        bundled: A sample that comes with the project, e.g. ``UD_English-EWT-sample``.
        folder: A folder with one file each for train, dev and, optionally, test, recognised by their names; or with a
            folder for each class. Or one file, a tenth of which serves as dev (``file`` means the same).
        train, dev, test: The files themselves, one or several per split.
        mismatched: Files of a further split that is scored like test, e.g. MNLI's dev_mismatched.
        ud: A treebank of Universal Dependencies, e.g. ``UD_English-EWT``, from its own repository.
        release: Its release, e.g. ``"2.16"``; without one the newest, which may be another one tomorrow.
        hub: A dataset of the hub, e.g. ``nyu-mll/glue``.
        config: One of its configurations, if it has several.
        revision: Its commit, tag or branch; without one the newest commit. Only a commit never changes.
        splits: Its splits that serve as train, dev and test; by default those of these names, and `validation` as dev.
            One may serve as `mismatched`; by default none does.
        format: A registered corpus format; by default that of the file's suffix, unless its lines clearly have another.
        columns: The columns of text, pair, label, tokens and tags; by default the task's own, or what the files hold.
        scheme: How span tags are written; by default it is detected, and a few tags that break it are read as conlleval
            does. A given scheme is enforced.
        label_none: The label of texts that have none, e.g. ``"-1"``, or ``none`` where each is a class.
        first: Only so many items from the beginning of a split, e.g. ``{dev: 500, test: 0}``.
        held_out: Share of train that serves as dev, e.g. ``0.1``, where the corpus has no dev split. Digests of the
            items decide which, so it is the same on every machine.
        folds: Cross-validation where the corpus has no dev split, e.g. ``5``: each seed is scored on one of so many
            parts of train and trained on the others, seed 0 on the first; documents stay whole.
    """

    sources: ClassVar = CORPUS_SOURCES
    pages: ClassVar = "datasets/"
    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")] | None = None
    bundled: str | None = None
    folder: str | None = None
    train: Files = ()
    dev: Files = ()
    test: Files = ()
    mismatched: Files = ()
    ud: str | None = None
    release: str | None = None
    hub: str | None = None
    config: str | None = None
    revision: str | None = None
    splits: tuple[tuple[str, str], ...] = ()
    format: str | None = None
    columns: Columns | None = None
    scheme: Scheme = "auto"
    label_none: str | None = None
    first: First | None = None
    held_out: HeldOut | None = None
    folds: Folds | None = None

    @model_validator(mode="before")
    @classmethod
    def _file_is_a_folder(cls, value: object) -> object:
        if isinstance(value, dict) and "file" in value and "folder" not in value:
            return {"folder" if key == "file" else key: setting for key, setting in value.items()}
        return value

    @field_validator("splits", mode="before")
    @classmethod
    def _mapping(cls, value: object) -> object:
        return tuple(value.items()) if isinstance(value, dict) else value

    @field_validator("splits")
    @classmethod
    def _known_splits(cls, value: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for split, _ in value:
            if split not in SPLITS:
                raise ValueError(unknown_name(split, SPLITS))
        return value

    @field_validator("release", mode="before")
    @classmethod
    def _no_number(cls, value: object) -> object:
        if isinstance(value, float):
            raise ValueError(f"write it in quotes, '{value}', as 2.10 and 2.1 are one number but two releases")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> DataDraft:
        files = self.train or self.dev or self.test or self.mismatched
        ways = [way for way in (self.bundled, self.folder, files or None, self.ud, self.hub) if way is not None]
        if len(ways) != 1:
            raise ValueError("name the corpus in one way: `bundled`, `folder`, `train` and `dev`, `ud`, or `hub`")
        if self.held_out is not None and self.folds is not None:
            raise ValueError("`held_out` and `folds` both make a dev split; leave one out")
        if files and not (self.train and (self.dev or not self.needs_dev)):
            raise ValueError(
                "`train` and `dev` are both needed, or `held_out: 0.1` instead of `dev`; `test` may be left out"
            )
        if self.ud is None and self.release is not None:
            raise ValueError("`release` is of a treebank, `ud`")
        if self.hub is None and (self.config or self.splits or self.revision is not None):
            raise ValueError("`config`, `splits` and `revision` are of a dataset of the `hub`")
        self.sources[self.way]
        return self

    @property
    def needs_dev(self) -> bool:
        """Whether its files must have a dev split: no part of train serves as one."""
        return self.held_out is None and self.folds is None

    @property
    def way(self) -> str:
        """The key that says where it comes from."""
        return next(way for way in WAYS if getattr(self, way) not in (None, ()))

    @field_validator("bundled")
    @classmethod
    def _is_bundled(cls, name: str | None) -> str | None:
        if name is not None and name not in BUNDLED_TREEBANKS:
            raise ValueError(unknown_name(name, BUNDLED_TREEBANKS))
        return name

    @field_validator("format")
    @classmethod
    def _is_format(cls, name: str | None) -> str | None:
        if name is not None:
            CORPUS_FORMATS[name]
        return name

    def resolve(self, task_columns: Columns | None = None, *, offline: bool = False) -> DataSpec:
        """Find the files, downloading them if necessary, and compute their fingerprint. Raises DataError.

        Args:
            task_columns: The columns of the task's own tables.
        """
        located = self.locate(offline=offline)
        train, dev, test, mismatched = located.splits
        if self.first is not None and self.first.test == 0:
            test = ()
        if not self.needs_dev and dev:
            key = "held_out" if self.folds is None else "folds"
            raise DataError(f"{self.name or located.name}: has a dev split. Leave `{key}` out.")
        every = (*train, *dev, *test, *mismatched)
        digest = fingerprint(train, dev, test, mismatched)  # refuses what is no plain file before anything is read
        if located.source is None:
            layout = layout_of(train, self.format or located.format, self.columns, task_columns, every)
        else:  # a treebank, or rows that we wrote: large, and what their names say
            layout = layout_by_name(self.format, self.columns, task_columns, every)
        return DataSpec(
            name=self.name or located.name,
            train=train,
            dev=dev,
            test=test,
            mismatched=mismatched,
            format=layout.format,
            fingerprint=digest,
            columns=layout.columns,
            scheme=self.scheme,
            label_none=self.label_none,
            first=self.first,
            held_out=located.held_out,
            folds=self.folds,
            source=located.source,
            notes=(*located.notes, *layout.notes),
        )

    def locate(self, *, offline: bool) -> Located:
        """Where its files are, downloaded if necessary. Raises DataError."""
        return CORPUS_SOURCES[self.way].locate(self, offline=offline)


def named_corpus(name: str) -> DataDraft:
    """The corpus that a name refers to: a bundled sample, a folder, a treebank, or a dataset of the hub, in this order.

    Treebanks and datasets may have a version, as in `permafrost data fetch`: `ud:UD_English-EWT@2.16`.

    Raises:
        ConfigError: after `ud:` or `hub:` there is no name, after `@` no version, or a sample is misspelt.
    """
    return DataDraft.model_validate(DataDraft.keys_of(name))


def locate_splits(fetched: FetchedCorpus, draft: DataDraft, way_out: str) -> Located:
    """The files of the splits that a draft requests; `way_out` ends the error if one is absent. Raises DataError."""
    splits = fetched.splits
    chosen = {"train": "train", "dev": "validation" if "validation" in splits else "dev", "test": "test"}
    chosen |= dict(draft.splits)
    needed = dict.fromkeys(["train", *(["dev"] if draft.needs_dev else []), *(split for split, _ in draft.splits)])
    missing = ", ".join(f"{split} ({chosen[split]!r})" for split in needed if chosen[split] not in splits)
    if missing:
        hidden = f" (without labels: {', '.join(fetched.hidden)})" if fetched.hidden else ""
        if chosen["train"] in splits:
            way_out += ", or let a share of train serve as dev: `held_out: 0.1`"
        raise DataError(f"{fetched.name}: has no split for {missing}. It has {', '.join(splits)}{hidden}; {way_out}.")
    files = Splits(*(tuple(map(str, splits.get(chosen.get(split, ""), ()))) for split in SPLITS))
    return Located(fetched.name.rpartition("/")[2], fetched.source, files, draft.held_out)
