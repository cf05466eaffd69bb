"""A corpus: tagged sentences in three splits, read from files and identified by their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from trials.errors import DataError
from trials.registry import Registry
from trials.spec import DataSpec


class Sentence(NamedTuple):
    """Words and their tags, one each."""

    forms: tuple[str, ...]
    tags: tuple[str, ...]


CorpusReader = Callable[[Path], list[Sentence]]

CORPUS_FORMATS: Registry[CorpusReader] = Registry("corpus format")

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Corpus:
    """The sentences of each split; `test` is empty where the corpus has none."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]


def fingerprint(train: Path, dev: Path, test: Path | None) -> str:
    """SHA-256 over the bytes of the splits, each preceded by its name.

    Raises:
        DataError: a file cannot be read, or two splits are the same file's content.
    """
    whole, seen = hashlib.sha256(), dict[bytes, str]()
    for split, path in zip(SPLITS, (train, dev, test), strict=True):
        if path is None:
            continue
        try:
            digest = hashlib.sha256(path.read_bytes()).digest()
        except OSError as error:
            raise DataError(f"{path}: the {split} split cannot be read ({error.strerror}).") from error
        if digest in seen:
            raise DataError(
                f"{path}: the {split} split is the same text as {seen[digest]}; a score would mean nothing."
            )
        seen[digest] = split
        whole.update(split.encode() + digest)
    return whole.hexdigest()


@lru_cache(maxsize=8)
def load_corpus(data: DataSpec) -> Corpus:
    """The sentences that a spec names, kept for the life of the process.

    Raises:
        DataError: a broken or empty split, or files that changed since the spec was made.
    """
    found = fingerprint(Path(data.train), Path(data.dev), Path(data.test) if data.test else None)
    if found != data.fingerprint:
        raise DataError(f"{data.name}: its files changed since the plan was made. Launch again to plan anew.")
    return Corpus(*(_split(data, name) for name in SPLITS))


def _split(data: DataSpec, name: str) -> list[Sentence]:
    path: str | None = getattr(data, name)
    if path is None:
        return []
    sentences = CORPUS_FORMATS[data.format](Path(path))
    if not sentences:
        raise DataError(f"{path}: the {name} split has no sentences. Give a file that has some.")
    return sentences
