"""The files of a corpus's splits in a folder: by their names, or in a folder for each split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trials.datasets.corpus import SPLITS
from trials.datasets.layout import FORMATS, MORE_FORMATS
from trials.datasets.recognisers import BINARY, Recogniser, matches, recognised
from trials.datasets.split_names import SPLIT_WORDS, Splits, by_split, is_whole, looks_like_split, split_of_suffix
from trials.datasets.text_file import read_lines
from trials.errors import DataError, NoDevSplitError
from trials.sources.source import absolute
from trials.spec import Files

_MOST_FOLDERS = 100  # inside a folder, that are looked into for a hint
_FEWEST_LINES, _NEARLY = 5, 0.95  # of files that belong together line by line, and how many lines must
_MOST_PARALLEL = 12  # files of a folder that may belong together line by line
_MOST_FILES = 1_000  # of a split, whose paths stand in every row of a store
_NO_CORPUS = (".md", ".py", ".sh", ".yaml", ".yml", ".log", ".pdf", ".html", ".ann", ".part", ".lock", ".zip", ".tar")
_part = re.compile(r"part-\d+")


def files_in(folder: Path) -> list[Path]:
    """The files of a folder whose suffix is that of a corpus format, by name. Raises DataError."""
    inside = plain_files(folder)
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
    are_parts = all(_part.match(path.name) for path in files)  # of Spark's
    if not needs_dev and (len(files) == 1 or (files and are_parts)) and not any(splits.values()):
        return Splits(tuple(map(str, files)), ())
    _refuse_standoff(plain_files(folder), splits["train"], folder / "train.tsv")
    if not splits["train"]:
        if (inner := {split: found or splits[split] for split, found in in_split_folders(folder).items()})["train"]:
            if needs_dev and not inner["dev"]:
                raise NoDevSplitError(
                    f"{folder}: has no dev split. Let a share of train serve as dev: `held_out: 0.1`."
                )
            return Splits(*(tuple(map(str, inner[split])) for split in SPLITS))
        _refuse_outer_folder(folder)
        _refuse_binary(folder)
    train = _only(folder, "train", splits["train"])
    dev = _only(folder, "dev", splits["dev"]) if needs_dev or splits["dev"] else ()
    test, mismatched = (
        _only(folder, split, splits[split]) if splits[split] else () for split in ("test", "mismatched")
    )
    return Splits(train, dev, test, mismatched)


def unused_notes(folder: Path, used: Splits) -> list[str]:
    """A sentence on the files of a folder that look like a split and are not read; none if there are none."""
    read = {Path(path) for split in used for path in split}
    others = [path.name for path in plain_files(folder) if path not in read and looks_like_split(path.name)]
    others = [name for name in others if Path(name).suffix.lower() not in _NO_CORPUS]
    if not others:
        return []
    listed = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    it, looks = ("they", "look like splits and are") if len(others) > 1 else ("it", "looks like a split and is")
    return [f"{listed} {looks} not used. Name the files yourself if {it} should be (--train, --dev, --test FILE)"]


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def plain_files(folder: Path) -> list[Path]:
    """The files of a folder that are not hidden, nor marks of Spark's, by name. Raises DataError."""
    return [path for path in entries(folder) if not path.is_dir() and path.name[0] not in "._"]


def _refuse_outer_folder(folder: Path) -> None:
    """Raise DataError if the splits are in a folder further down."""
    folders = [path for path in _folders(folder) if not path.is_symlink() and by_split(files_in(path))["train"]]
    if len(folders) in range(1, 6):
        listed = ", ".join(str(path.relative_to(folder)) for path in folders)
        raise DataError(
            f"{folder}: needs one file with 'train' in its name, found none, but there are such files in {listed}. "
            "Give that folder."
        )


def in_split_folders(folder: Path) -> dict[str, list[Path]]:
    """The files of each split that has a folder of its own; none where these hold folders of classes.

    Raises:
        DataError: Annotations are beside the texts, in files of their own; or a split has too many files.
    """
    found = {split: list[Path]() for split in SPLITS}
    for split, folders in by_split([path for path in entries(folder) if path.is_dir()]).items():
        for path in folders[:1] if len(folders) == 1 else ():
            inside = plain_files(path)
            found[split] = [file for file in inside if _suffix(file) in FORMATS | MORE_FORMATS]
            _refuse_standoff(inside, found[split], folder / f"{split}.tsv")
            if len(found[split]) > _MOST_FILES:
                raise DataError(f"{path}: has {len(inside):,} files, more than {_MOST_FILES:,}. Join them into one.")
    return found


def files_by_source(folder: Path) -> list[Path]:
    """The files of words and tags in folders that are no splits, a folder for each source; none if others are there."""
    folders = [path for path in entries(folder) if path.is_dir() and path.name[0] not in "._"]
    files = [file for path in folders for file in plain_files(path)]
    of_words = [file for file in files if any(each.reads in ("columns", "conllu") for each in _matches(file))]
    return files if files and len(of_words) == len(files) <= _MOST_FILES else []


def _matches(path: Path) -> Sequence[Recogniser]:
    with suppress(DataError, OSError):
        return matches(path)
    return ()


def _refuse_standoff(files: Sequence[Path], read: Sequence[Path], joined: Path) -> None:
    """Raise DataError where labels or annotations are in files of their own: brat's, or line by line.

    Args:
        files: All files of a folder.
        read: Those that would be read as a split; if any, one of them must be concerned.
        joined: A file that could hold both.
    """
    stems = {path.stem for path in files if path.suffix == ".ann"}
    if texts := [path for path in files if path.suffix == ".txt" and path.stem in stems and path in (read or files)]:
        raise DataError(
            f"{texts[0].parent}: this is brat's standoff (an .ann beside each .txt), which is not read. Write a word "
            "and its tag on each line, into a folder of their own: brat's `anntoconll.py` does so."
        )
    if len(files) > _MOST_PARALLEL:
        return
    lines = {path: some for path in files if (some := _lines(path))}
    for path in lines:
        labels = [other for other in lines if other != path and _are_labels_of(lines[other], lines[path])]
        labels.sort(key=lambda other: len({*lines[other]}), reverse=True)  # tags before classes
        if labels and ({path, *labels} & {*read} or not read):
            names = " ".join(str(each.relative_to(joined.parent)) for each in (path, labels[0]))
            listed = " and ".join(other.name for other in labels)
            raise DataError(
                f"{path.parent}: {listed} {'holds' if len(labels) == 1 else 'hold'} the labels of the lines of "
                f"{path.name}: parallel files, which are not read. Join them, in {joined.parent}: `paste {names} > "
                f"{joined.name}`."
            )


def _lines(path: Path) -> list[str]:
    with suppress(DataError, OSError):
        if _suffix(path) not in (*_NO_CORPUS, ".parquet", *BINARY):
            return read_lines(path)
    return []


def _are_labels_of(labels: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether each line of a file holds the label of a line of another, or as many tags as that has words."""
    if len(labels) != len(texts) or len(labels) < _FEWEST_LINES or any("\t" in line or "{" in line for line in labels):
        return False
    pairs = [(a.split(), b.split()) for a, b in zip(labels, texts, strict=True)]
    tags, words = ({word for pair in pairs for word in pair[at]} for at in (0, 1))
    few = all(map(all, pairs)) and len(tags) < len(words) and 5 * len(tags) <= sum(len(a) for a, _ in pairs)
    single = all(len(a) == 1 for a, _ in pairs) and 2 * sum(len(b) > 1 for _, b in pairs) > len(pairs)
    each = any(len(a) > 1 for a, _ in pairs) and sum(len(a) == len(b) for a, b in pairs) >= _NEARLY * len(pairs)
    return few and (single or each)


def _refuse_binary(folder: Path) -> None:
    """Raise DataError where the train split, or all there is, is in a file that is not read, with how it could be."""
    files = [path for path in plain_files(folder) if path.suffix.lower() not in _NO_CORPUS[:-2]]
    for path in by_split(files)["train"] or files[: len(files) == 1]:
        suffix = path.suffix.lower()
        if suffix in BINARY:
            raise DataError(f"{path}: {suffix} files are not read. {BINARY[suffix].replace('FILE', path.name)}")
        if (found := recognised(path)) is not None:  # else it is refused by its own name
            raise DataError(
                f"{path}: looks like {found.name} ({found.shown_by}), and its name does not say so. Give it another "
                f"suffix, or say `format: {found.reads}` and name the files: --format {found.reads} --train FILE."
            )


def _folders(folder: Path, depth: int = 3) -> list[Path]:
    """The folders inside a folder, not too many."""
    inside: list[Path] = []
    with suppress(DataError):
        inside = [path for path in entries(folder) if path.is_dir() and not path.name.startswith(".")]
    deeper = (inner for path in inside[:_MOST_FOLDERS] for inner in (_folders(path, depth - 1) if depth > 1 else []))
    return [*inside, *deeper][:_MOST_FOLDERS]


def _only(folder: Path, split: str, paths: Sequence[Path]) -> Files:
    if len(paths) > 1 and not is_whole(paths):
        content = {path: {*_lines(path)} for path in paths}
        whole = [
            path for path, some in content.items() if some and any(len(s) > 0 and s < some for s in content.values())
        ]
        paths = [path for path in paths if path not in whole]  # one that contains another is no split beside it
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


def entries(folder: Path) -> list[Path]:
    """What a folder holds, by name. Raises DataError."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}).") from error
