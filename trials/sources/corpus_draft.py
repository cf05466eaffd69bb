"""A corpus as a YAML file declares it, from any source, and its resolution to files on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, field_validator, model_validator

from trials.datasets.corpus import CORPUS_FORMATS, SPLITS, fingerprint
from trials.datasets.layout import FORMATS, layout_by_name, layout_of
from trials.datasets.split_names import by_split, is_whole
from trials.errors import ConfigError, DataError, unknown
from trials.settings import Columns, DataSpec, Files, First, Folds, Frozen, HeldOut, Scheme
from trials.sources.cache import FetchedCorpus, Progress, is_plain, no_progress
from trials.sources.converted import conversion_of
from trials.sources.hub_client import is_commit, is_path, is_repo_name
from trials.sources.split_files import (
    NoDevSplitError,
    Splits,
    absolute,
    files_by_source,
    files_in,
    in_folder,
    unused_notes,
)
from trials.sources.ud import fetch_treebank, is_treebank_name
from trials.starter import BUNDLED_TREEBANKS, treebank_path

HELD_OUT = 0.1  # of train, where one file is all there is


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


class DataDraft(Frozen):
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
        first: Only so many items from the beginning of a split, e.g. ``{dev: 500, test: 0}``.
        held_out: Share of train that serves as dev, e.g. ``0.1``, where the corpus has no dev split. Digests of the
            items decide which, so it is the same on every machine.
        folds: Cross-validation where the corpus has no dev split, e.g. ``5``: each seed is scored on one of so many
            parts of train and trained on the others, seed 0 on the first; documents stay whole.
    """

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
                raise ValueError(unknown(split, SPLITS))
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
        return self

    @property
    def needs_dev(self) -> bool:
        """Whether its files must have a dev split: no part of train serves as one."""
        return self.held_out is None and self.folds is None

    @property
    def is_pinned(self) -> bool:
        """Whether it means the same files tomorrow, as far as its name can say."""
        return self.release is not None if self.ud else self.hub is None or is_commit(self.revision)

    @property
    def asked(self) -> str:
        """The name and version of what is fetched, as somebody gave them."""
        name, version = (self.ud, self.release) if self.ud else (self.hub, self.revision)
        return f"{name}{f'/{self.config}' if self.config else ''}{f'@{version}' if version else ''}"

    def pinned(self, source: str | None) -> DataDraft:
        """The same corpus at the version that `DataSpec.source` says."""
        fields = ("ud", "release") if self.ud else ("hub", "config", "revision")
        if source is None:
            return self
        exact = named_corpus(source)
        return self.model_copy(update={field: getattr(exact, field) for field in fields})

    @field_validator("bundled")
    @classmethod
    def _is_bundled(cls, name: str | None) -> str | None:
        if name is not None and name not in BUNDLED_TREEBANKS:
            raise ValueError(unknown(name, BUNDLED_TREEBANKS))
        return name

    @field_validator("format")
    @classmethod
    def _is_format(cls, name: str | None) -> str | None:
        if name is not None:
            CORPUS_FORMATS[name]
        return name

    def resolve(
        self, task_columns: Columns | None = None, *, offline: bool = False, progress: Progress = no_progress
    ) -> DataSpec:
        """Find the files, downloading them if necessary, and compute their fingerprint. Raises DataError.

        Args:
            task_columns: The columns of the task's own tables.
        """
        located = self.located(offline=offline, progress=progress)
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
            first=self.first,
            held_out=located.held_out,
            folds=self.folds,
            source=located.source,
            notes=(*located.notes, *layout.notes),
        )

    def located(self, *, offline: bool, progress: Progress) -> Located:
        """Where its files are, downloaded if necessary. Raises DataError."""
        if self.train:
            files = Splits(*(tuple(str(absolute(path)) for path in getattr(self, split)) for split in SPLITS))
            return Located(Path(files.train[0].removesuffix(".gz")).stem, None, files, self.held_out)
        if self.ud is not None:
            treebank = fetch_treebank(self.ud, self.release, offline=offline, progress=progress)
            return Located(self.ud, treebank.source, self._fetched_files(treebank), self.held_out)
        if self.hub is not None:
            from trials.sources.hub import fetch_dataset

            fetched = fetch_dataset(self.hub, self.config, self.revision, offline=offline, progress=progress)
            name = fetched.name.rpartition("/")[2]
            return Located(name, fetched.source, self._fetched_files(fetched), self.held_out)
        if self.bundled is not None:
            files = in_folder(treebank_path(self.bundled), needs_dev=self.needs_dev)
            return Located(self.bundled, None, files, self.held_out)
        return self._in_folder(absolute(self.folder or ""))

    def _in_folder(self, folder: Path) -> Located:
        if not folder.exists():
            raise DataError(f"no folder {folder}. Give the folder that holds the corpus's files, or a file.")
        if (found := self._converted(folder)) is not None:
            return found
        if folder.is_file():
            return self._without_splits(folder, (str(folder),))
        try:
            files = in_folder(folder, needs_dev=self.needs_dev)
        except DataError:
            if sources := files_by_source(folder):
                return self._without_splits(folder, tuple(map(str, sources)))
            raise
        notes = unused_notes(folder, files)
        if len(files.train) > 1 and not is_whole([*map(Path, files.train)]):
            notes.append(f"{len(files.train):,} files are read as train")
        if files.test and _same_bytes(files.dev, files.test):
            names = [Path(paths[0]).name for paths in (files.test, files.dev)]
            notes.append(f"{names[0]} is left out: it is identical to {names[1]}, which selects the best epoch")
            files = files._replace(test=())
        return Located(folder.name, None, files, self.held_out, tuple(notes))

    def _without_splits(self, path: Path, train: Files) -> Located:
        """Files that are all there is, of which a part serves as dev."""
        held_out = (self.held_out or HELD_OUT) if self.folds is None else None
        what = path.name if len(train) == 1 else f"{len(train):,} files in {path.name}"
        serves = f"{self.folds} folds of {what} serve as dev, one a seed"
        if held_out is not None:
            serves = f"{held_out:.0%} of {what} serve as dev, the same on every machine"
        name = Path(path.name.removesuffix(".gz")).stem if path.is_file() else path.name
        return Located(name, None, Splits(train, ()), held_out, (f"no dev split: {serves}",))

    def _converted(self, path: Path) -> Located | None:
        """Splits that are no files, written as such."""
        inside = files_in(path) if path.is_dir() else []
        candidates = [*(inside if len(inside) == 1 else ()), *([] if by_split(inside)["train"] else [path])]
        found = next(filter(None, map(conversion_of, candidates)), None)
        if found is None:
            return None
        if "dev" not in found.splits and self.needs_dev:
            raise NoDevSplitError(
                f"{path}: {found.notes[0]}, and none of dev. Let a share of train serve as dev: `held_out: 0.1`."
            )
        written = found.written()
        splits = Splits(*(written.get(split, ()) for split in SPLITS))
        name = Path(path.name.removesuffix(".gz")).stem if path.is_file() else path.name
        return Located(name, None, splits, self.held_out, found.notes, "jsonl")

    def _fetched_files(self, fetched: FetchedCorpus) -> Splits:
        splits = fetched.splits
        chosen = {"train": "train", "dev": "validation" if "validation" in splits else "dev", "test": "test"}
        chosen |= dict(self.splits)
        needed = dict.fromkeys(["train", *(["dev"] if self.needs_dev else []), *(split for split, _ in self.splits)])
        missing = ", ".join(f"{split} ({chosen[split]!r})" for split in needed if chosen[split] not in splits)
        if missing:
            hidden = f" (without labels: {', '.join(fetched.hidden)})" if fetched.hidden else ""
            way_out = "name them with `splits: {train: ..., dev: ..., test: ...}`" if self.hub else "use another one"
            if chosen["train"] in splits:
                way_out += ", or let a share of train serve as dev: `held_out: 0.1`"
            raise DataError(
                f"{fetched.name}: has no split for {missing}. It has {', '.join(splits)}{hidden}; {way_out}."
            )
        return Splits(*(tuple(map(str, splits.get(chosen.get(split, ""), ()))) for split in SPLITS))


def named_corpus(name: str) -> DataDraft:
    """The corpus that a name refers to: a bundled sample, a folder, a treebank, or a dataset of the hub, in this order.

    Treebanks and datasets may have a version, as in `permafrost data list`: `ud:UD_English-EWT@2.16`.

    Raises:
        ConfigError: after `ud:` or `hub:` there is no name, after `@` no version, or a sample is misspelt.
    """
    if name in BUNDLED_TREEBANKS:
        return DataDraft(bundled=name)
    kind, colon, rest = name.partition(":")
    identifier, at, version = (rest if colon else name).partition("@")
    if kind not in ("ud", "hub"):
        if is_path(name) or colon:
            return DataDraft(folder=name)
        if name.startswith("UD_") and not is_treebank_name(identifier):
            raise ConfigError(unknown(name, BUNDLED_TREEBANKS))
        kind = "ud" if is_treebank_name(identifier) else "hub"
        if kind == "hub" and not _is_dataset_name(identifier):
            return DataDraft(folder=name)
    if not identifier or (at and not version):
        raise ConfigError(
            f"{name!r} lacks its {'version' if identifier else 'name'}. Write ud:NAME or hub:OWNER/NAME[/CONFIG], "
            "then @RELEASE or @REVISION for another one than the newest."
        )
    if kind == "ud":
        return DataDraft(ud=identifier, release=version or None)
    owner, _, rest = identifier.partition("/")
    repository, _, config = rest.partition("/")
    hub = f"{owner}/{repository}" if repository else owner
    return DataDraft(hub=hub, config=config or None, revision=version or None)


def _is_dataset_name(identifier: str) -> bool:
    """Whether a word could be a dataset of the hub rather than a path: NAME, NAME/CONFIG, OWNER/NAME, with /CONFIG."""
    *repository, last = identifier.split("/")
    is_file = Path(last.removesuffix(".gz")).suffix.lower() in FORMATS
    return not is_file and len(repository) <= 2 and is_repo_name("/".join([*repository, last][:2])) and is_plain(last)


def _same_bytes(dev: Files, test: Files) -> bool:
    sizes = [[Path(path).stat().st_size for path in paths] for paths in (dev, test)]
    return sizes[0] == sizes[1] and fingerprint(dev, (), ()) == fingerprint(test, (), ())
