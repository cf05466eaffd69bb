"""A folder for each class and a file for each text, as in IMDB: `train/pos/0_9.txt`, `train/neg/0_3.txt`.

They become one JSON lines file for each split in the cache, as datasets of the hub do: the paths of 50,000 files would
stand in every row of a store otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trials.datasets.split_names import by_split, looks_like_split
from trials.datasets.text_file import read_lines
from trials.errors import DataError
from trials.escaping.plain_files import digest_of, read_json, stamp_of
from trials.escaping.untrusted_text import quoted
from trials.sources.cache import cache_root, has_digest, writing

UNLABELLED = ("unsup", "unsupervised", "unlabeled", "unlabelled")
_DIGESTS = "digests.json"  # of the files beside it
_FEWEST = 2  # classes, and texts of one, that make a folder of classes


@dataclass(frozen=True)
class ClassFolders:
    """Texts in folders named after their classes.

    Attributes:
        splits: The texts of each class of each split, by the class's name.
        left_out: Folders of texts without a class, and how many texts each has.
    """

    folder: Path
    splits: dict[str, dict[str, list[Path]]]
    left_out: dict[str, int]

    def notes(self) -> list[str]:
        """A sentence on what was taken, and one on each folder without a class."""
        classes = ", ".join(self.splits["train"])
        return [
            f"a folder for each class ({classes}), a file for each text",
            *(f"{name} is not used: its {n:,} texts have no class" for name, n in self.left_out.items()),
        ]


def find_class_folders(folder: Path) -> ClassFolders | None:
    """The classes in a folder, with a folder for each split or without; None if it has no such layout.

    Raises:
        DataError: A folder cannot be read, or two splits have one name.
    """
    inside = [path for path in _inside(folder) if path.is_dir() and not path.is_symlink()]
    splits, left_out = dict[str, dict[str, list[Path]]](), dict[str, int]()
    for split, marked in by_split(inside).items():
        for path in marked:
            classes = _classes(path, left_out, f"{path.name}/")
            if classes and split in splits:
                raise DataError(f"{folder}: has several folders for {split}: {', '.join(p.name for p in marked)}.")
            if classes:
                splits[split] = classes
    if not splits and (classes := _classes(folder, left_out, "")):
        splits["train"] = classes
    return ClassFolders(folder, splits, left_out) if "train" in splits else None


def write_class_folders(found: ClassFolders) -> dict[str, tuple[str, ...]]:
    """The JSON lines file of each split, in the cache; written unless those of the same texts are. Raises DataError."""
    stamp = hashlib.sha256()
    for split, name, path in _texts(found):
        try:
            line = f"{split}\0{name}\0{path}\0{tuple(stamp_of(path))}\n"
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
        stamp.update(line.encode("utf-8", "surrogateescape"))
    folder = cache_root() / "folders" / stamp.hexdigest()[:24]
    files = {split: folder / f"{split}.jsonl" for split in found.splits}
    if not _are_as_written(folder, files):
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for split, target in files.items():
                part = target.with_suffix(f".{os.getpid()}.part")
                rows = (_row(name, path) for each, name, path in _texts(found) if each == split)
                with part.open("w", encoding="utf-8", newline="\n") as file:
                    file.writelines(rows)
                part.replace(target)
            digests = {path.name: digest_of(path).hex() for path in files.values()}
            part = folder / f"{_DIGESTS}.{os.getpid()}.part"
            part.write_text(json.dumps(digests), encoding="utf-8")
            part.replace(folder / _DIGESTS)
    return {split: (str(path),) for split, path in files.items()}


def _are_as_written(folder: Path, files: Mapping[str, Path]) -> bool:
    try:
        digests = read_json(folder / _DIGESTS)
        return all(has_digest(path, digests[path.name]) for path in files.values())
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def _row(name: str, path: Path) -> str:
    text = "\n".join(read_lines(path)).strip()
    if not text:
        raise DataError(f"{path}: the text is empty. Delete the file.")
    return json.dumps({"label": name, "text": text}, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


def _texts(found: ClassFolders) -> Iterator[tuple[str, str, Path]]:
    for split, classes in found.splits.items():
        for name, paths in classes.items():
            for path in paths:
                yield split, name, path


def _classes(folder: Path, left_out: dict[str, int], before: str) -> dict[str, list[Path]]:
    """The texts by class; none unless at least two folders hold nothing but texts, two or more."""
    classes, others = dict[str, list[Path]](), dict[str, int]()
    for path in _inside(folder):
        if path.is_symlink() or not path.is_dir():
            continue
        texts = [each for each in _inside(path) if _is_text(each)]
        if path.name.lower() in UNLABELLED:
            others[f"{before}{path.name}"] = len(texts)
        elif 2 * sum(looks_like_split(each.name) for each in texts) < len(texts):  # else each has a corpus of its own
            classes[path.name] = texts
    if len(classes) < _FEWEST or max(map(len, classes.values())) < _FEWEST:
        return {}
    for name in classes:
        if not name.isprintable():
            raise DataError(f"{folder}: the folder {quoted(name)} cannot name a class. Rename it.")
    left_out |= others
    return classes


def _is_text(path: Path) -> bool:
    return path.suffix.lower() in (".txt", "") and path.is_file() and not path.is_symlink() and path.name[0] != "."


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}).") from error
