"""Corpora of this machine: files (`train`, ...), a folder or one file (`folder`), a sample of ours (`bundled`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trials.corpora.converted import Conversion, conversion_of
from trials.corpora.corpus import SPLITS, fingerprint
from trials.corpora.split_files import corpora_inside, files_by_source, files_in, splits_of_folder, unused_notes
from trials.corpora.split_names import Splits, find_splits, missing_shards
from trials.errors import DataError, NoDevSplitError
from trials.outside.plain_files import path_inside, stamp_of
from trials.sources.cache import cache_root, explain_write_errors, lock_folder, whole_corpus, write_manifest
from trials.sources.places.corpus_draft import CORPUS_SOURCES, HELD_OUT, DataDraft, Located
from trials.sources.source import FileSource, absolute, is_path
from trials.spec import Files
from trials.starter import BUNDLED_TREEBANKS, treebank_path

_VERSION = b"2"  # of what is converted: another one where the same files become other rows


def _find(draft: DataDraft, *, offline: bool) -> Located:
    files, absent = Splits(*(tuple(str(absolute(path)) for path in getattr(draft, split)) for split in SPLITS)), []
    for split, path in ((split, path) for split, paths in zip(SPLITS, files, strict=True) for path in paths):
        try:
            Path(path).stat()
        except OSError as error:
            absent.append(f"{path}: the {split} split cannot be read ({error.strerror}).")
    if absent:
        raise DataError(*absent)
    return Located(Path(files.train[0].removesuffix(".gz")).stem, None, files, draft.held_out)


def _sample(draft: DataDraft, *, offline: bool) -> Located:
    assert draft.bundled is not None
    files = splits_of_folder(treebank_path(draft.bundled), needs_dev=draft.needs_dev)
    return Located(draft.bundled, None, files, draft.held_out)


def _inside(draft: DataDraft, *, offline: bool) -> Located:
    folder = absolute(draft.folder or "")
    if not folder.exists():
        raise DataError(f"no folder {folder}. Give the folder that holds the corpus's files, or a file.")
    # Before files are read as splits: a table with a column of splits, or folders of classes, would be read as train.
    if (found := _convert(folder, draft)) is not None:
        return found
    if folder.is_file():
        return _without_splits(folder, (str(folder),), draft)
    try:
        files = splits_of_folder(folder, needs_dev=draft.needs_dev)
    except DataError:
        if sources := files_by_source(folder):
            return _without_splits(folder, tuple(map(str, sources)), draft)
        # A folder inside is read only where it cannot be mistaken: this one has no train split, and no other holds one.
        if find_splits(files_in(folder))["train"] or len(inner := corpora_inside(folder)) != 1:
            raise
        found = _inside(draft.model_copy(update={"folder": str(inner[0])}), offline=offline)
        note = f"{inner[0].relative_to(folder)} is read, the only folder inside that holds a corpus"
        return found._replace(name=folder.name, notes=(note, *found.notes))
    notes = unused_notes(folder, files)
    if len(files.train) > 1 and missing_shards([*map(Path, files.train)]) != []:
        notes.append(f"{len(files.train):,} files are read as train")
    if files.test and _same_bytes(files.dev, files.test):
        names = [Path(paths[0]).name for paths in (files.test, files.dev)]
        notes.append(f"{names[0]} is left out: it is identical to {names[1]}, which selects the best epoch")
        files = files._replace(test=())
    return Located(folder.name, None, files, draft.held_out, tuple(notes))


def _without_splits(path: Path, train: Files, draft: DataDraft) -> Located:
    """A corpus without splits, of which a part serves as dev."""
    held_out = (draft.held_out or HELD_OUT) if draft.folds is None else None
    what = path.name if len(train) == 1 else f"{len(train):,} files in {path.name}"
    serves = f"{draft.folds} folds of {what} serve as dev, one a seed"
    if held_out is not None:
        serves = f"{held_out:.0%} of {what} serve as dev, the same on every machine"
    return Located(_name(path), None, Splits(train, ()), held_out, (f"no dev split: {serves}",))


def _convert(path: Path, draft: DataDraft) -> Located | None:
    """Splits that are no files, written as such."""
    inside = files_in(path) if path.is_dir() else []
    candidates = [*(inside if len(inside) == 1 else ()), *([] if find_splits(inside)["train"] else [path])]
    found = next(filter(None, map(conversion_of, candidates)), None)
    if found is None:
        return None
    if "dev" not in found.splits and draft.needs_dev:
        raise NoDevSplitError(
            f"{path}: {found.notes[0]}, and none of dev. Let a share of train serve as dev: `held_out: 0.1`."
        )
    written = _write_splits(found)
    splits = Splits(*(written.get(split, ()) for split in SPLITS))
    return Located(_name(path), None, splits, draft.held_out, found.notes, "jsonl")


def _write_splits(found: Conversion) -> dict[str, Files]:
    """The JSON lines file of each split in the cache, written unless it has those of the same input files.

    Raises:
        DataError: A file cannot be read, or a text is empty.
    """
    # Of sizes and times, not contents, which would be read for a plan alone; a file that changes has another time.
    stamp = hashlib.sha256(_VERSION)
    for split, name, path in found.parts:
        try:
            line = f"{split}\0{name}\0{path}\0{tuple(stamp_of(path))}\n"
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
        stamp.update(line.encode("utf-8", "surrogateescape"))
    folder = cache_root() / "folders" / stamp.hexdigest()[:24]
    files = {split: f"{split}.jsonl" for split in found.splits}
    with lock_folder(folder):
        if whole_corpus(folder) is None:
            with explain_write_errors(folder):
                for split, file in files.items():
                    part = path_inside(folder, f"{file}.part")
                    with part.open("w", encoding="utf-8", newline="\n") as target:
                        # All parts are read for each split: rows stream to the file, and none stay in memory.
                        rows = (row for each in found.parts for row in found.rows(each))
                        target.writelines(_line(row) for of_split, row in rows if of_split == split)
                    part.replace(folder / file)
            source = f"folder:{folder.name}"
            write_manifest(folder, name=folder.name, kind="folder", source=source, licence=None, files=files.values())
    return {split: (str(folder / file),) for split, file in files.items()}


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"


def _name(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem if path.is_file() else path.name


def _same_bytes(dev: Files, test: Files) -> bool:
    sizes = [[Path(path).stat().st_size for path in paths] for paths in (dev, test)]
    return sizes[0] == sizes[1] and fingerprint(dev, (), ()) == fingerprint(test, (), ())


CORPUS_SOURCES.register("train")(FileSource(_find))
CORPUS_SOURCES.register("bundled")(
    FileSource(_sample, lambda word: {"bundled": word} if word in BUNDLED_TREEBANKS else None)
)
CORPUS_SOURCES.register("folder")(
    FileSource(_inside, lambda word: {"folder": word} if is_path(word) or ":" in word else None, rank=1)
)
