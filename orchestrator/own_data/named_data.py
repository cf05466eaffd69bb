"""The corpus that a name and the files of splits stand for, unread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.own_data.choose_options import ChooseOptions
from trials.datasets.corpus import SPLITS
from trials.datasets.split_names import by_split
from trials.errors import ConfigError, MissingError
from trials.settings import Files
from trials.sources.converted import conversion_of
from trials.sources.places.corpus_draft import HELD_OUT, DataDraft, named_corpus
from trials.sources.source import near_here
from trials.sources.split_files import files_in
from trials.starter import BUNDLED_TREEBANKS


def draft_of(asked: ChooseOptions) -> DataDraft:
    """The corpus that a name and the files of splits stand for, unread.

    Raises:
        ConfigError: The name lacks its version, or files are given beside a name that is no folder.
        MissingError: A path is not there.
    """
    name, path = asked.data, Path(asked.data).expanduser()
    given = {split: [each for name in getattr(asked, split) for each in _files_of(name)] for split in SPLITS[:3]}
    files: dict[str, Files] = {split: tuple(names) for split, names in given.items()}
    if any(files.values()):
        return _draft_of_files(asked, path, files)
    if path.is_file():
        word = _word(path.name.split(".")[0])
        if conversion_of(path) is not None:  # its rows say their splits
            return DataDraft(folder=name, name=word)
        return DataDraft(train=(name,), held_out=HELD_OUT, name=word)
    draft = named_corpus(name)
    if draft.folder is not None and not path.exists():
        raise MissingError(
            f"{name}: no such file or folder.{near_here(name, BUNDLED_TREEBANKS)} Give one, a bundled sample, a "
            "treebank like UD_English-EWT, or a dataset of the hub like nyu-mll/glue/sst2."
        )
    return draft


def _draft_of_files(asked: ChooseOptions, path: Path, files: Mapping[str, Files]) -> DataDraft:
    """The given files, with those of a folder for splits that are not given; a file may be named as in the folder."""
    if not asked.data:
        if not files["train"]:
            raise ConfigError("--dev and --test go with a folder or --train. To check one file, give it as NAME.")
        name = _word(Path(files["train"][0].removesuffix(".gz")).stem)
        return DataDraft(**files, held_out=None if files["dev"] else HELD_OUT, name=name)
    if path.is_file():
        files, name = {**files, "train": files["train"] or (asked.data,)}, _word(path.name.split(".")[0])
    elif path.is_dir():
        inside = {split: tuple(_inside(path, file) for file in paths) for split, paths in files.items()}
        rest = dict[str, Files]()
        for split, paths in by_split(files_in(path)).items():
            if split in inside and not inside[split] and len(paths) == 1:
                rest[split] = (str(paths[0]),)
        files, name = {**inside, **rest}, _word(path.resolve().name)
    else:
        raise ConfigError(f"--train, --dev and --test go with a folder or a file, and {asked.data!r} is neither.")
    if not files["train"]:
        raise ConfigError(f"{asked.data}: which file is the train split? Give --train FILE.")
    return DataDraft(**files, held_out=None if files["dev"] else HELD_OUT, name=name)


def _files_of(name: str) -> list[str]:
    """The files of a folder that is given as a split, or the one file that is."""
    path = Path(name).expanduser()
    return [*map(str, files_in(path))] if path.is_dir() else [name]


def _inside(folder: Path, name: str) -> str:
    """A file as it was given, or the one of that name in a folder."""
    return name if Path(name).expanduser().exists() or not (folder / name).exists() else str(folder / name)


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.+-" else "-" for c in name) or "data"
