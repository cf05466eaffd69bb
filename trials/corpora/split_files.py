"""The files of a corpus's splits in a folder: by their names, or in a folder for each split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trials.corpora.corpus import SPLITS
from trials.corpora.layout import FORMATS, MORE_FORMATS, suffix_of, unclear_format
from trials.corpora.recognisers import Recogniser, matches, recognise
from trials.corpora.split_names import (
    SPLIT_WORDS,
    Splits,
    find_splits,
    looks_like_split,
    missing_shards,
    split_of_suffix,
)
from trials.corpora.text_file import BINARY, read_lines, refuse_binary
from trials.errors import DataError, NoDevSplitError
from trials.spec import Files

_MOST_FOLDERS = 100  # folders inside a folder that are searched for a hint
_FEWEST_LINES, _NEARLY = 5, 0.95  # of files that belong together line by line, and how many lines must
_MOST_PARALLEL = 12  # files of a folder that may belong together line by line
_MOST_NAMES = 5  # names of files or folders in a message
_MOST_FILES = 1_000  # files of a split, as their paths are in every row of a store
_NO_CORPUS = (".md", ".py", ".sh", ".yaml", ".yml", ".log", ".pdf", ".html", ".ann", ".part", ".lock")
_ABOUT = ("readme", "license", "licence")  # names of files about a corpus
_part = re.compile(r"part-\d+")
_annotations = re.compile(r"ann|gold|label|tags|xml", re.IGNORECASE)  # in the name of a folder


def files_in(folder: Path) -> list[Path]:
    """The files of a folder that have the suffix of a corpus format, sorted by name. Raises DataError."""
    inside = plain_files(folder)
    files = [path for path in inside if suffix_of(path) in FORMATS]
    if not find_splits(files)["train"]:
        more = [path for path in inside if suffix_of(path) in MORE_FORMATS or split_of_suffix(path.name)]
        files = sorted([*files, *more]) if not find_splits(more)["train"] else more
    for path in files:
        if path.is_symlink() and not _is_inside(path, folder):
            raise DataError(
                f"{path}: is a link to a file outside of the corpus's folder. Copy the file, or name the files as "
                "`train`, `dev` and `test` (--train, --dev, --test)."
            )
    return files


def _is_inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        return False


def splits_of_folder(folder: Path, *, needs_dev: bool) -> Splits:
    """The files of a folder by split: one file each, or the shards of one; test is optional. If no dev split is needed,
    a single file may be the whole corpus. Raises DataError.
    """
    files = files_in(folder)
    splits = find_splits(files)
    if (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file():
        raise DataError(
            f"{folder}: is what `datasets` writes with `save_to_disk`. Write each split as Parquet instead: "
            "`for name, split in load_from_disk(FOLDER).items(): split.to_parquet(f'{name}.parquet')`."
        )
    if not any(splits.values()):
        _refuse_missing_shards(files)
    are_parts = all(_part.match(path.name) for path in files)  # of Spark's
    if not needs_dev and (len(files) == 1 or (files and are_parts)) and not any(find_splits(_data(folder)).values()):
        return Splits(tuple(map(str, files)), ())
    _refuse_standoff(plain_files(folder), splits["train"], folder / "train.tsv")
    if not splits["train"]:
        if (inner := {split: found or splits[split] for split, found in split_folders(folder).items()})["train"]:
            if needs_dev and not inner["dev"]:
                raise NoDevSplitError(
                    f"{folder}: has no dev split. Let a share of train serve as dev: `held_out: 0.1`."
                )
            return Splits(*(tuple(map(str, inner[split])) for split in SPLITS))
        _refuse_outer_folder(folder)
        _refuse_binary(folder)
        _refuse_annotation_folders(folder)
    train = _one_split(folder, "train", splits["train"])
    dev = _one_split(folder, "dev", splits["dev"]) if needs_dev or splits["dev"] else ()
    test, mismatched = (
        _one_split(folder, split, splits[split]) if splits[split] else () for split in ("test", "mismatched")
    )
    return Splits(train, dev, test, mismatched)


def unused_notes(folder: Path, used: Splits) -> list[str]:
    """A sentence on the files of a folder that look like a split and are not read; none if there are none."""
    read = {Path(path) for split in used for path in split}
    others = [path.name for path in plain_files(folder) if path not in read and looks_like_split(path.name)]
    others = [name for name in others if Path(name).suffix.lower() not in (*_NO_CORPUS, ".zip", ".tar")]
    if not others:
        return []
    listed = _some(others)
    it, looks = ("they", "look like splits and are") if len(others) > 1 else ("it", "looks like a split and is")
    return [f"{listed} {looks} not used. Name the files yourself if {it} should be (--train, --dev, --test FILE)"]


def plain_files(folder: Path) -> list[Path]:
    """The files of a folder that are not hidden, nor marks of Spark's, nor about it, by name. Raises DataError."""
    files = [path for path in entries(folder) if not path.is_dir() and path.name[0] not in "._"]
    return [path for path in files if path.name.partition(".")[0].lower() not in _ABOUT]


def _data(folder: Path) -> list[Path]:
    """The files of a folder that may hold data, read or not. Raises DataError."""
    return [path for path in plain_files(folder) if path.suffix.lower() not in _NO_CORPUS]


def corpora_inside(folder: Path) -> list[Path]:
    """The folders further down that hold a train split, none inside of another one. Raises DataError."""
    found = list[Path]()
    for path in _folders(folder):
        if not path.is_symlink() and found[-1:] != [path] and {*path.parents}.isdisjoint(found):
            is_saved = (path / "dataset_dict.json").is_file()
            found += [path] if is_saved or find_splits(_data(path))["train"] or split_folders(path)["train"] else []
    return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _refuse_outer_folder(folder: Path) -> None:
    """Raise DataError if the splits are in a folder further down."""
    if folders := corpora_inside(folder):
        listed = _some([str(path.relative_to(folder)) for path in folders])
        raise DataError(
            f"{folder}: needs one file with 'train' in its name, found none, but there are such files in {listed}. "
            "Give that folder."
        )


def _refuse_annotation_folders(folder: Path) -> None:
    """Raise DataError where texts and annotations are in a folder each, in files of the same names."""
    names = dict[frozenset[str], str]()
    for path in (each for each in entries(folder) if each.is_dir()):
        stems = frozenset(file.stem for file in plain_files(path))
        both = sorted((path.name, names.setdefault(stems, path.name)), key=lambda name: bool(_annotations.match(name)))
        if len(stems) > 1 and both[0] != both[1] and _annotations.match(both[1]):
            raise DataError(
                f"{folder}: {both[1]} has annotations of the {len(stems):,} texts in {both[0]}, in files of their own, "
                "which are not read. Write a word and its tag on each line, into one file for each split."
            )


def _refuse_class_files(folder: Path, files: Sequence[Path], split: str) -> None:
    """Raise DataError where each file has texts alone, so that their names are the classes."""
    if len(files) in range(2, _MOST_PARALLEL) and all(map(_are_texts_alone, files)):
        names = " ".join(path.name for path in files)
        raise DataError(
            f"{folder}: {_some([path.name for path in files])} hold texts without labels, a line each: a file for each "
            f"class is not read. Write class and text between tabs, into another folder: `awk '{{print FILENAME "
            f'"\\t" $0}}\' {names} > OTHER/{split}.tsv`.'
        )


def _are_texts_alone(path: Path) -> bool:
    lines = _lines(path)
    several = sum(len(line.split()) > 1 and "\t" not in line for line in lines)
    return len(lines) >= _FEWEST_LINES and several >= _NEARLY * len(lines) and not _matches(path)


def _refuse_missing_shards(paths: Sequence[Path]) -> None:
    """Raise DataError where an interrupted download has left some shards of a file."""
    if missing := missing_shards(paths):
        raise DataError(
            f"{paths[0].parent}: {_some(missing)} {'is' if len(missing) == 1 else 'are'} missing beside "
            f"{_some([path.name for path in paths])}. Download {'it' if len(missing) == 1 else 'them'} again, or say "
            "that these are all: --train FILE, repeated."
        )


def split_folders(folder: Path) -> dict[str, list[Path]]:
    """The files of each split that has its own folder; empty if these are folders of classes.

    Raises:
        DataError: Annotations are beside the texts, in files of their own; or a split has too many files.
    """
    found = {split: list[Path]() for split in SPLITS}
    for split, folders in find_splits([path for path in entries(folder) if path.is_dir()]).items():
        for path in folders[:1] if len(folders) == 1 else ():
            inside = plain_files(path)
            found[split] = [file for file in inside if suffix_of(file) in FORMATS | MORE_FORMATS]
            _refuse_standoff(inside, found[split], folder / f"{split}.tsv")
            _refuse_missing_shards(found[split])
            if len(found[split]) > _MOST_FILES:
                raise DataError(f"{path}: has {len(inside):,} files, more than {_MOST_FILES:,}. Join them into one.")
    return found


def files_by_source(folder: Path) -> list[Path]:
    """The files of words and tags in folders that are no splits, a folder for each source; none if others are there,
    or names of splits.
    """
    folders = [path for path in entries(folder) if path.is_dir() and path.name[0] not in "._"]
    files = [file for path in folders for file in plain_files(path)]
    of_words = [file for file in files if any(each.reads in ("columns", "conllu") for each in _matches(file))]
    has_splits = any(looks_like_split(file.name) or split_of_suffix(file.name) for file in files)
    return files if files and len(of_words) == len(files) <= _MOST_FILES and not has_splits else []


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
        if suffix_of(path) not in (*_NO_CORPUS, ".parquet", *BINARY):
            return read_lines(path)
    return []


def _are_labels_of(labels: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether each line of a file holds the label of a line of another, or as many tags as that has words."""
    if len(labels) != len(texts) or len(labels) < _FEWEST_LINES or any("\t" in line or "{" in line for line in labels):
        return False
    pairs = [(a.split(), b.split()) for a, b in zip(labels, texts, strict=True)]
    tags, words = ({word for pair in pairs for word in pair[side]} for side in (0, 1))
    few = all(map(all, pairs)) and len(tags) < len(words) and 5 * len(tags) <= sum(len(a) for a, _ in pairs)
    single = all(len(a) == 1 for a, _ in pairs) and 2 * sum(len(b) > 1 for _, b in pairs) > len(pairs)
    each = any(len(a) > 1 for a, _ in pairs) and sum(len(a) == len(b) for a, b in pairs) >= _NEARLY * len(pairs)
    return few and (single or each)


def _refuse_binary(folder: Path) -> None:
    """Raise DataError where the train split, or all there is, is in a file that is not read, with how it could be."""
    files = _data(folder)
    for path in find_splits(files)["train"] or files[: len(files) == 1]:
        refuse_binary(path)
        if (found := recognise(path)) is not None:  # else it is refused by its own name
            raise DataError(
                f"{path}: looks like {found.name} ({found.shown_by}), and its name does not say so. Give it another "
                f"suffix, or say `format: {found.reads}` and name the files: --format {found.reads} --train FILE."
            )
    if len(train := find_splits(files)["train"]) == 1:
        raise unclear_format(train[0])
    _refuse_class_files(folder, files, "train")


def _folders(folder: Path, depth: int = 3) -> list[Path]:
    """The folders inside a folder, not too many."""
    inside: list[Path] = []
    with suppress(DataError):
        inside = [path for path in entries(folder) if path.is_dir() and not path.name.startswith(".")]
    deeper = (inner for path in inside[:_MOST_FOLDERS] for inner in (_folders(path, depth - 1) if depth > 1 else []))
    return [*inside, *deeper][:_MOST_FOLDERS]


def _one_split(folder: Path, split: str, paths: Sequence[Path]) -> Files:
    if len(paths) > 1 and missing_shards(paths) is None:
        content = {path: {*_lines(path)} for path in paths}
        whole = [
            path for path, some in content.items() if some and any(len(s) > 0 and s < some for s in content.values())
        ]
        paths = [path for path in paths if path not in whole]  # one that contains another is no split beside it
    _refuse_missing_shards(paths)
    if len(paths) == 1 or missing_shards(paths) == []:
        return tuple(map(str, sorted(paths)))
    _refuse_class_files(folder, paths, split)
    names = ", ".join(path.name for path in paths) or "none"
    there = [path.name for path in entries(folder) if path.name[0] not in "._"]
    names += f" beside {_some(there)}" if not paths and there else ""
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
