"""A corpus as a YAML file declares it, from any source, and its resolution to files on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, field_validator, model_validator

from trials.datasets.corpus import CORPUS_FORMATS, SPLITS, fingerprint
from trials.errors import ConfigError, DataError, unknown
from trials.settings import Columns, DataSpec, Files, First, Frozen, HeldOut, Scheme
from trials.sources.cache import FetchedCorpus, Progress, is_plain, no_progress
from trials.sources.hub_client import is_commit, is_path, is_repo_name
from trials.sources.ud import fetch_treebank, is_treebank_name
from trials.starter import BUNDLED_TREEBANKS, treebank_path

# The words that mark a split in a file's name, and the format of each suffix.
SPLIT_WORDS = {"train": ("train",), "dev": ("dev", "valid", "val"), "test": ("test",)}
FORMATS = {
    ".conllu": "conllu", ".txt": "columns", ".bio": "columns", ".iob": "columns", ".iob2": "columns",
    ".conll": "columns", ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet",
}  # fmt: skip
TABLES = ("tsv", "csv", "jsonl", "parquet")


class Splits(NamedTuple):
    """The files of each split; none for a split that the corpus lacks."""

    train: Files
    dev: Files
    test: Files = ()
    mismatched: Files = ()


class DataDraft(Frozen):
    """A corpus as a YAML file declares it: where it comes from, in one of five ways, and how its files are read.

    Attributes:
        name: Its name in tables; by default the sample's, folder's, treebank's or train file's name.
        bundled: A sample that comes with the project, e.g. ``UD_English-EWT-sample``.
        folder: A folder with one file each for train, dev and, optionally, test, recognised by their names.
        train, dev, test: The files themselves, one or several per split.
        mismatched: Files of a further split that is scored like test, e.g. MNLI's dev_mismatched.
        ud: A treebank of Universal Dependencies, e.g. ``UD_English-EWT``, from its own repository.
        release: Its release, e.g. ``"2.16"``; without one the newest, which may be another one tomorrow.
        hub: A dataset of the hub, e.g. ``nyu-mll/glue``.
        config: One of its configurations, if it has several.
        revision: Its commit, tag or branch; without one the newest commit. Only a commit never changes.
        splits: Its splits that serve as train, dev and test; by default those of these names, and `validation` as dev.
            One may serve as `mismatched`; by default none does.
        format: A registered corpus format; by default the format follows the file's suffix.
        columns: The columns of text, label, tokens and tags; by default the task's own.
        scheme: How span tags are written; by default it is detected and validated.
        first: Only so many items from the beginning of a split, e.g. ``{dev: 500, test: 0}``.
        held_out: Share of train that serves as dev, e.g. ``0.1``, where the corpus has no dev split. Digests of the
            items decide which, so it is the same on every machine.
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
        if files and not (self.train and (self.dev or self.held_out)):
            raise ValueError(
                "`train` and `dev` are both needed, or `held_out: 0.1` instead of `dev`; `test` may be left out"
            )
        if self.ud is None and self.release is not None:
            raise ValueError("`release` is of a treebank, `ud`")
        if self.hub is None and (self.config or self.splits or self.revision is not None):
            raise ValueError("`config`, `splits` and `revision` are of a dataset of the `hub`")
        return self

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
        name, source, (train, dev, test, mismatched) = self._located(offline=offline, progress=progress)
        if self.first is not None and self.first.test == 0:
            test = ()
        if self.held_out is not None and dev:
            raise DataError(f"{self.name or name}: has a dev split. Leave `held_out` out.")
        format_ = self.format or _common_format((*train, *dev, *test, *mismatched))
        return DataSpec(
            name=self.name or name,
            train=train,
            dev=dev,
            test=test,
            mismatched=mismatched,
            format=format_,
            fingerprint=fingerprint(train, dev, test, mismatched),
            columns=self.columns or (task_columns if format_ in TABLES else None) or Columns(),
            scheme=self.scheme,
            first=self.first,
            held_out=self.held_out,
            source=source,
        )

    def _located(self, *, offline: bool, progress: Progress) -> tuple[str, str | None, Splits]:
        """The corpus's name, its source, and the files of its splits."""
        if self.train:
            files = Splits(*(tuple(map(_absolute, getattr(self, split))) for split in SPLITS))
            return Path(files.train[0].removesuffix(".gz")).stem, None, files
        if self.ud is not None:
            treebank = fetch_treebank(self.ud, self.release, offline=offline, progress=progress)
            return self.ud, treebank.source, self._fetched_files(treebank)
        if self.hub is not None:
            from trials.sources.hub import fetch_dataset

            fetched = fetch_dataset(self.hub, self.config, self.revision, offline=offline, progress=progress)
            return fetched.name.rpartition("/")[2], fetched.source, self._fetched_files(fetched)
        if self.bundled is not None:
            return self.bundled, None, _in_folder(treebank_path(self.bundled), needs_dev=self.held_out is None)
        folder = Path(_absolute(self.folder or ""))
        if not folder.is_dir():
            raise DataError(f"no folder {folder}. Give the folder that holds the corpus's files.")
        return folder.name, None, _in_folder(folder, needs_dev=self.held_out is None)

    def _fetched_files(self, fetched: FetchedCorpus) -> Splits:
        splits = fetched.splits
        chosen = {"train": "train", "dev": "validation" if "validation" in splits else "dev", "test": "test"}
        chosen |= dict(self.splits)
        needs_dev = ["dev"] if self.held_out is None else []
        needed = dict.fromkeys(["train", *needs_dev, *(split for split, _ in self.splits)])
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


def bare_corpus(value: object) -> object:
    """What a bare word stands for where a YAML file names a corpus; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return named_corpus(value)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _absolute(path: str) -> str:
    try:
        absolute = Path(path).expanduser().resolve()
        absolute.exists()
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:  # too long, a loop of links, no such user, a null byte
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path!r:.200} is not a path ({reason}). Give the path of a file or folder.") from error
    return str(absolute)


def _common_format(paths: Files) -> str:
    formats = {_format_of(path): path for path in paths}
    if len(formats) > 1:
        listed = ", ".join(f"{path} ({name})" for name, path in formats.items())
        raise DataError(f"the files of one corpus are in several formats: {listed}. Give `format`.")
    return next(iter(formats))


def _format_of(path: str) -> str:
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix not in FORMATS:
        raise DataError(
            f"{path}: its name does not say its format. Give `format`: {', '.join(CORPUS_FORMATS)}; or end the name in "
            f"{', '.join(FORMATS)}."
        )
    return FORMATS[suffix]


def files_in(folder: Path) -> list[Path]:
    """The files of a folder whose suffix is that of a corpus format, by name. Raises DataError."""
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}).") from error
    found = [p for p in inside if Path(p.name.removesuffix(".gz")).suffix.lower() in FORMATS]
    for path in found:
        if path.is_symlink() and not Path(_absolute(str(path))).is_relative_to(folder.resolve()):
            raise DataError(
                f"{path}: is a link to a file outside of the corpus's folder. Copy the file, or name the files as "
                "`train`, `dev` and `test`."
            )
    return found


def by_split(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Those of some files whose name has the word of a split, by split."""
    return {
        split: [path for path in files if any(word in _words(path.name) for word in words)]
        for split, words in SPLIT_WORDS.items()
    }


def _in_folder(folder: Path, *, needs_dev: bool) -> Splits:
    """The files of a folder by split, one each; test is optional. Without a dev split one file may be all there is."""
    files = files_in(folder)
    found = by_split(files)
    if not needs_dev and len(files) == 1 and not any(found.values()):
        return Splits((str(files[0]),), ())
    train = _only(folder, "train", found["train"])
    dev = _only(folder, "dev", found["dev"]) if needs_dev or found["dev"] else ()
    return Splits(train, dev, _only(folder, "test", found["test"]) if found["test"] else ())


def _words(name: str) -> list[str]:
    """The words of a file's name: `en_ewt-ud-train.conllu` has en, ewt, ud, train, conllu."""
    return "".join(c.lower() if c.isalnum() else " " for c in name).split()


def _only(folder: Path, split: str, found: list[Path]) -> Files:
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise DataError(
            f"{folder}: needs one file with {split!r} in its name, found {names}. Rename them, or give the files as "
            "`train`, `dev` and `test`, several in a list"
            + (", or let a share of train serve as dev: `held_out: 0.1`." if split == "dev" and not found else ".")
        )
    return (str(found[0]),)
