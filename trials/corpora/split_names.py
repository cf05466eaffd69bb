"""The splits of a corpus by the names of its files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trials.spec import Files

# The words that mark a split in a file's name, by rank: a later word counts only where no file has an earlier one.
SPLIT_WORDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "train": (("train",), ("training", "trn")),
    "dev": (
        ("dev", "valid", "val"),
        ("validation", "devel", "development", "validate", "testa"),
        ("eval", "evaluation"),
    ),
    "test": (("test",), ("testb", "testing", "tst")),
}
_SHARD = re.compile(r"(.*?)[-_.](\d{1,5})(?:[-_]of[-_](\d+))?([-.].*|)")  # train-00000-of-00002.parquet, train_0.csv
# trainset, 2016train, TaskATest; where nothing else counts.
_JOINED = re.compile(r"(train|dev|test|valid|val)(?:set|data|file|split)?")
_parts_of_words = re.compile(r"[A-Z]?[a-z]+"), re.compile(r"[a-z]+|[A-Z]+")
_double = re.compile(r"(train|dev|devel|val|valid|test){2,}")  # traindev, trainval
_ALL = {word: split for split, ranks in SPLIT_WORDS.items() for rank in ranks for word in rank}


class Splits(NamedTuple):
    """The files of each split; none for a split that the corpus lacks."""

    train: Files
    dev: Files
    test: Files = ()
    mismatched: Files = ()


def words_of(name: str) -> list[str]:
    """The words of a file's name: `en_ewt-ud-train.conllu` has en, ewt, ud, train, conllu."""
    return "".join(c.lower() if c.isalnum() else " " for c in name).split()


def split_of_suffix(name: str) -> str | None:
    """The split that the end of a file's name says, where it has no suffix of a format: `eng.testa`, `train`."""
    return _ALL.get(name.rpartition(".")[2].lower())


def split_named(word: str) -> str | None:
    """The split that a word means: `Validation` is dev."""
    return _ALL.get(word.strip().lower())


def looks_like_split(name: str) -> bool:
    """Whether a word of a name, or a part of a word, marks a split."""
    return any(word in _ALL or _double.fullmatch(word) for word in words_of(name)) or bool(_join(name))


def find_splits(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Those of some files whose name has the word of a split, by split; with the words of two (`train_dev`) they are of
    train where nothing else is, and of none otherwise.
    """
    double = [path for path in files if len({_ALL[word] for word in words_of(path.name) if word in _ALL}) > 1]
    if double:
        others = find_splits([path for path in files if path not in double])
        return others if others["train"] else others | {"train": [p for p in double if "train" in words_of(p.name)]}
    mismatched = [path for path in files if "mismatched" in words_of(path.name)]
    rest = [path for path in files if path not in mismatched]
    splits: dict[str, list[Path]] = {}
    for split, ranks in SPLIT_WORDS.items():
        marked = ([p for p in rest if any(word in words_of(p.name) for word in rank)] for rank in ranks)
        splits[split] = next(filter(None, marked), [p for p in rest if not _join(p.name).isdisjoint(ranks[0])])
    splits["mismatched"] = [
        p for p in mismatched if any(w in words_of(p.name) for rank in SPLIT_WORDS["dev"] for w in rank)
    ]
    return splits


def _join(name: str) -> set[str]:
    parts = {part.lower() for how in _parts_of_words for part in how.findall(name)}
    return {match[1] for match in map(_JOINED.fullmatch, parts) if match}


def missing_shards(files: Sequence[Path]) -> list[str] | None:
    """The names of shards that are missing from a set of files, by the count in their names or by a gap in their
    numbers; empty if the set is complete, None if the files are not shards of one split.
    """
    shards = [match for path in files if (match := _SHARD.fullmatch(path.name))]
    if len(shards) != len(files) or len({(match[1], match[3], match[4]) for match in shards}) != 1:
        return None
    there, match = {int(match[2]) for match in shards}, shards[0]
    n = int(match[3]) if match[3] else max(there) + (0 in there)
    numbers = range(1, n + 1) if n in there else range(n)
    if not match[3] and (min(there) > 1 or len(there) == n or ["", *words_of(match[1])][-1] not in {*_ALL, "part"}):
        return None
    names = (f"{match[1]}{match[0][match.end(1)]}{i:0{len(match[2])}}{match[0][match.end(2) :]}" for i in numbers)
    return [name for i, name in zip(numbers, names, strict=True) if i not in there]
