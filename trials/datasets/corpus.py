"""A corpus: tagged sentences or labelled texts in three splits, read from files and identified by their bytes."""

from __future__ import annotations

import hashlib
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from trials.errors import DataError
from trials.registry import Registry
from trials.settings import Columns, DataSpec, Files


class Sentence(NamedTuple):
    """Words and their tags, one tag per word.

    Attributes:
        place: `file:line` of its first word, for error messages.
    """

    forms: tuple[str, ...]
    tags: tuple[str, ...]
    place: str = ""


class Text(NamedTuple):
    """A text, or a pair of texts, and its label.

    Attributes:
        pair: The second text; None if there is only one.
        label: The class, or the number of a regression as written.
        place: `file:line`, for error messages.
    """

    text: str
    pair: str | None
    label: str
    place: str = ""


Item = Sentence | Text


class CorpusReader(Protocol):
    """Reads the items of a file in order."""

    def __call__(self, path: Path, columns: Columns, first: int | None = None, /) -> list[Sentence] | list[Text]:
        """All items, or the `first` ones, with text and labels in the given columns. Raises DataError."""
        ...


CORPUS_FORMATS: Registry[CorpusReader] = Registry("corpus format")

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Corpus:
    """The items of each split, as its files have them; `test` is empty where the corpus has none."""

    train: list[Item]
    dev: list[Item]
    test: list[Item]


def fingerprint(train: Files, dev: Files, test: Files) -> str:
    """SHA-256 over the bytes of the splits' files, each preceded by its split's name.

    Raises:
        DataError: a file cannot be read, or is in two splits.
    """
    whole, seen = hashlib.sha256(), dict[bytes, str]()
    for split, paths in zip(SPLITS, (train, dev, test), strict=True):
        for path in paths:
            digest = _digest(path, split)
            if digest in seen:
                raise DataError(
                    f"{path}: the {split} split is identical to {seen[digest]}; scores would be meaningless."
                )
            seen[digest] = split
            whole.update(split.encode() + digest)
    return whole.hexdigest()


def _digest(path: str, split: str) -> bytes:
    try:
        kind = Path(path).stat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # a device or a pipe has no end, or is read only once
            raise DataError(f"{path}: the {split} split is not a regular file. Save it as one.")
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{path}: the {split} split cannot be read ({error.strerror}).") from error


def load_corpus(data: DataSpec) -> Corpus:
    """Read the items of a spec's files.

    Raises:
        DataError: a broken or empty split, or files that changed since the spec was made.
    """
    if fingerprint(data.train, data.dev, data.test) != data.fingerprint:
        raise DataError(f"{data.name}: its files changed since the sweep was planned. Launch again to make a new plan.")
    return Corpus(*(_split(data, name) for name in SPLITS))


def _split(data: DataSpec, name: str) -> list[Item]:
    paths: Files = getattr(data, name)
    read = CORPUS_FORMATS[data.format]
    first: int | None = getattr(data.first, name) if data.first else None
    items: list[Item] = []
    for path in paths:
        items += read(Path(path), data.columns, None if first is None else min(first - len(items), sys.maxsize))
    if paths and not items:
        raise DataError(f"{paths[0]}: the {name} split is empty. Give a file with sentences.")
    return items
