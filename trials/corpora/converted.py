"""Corpora whose splits are not files become JSON lines in the cache, one file a split, as datasets of the hub do.

They are: a folder for each class and a file for each text, as in IMDB (`train/pos/0_9.txt`), whose 50,000 paths would
stand in every row of a store otherwise; one table whose rows say their split in a column; and tables in folders that
say it, as Hive and Spark partition them (`split=train/label=neg/part-0.parquet`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from trials.corpora.column_names import is_header
from trials.corpora.corpus import SPLITS
from trials.corpora.layout import format_of
from trials.corpora.recognisers import matches
from trials.corpora.split_files import entries
from trials.corpora.split_names import find_splits, looks_like_split, split_named
from trials.corpora.table_rows import TABLES, first_rows, parquet_rows
from trials.corpora.text_file import read_lines
from trials.errors import DataError, quote

UNLABELLED = ("unsup", "unsupervised", "unlabeled", "unlabelled")
_FEWEST = 2  # classes, and texts of one, that make a folder of classes
_MOST_SPLITS = 5  # different values of a column that names splits


class FileRows(NamedTuple):
    """A file that is converted.

    Attributes:
        label: What its folder says: a class, or cells of each of its rows.
    """

    split: str
    label: str
    path: Path


@dataclass(frozen=True)
class Conversion:
    """What becomes JSON lines.

    Attributes:
        rows: The rows of a part.
        notes: What was taken; a sentence each.
    """

    parts: Sequence[FileRows]
    rows: Callable[[FileRows], Iterator[tuple[str, Mapping[str, Any]]]]
    notes: tuple[str, ...]
    splits: Sequence[str] = field(default=())


def conversion_of(path: Path) -> Conversion | None:
    """What a folder or file is converted from; None where its splits are files. Raises DataError: it is unreadable."""
    if path.is_file():
        return _split_column(path)
    return _class_folders(path) or _partitions(path)


def _class_folders(folder: Path) -> Conversion | None:
    inside = [path for path in entries(folder) if path.is_dir() and not path.is_symlink()]
    splits, left_out = dict[str, dict[str, list[Path]]](), dict[str, int]()
    marked = find_splits(inside)
    for split, folders in marked.items():
        for path in folders:
            classes = _classes(path, left_out, f"{path.name}/")
            if classes and split in splits:
                raise DataError(f"{folder}: has several folders for {split}: {', '.join(p.name for p in folders)}.")
            if classes:
                splits[split] = classes
    if not splits and not marked["train"] and (classes := _classes(folder, left_out, "")):
        splits["train"] = classes
    if "train" not in splits:
        return None
    of_splits = ((split, name, paths) for split, classes in splits.items() for name, paths in classes.items())
    parts = [FileRows(split, name, path) for split, name, paths in of_splits for path in paths]
    notes = (
        f"a folder for each class ({', '.join(splits['train'])}), a file for each text",
        *(f"{name} is not used: its {n:,} texts have no class" for name, n in left_out.items()),
    )
    return Conversion(parts, _text, notes, [*splits])


def _text(part: FileRows) -> Iterator[tuple[str, Mapping[str, Any]]]:
    text = "\n".join(read_lines(part.path)).strip()
    if not text:
        raise DataError(f"{part.path}: the text is empty. Delete the file.")
    yield part.split, {"label": part.label, "text": text}


def _classes(folder: Path, left_out: dict[str, int], before: str) -> dict[str, list[Path]]:
    """The texts by class; none unless at least two folders hold nothing but texts, two or more."""
    classes, others = dict[str, list[Path]](), dict[str, int]()
    for path in entries(folder):
        if path.is_symlink() or not path.is_dir():
            continue
        texts = [file for file in entries(path) if _is_text(file)]
        if path.name.lower() in UNLABELLED:
            others[f"{before}{path.name}"] = len(texts)
        elif 2 * sum(looks_like_split(file.name) for file in texts) < len(texts):  # else each has a corpus of its own
            classes[path.name] = texts
    if len(classes) < _FEWEST or max(map(len, classes.values())) < _FEWEST:
        return {}
    if all(any(each.reads in ("columns", "conllu") for each in matches(texts[0])) for texts in classes.values()):
        return {}  # words with tags, in a folder for each source
    for name in classes:
        if not name.isprintable():
            raise DataError(f"{folder}: the folder {quote(name)} cannot name a class. Rename it.")
    left_out |= others
    return classes


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in (".txt", "") and path.is_file() and not path.is_symlink() and path.name[0] != "."


def _split_column(path: Path) -> Conversion | None:
    """The rows of a table by split, if every value of one column is the name of a split and one of them is train."""
    try:
        formats = [each.reads for each in matches(path)] if path.suffix != ".parquet" else ["parquet"]
    except DataError:
        return None  # the reader says why
    if len(formats) != 1 or formats[0] not in TABLES:
        return None
    rows = [*_mappings(path, formats[0])]
    names: list[str] = [name for name in rows[0] if _names_splits({str(row.get(name)) for row in rows})] if rows else []
    if len(names) != 1:
        return None
    column = names[0]
    found = [split for split in SPLITS if any(split_named(str(row[column])) == split for row in rows)]
    counts = [sum(split_named(str(row[column])) == split for row in rows) for split in found]
    listed = ", ".join(f"{n:,} {split}" for n, split in zip(counts, found, strict=True))

    def split_rows(part: FileRows) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for row in _mappings(part.path, formats[0]):
            yield split_named(str(row[column])) or "", {name: cell for name, cell in row.items() if name != column}

    return Conversion([FileRows("", column, path)], split_rows, (f"column {column!r} says the split: {listed}",), found)


def _names_splits(values: set[str]) -> bool:
    return 1 < len(values) <= _MOST_SPLITS and None not in (named := {*map(split_named, values)}) and "train" in named


def _mappings(path: Path, format_: str) -> Iterator[Mapping[str, Any]]:
    """The rows by name; by position where no line names the columns."""
    if format_ == "parquet":
        yield from parquet_rows(path)
        return
    rows: Sequence[Any] = first_rows(path, format_)
    if not rows or isinstance(rows[0], Mapping):
        yield from rows
        return
    names, rest = [str(n) for n, _ in enumerate(rows[0])], [row for row in rows if row != rows[0]]
    if is_header(rows[0], rest):
        names, rows = rows[0], rest
    yield from (dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names))


def _partitions(folder: Path) -> Conversion | None:
    """Tables in folders that say the split, and may say more: `split=train/label=neg/part-0.parquet`."""
    parts = list[FileRows]()
    for path in sorted(folder.rglob("*=*/*")):
        keys = dict(step.split("=", 1) for step in path.relative_to(folder).parts[:-1] if "=" in step)
        column = next((name for name, value in keys.items() if split_named(value)), None)
        if column is not None and path.is_file() and path.name[0] not in "._":
            parts.append(FileRows(split_named(keys.pop(column)) or "", json.dumps(keys), path))
    splits = [split for split in SPLITS if any(part.split == split for part in parts)]
    if "train" not in splits:
        return None

    def rows(part: FileRows) -> Iterator[tuple[str, Mapping[str, Any]]]:
        return (
            (part.split, {**row, **json.loads(part.label)}) for row in _mappings(part.path, format_of(str(part.path)))
        )

    return Conversion(parts, rows, ("folders say the split and cells (KEY=VALUE)",), splits)
