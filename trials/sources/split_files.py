"""The files of a corpus's splits in a folder, or a folder for each class."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trials.datasets.corpus import SPLITS
from trials.datasets.layout import FORMATS, MORE_FORMATS
from trials.datasets.text_file import SPLIT_WORDS, by_split, is_whole, looks_like_split, read_lines, split_of_suffix
from trials.errors import DataError, ModelError
from trials.escaping import quoted, stamp_of
from trials.settings import Files
from trials.sources.cache import cache_root, locked_folder, whole_corpus, write_manifest, writing

_MOST_FOLDERS = 100  # inside a folder, that are looked into for a hint
_NO_CORPUS = (".md", ".py", ".sh", ".yaml", ".yml", ".log", ".pdf", ".html", ".ann", ".zip", ".tar", ".part", ".lock")


class Splits(NamedTuple):
    """The files of each split; none for a split that the corpus lacks."""

    train: Files
    dev: Files
    test: Files = ()
    mismatched: Files = ()


class NoDevSplitError(DataError):
    """A corpus without a dev split; a share of train may serve as one."""


def files_in(folder: Path) -> list[Path]:
    """The files of a folder whose suffix is that of a corpus format, by name. Raises DataError."""
    inside = _plain(folder)
    files = [path for path in inside if _suffix(path) in FORMATS]
    if not by_split(files)["train"]:
        more = [path for path in inside if _suffix(path) in MORE_FORMATS or split_of_suffix(path.name)]
        files = sorted([*files, *more]) if not by_split(more)["train"] else more
    for path in files:
        if path.is_symlink() and not absolute(str(path)).is_relative_to(folder.resolve()):
            raise DataError(
                f"{path}: is a link to a file outside of the corpus's folder. Copy the file, or name the files as "
                "`train`, `dev` and `test` (--train, --dev, --test)."
            )
    return files


def in_folder(folder: Path, *, needs_dev: bool) -> Splits:
    """The files of a folder by split: one each, or the shards of one; test is optional. Without a dev split one file
    may be all there is. Raises DataError.
    """
    files = files_in(folder)
    splits = by_split(files)
    if (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file():
        raise DataError(
            f"{folder}: is what `datasets` writes with `save_to_disk`. Write each split as Parquet instead: "
            "`for name, split in load_from_disk(FOLDER).items(): split.to_parquet(f'{name}.parquet')`."
        )
    if not needs_dev and len(files) == 1 and not any(splits.values()):
        return Splits((str(files[0]),), ())
    if not splits["train"]:
        _refuse_outer_folder(folder)
    train = _only(folder, "train", splits["train"])
    dev = _only(folder, "dev", splits["dev"]) if needs_dev or splits["dev"] else ()
    test, mismatched = (
        _only(folder, split, splits[split]) if splits[split] else () for split in ("test", "mismatched")
    )
    return Splits(train, dev, test, mismatched)


def unused_notes(folder: Path, used: Splits) -> list[str]:
    """A sentence on the files of a folder that look like a split and are not read; none if there are none."""
    read = {Path(path) for split in used for path in split}
    others = [path.name for path in _plain(folder) if path not in read and looks_like_split(path.name)]
    others = [name for name in others if Path(name).suffix.lower() not in _NO_CORPUS]
    if not others:
        return []
    listed = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    it, looks = ("they", "look like splits and are") if len(others) > 1 else ("it", "looks like a split and is")
    return [f"{listed} {looks} not used. Name the files yourself if {it} should be (--train, --dev, --test FILE)"]


def absolute(
    path: str, error: type[DataError | ModelError] = DataError, give: str = "the path of a file or folder"
) -> Path:
    """A path from outside, absolute. Raises the error: it is none; `give` says what would be."""
    try:
        resolved = Path(path).expanduser().resolve()
        resolved.exists()
    except (OSError, RuntimeError, ValueError) as fault:  # too long, a loop of links, nobody's home, a zero byte
        reason = getattr(fault, "strerror", None) or fault
        raise error(f"{path!r:.200} is not a path ({reason}). Give {give}.") from fault
    return resolved


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _plain(folder: Path) -> list[Path]:
    return [path for path in _inside(folder) if not path.is_dir() and not path.name.startswith(".")]


def _refuse_outer_folder(folder: Path) -> None:
    """Raise DataError if the splits are in a folder further down."""
    folders = [path for path in _folders(folder) if not path.is_symlink() and by_split(files_in(path))["train"]]
    if len(folders) in range(1, 6):
        listed = ", ".join(str(path.relative_to(folder)) for path in folders)
        raise DataError(
            f"{folder}: needs one file with 'train' in its name, found none, but there are such files in {listed}. "
            "Give that folder."
        )


def _folders(folder: Path, depth: int = 3) -> list[Path]:
    """The folders inside a folder, not too many."""
    inside: list[Path] = []
    with suppress(DataError):
        inside = [path for path in _inside(folder) if path.is_dir() and not path.name.startswith(".")]
    deeper = (inner for path in inside[:_MOST_FOLDERS] for inner in (_folders(path, depth - 1) if depth > 1 else []))
    return [*inside, *deeper][:_MOST_FOLDERS]


def _only(folder: Path, split: str, paths: Sequence[Path]) -> Files:
    if len(paths) == 1 or is_whole(paths):
        return tuple(map(str, sorted(paths)))
    names = ", ".join(path.name for path in paths) or "none"
    synonyms = ", ".join(word for rank in SPLIT_WORDS.get(split, ()) for word in rank if word != split)
    hint = f" ({synonyms} mean it too)" if not paths and synonyms else ""
    options = f"(--{split} FILE, repeated for several)" if split in SPLITS[:3] else ""
    kind = NoDevSplitError if split == "dev" and not paths else DataError
    raise kind(
        f"{folder}: needs one file with {split!r} in its name, found {names}{hint}. Rename them, or give the files as "
        f"`train`, `dev` and `test`, several in a list {options}".rstrip()
        + (", or let a share of train serve as dev: `held_out: 0.1`." if split == "dev" and not paths else ".")
    )


# A folder for each class and a file for each text, as in IMDB: `train/pos/0_9.txt`, `train/neg/0_3.txt`.
#
# They become one JSON lines file for each split in the cache, as datasets of the hub do: the paths of 50,000 files
# would stand in every row of a store otherwise.

UNLABELLED = ("unsup", "unsupervised", "unlabeled", "unlabelled")
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


def write_class_folders(class_folders: ClassFolders) -> dict[str, tuple[str, ...]]:
    """The JSON lines file of each split, in the cache; written unless those of the same texts are. Raises DataError."""
    stamp = hashlib.sha256()
    for split, name, path in _texts(class_folders):
        try:
            line = f"{split}\0{name}\0{path}\0{tuple(stamp_of(path))}\n"
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
        stamp.update(line.encode("utf-8", "surrogateescape"))
    folder = cache_root() / "folders" / stamp.hexdigest()[:24]
    files = {split: f"{split}.jsonl" for split in class_folders.splits}
    with locked_folder(folder):
        if whole_corpus(folder) is None:
            with writing(folder):
                for split, file in files.items():
                    part = folder / f"{file}.part"
                    with part.open("w", encoding="utf-8", newline="\n") as target:
                        target.writelines(
                            _row(name, path) for text_split, name, path in _texts(class_folders) if text_split == split
                        )
                    part.replace(folder / file)
            source = f"folder:{folder.name}"
            write_manifest(folder, name=folder.name, kind="folder", source=source, licence=None, files=files.values())
    return {split: (str(folder / file),) for split, file in files.items()}


def _row(name: str, path: Path) -> str:
    text = "\n".join(read_lines(path)).strip()
    if not text:
        raise DataError(f"{path}: the text is empty. Delete the file.")
    return json.dumps({"label": name, "text": text}, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


def _texts(class_folders: ClassFolders) -> Iterator[tuple[str, str, Path]]:
    for split, classes in class_folders.splits.items():
        for name, paths in classes.items():
            for path in paths:
                yield split, name, path


def _classes(folder: Path, left_out: dict[str, int], before: str) -> dict[str, list[Path]]:
    """The texts by class; none unless at least two folders hold nothing but texts, two or more."""
    classes, others = dict[str, list[Path]](), dict[str, int]()
    for path in _inside(folder):
        if path.is_symlink() or not path.is_dir():
            continue
        texts = [file for file in _inside(path) if _is_text(file)]
        if path.name.lower() in UNLABELLED:
            others[f"{before}{path.name}"] = len(texts)
        elif 2 * sum(looks_like_split(file.name) for file in texts) < len(texts):  # else each has a corpus of its own
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
