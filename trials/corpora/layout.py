"""How the files of a corpus are read: the format whose evidence they have, or that of their suffix, and the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trials.corpora.corpus import CORPUS_FORMATS, labels_of
from trials.corpora.recognisers import matches, recognise
from trials.corpora.split_names import split_of_suffix
from trials.corpora.text_file import read_lines, refuse_binary
from trials.errors import ConfigError, DataError, UnclearError, excerpt, quote
from trials.plugins.registry import Registry
from trials.spec import Columns, Files

FORMATS = {
    ".conllu": "conllu", ".txt": "columns", ".bio": "columns", ".iob": "columns", ".iob2": "columns",
    ".conll": "columns", ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet",
}  # fmt: skip
# Suffixes of files that are taken where no file has one of the others.
MORE_FORMATS = {
    ".json": "jsonl", ".ndjson": "jsonl", ".tab": "tsv", ".conllx": "columns", ".conll09": "columns", ".ner": "columns",
    ".bioes": "columns", ".iobes": "columns", ".bilou": "columns", ".bmes": "columns", ".tags": "columns",
    ".conllup": "conllu", ".cupt": "conllu", ".v4_gold_conll": "columns", ".gold_conll": "columns",
}  # fmt: skip
_OPEN = (".txt", ".json", "")  # suffixes that say no format
_FEW = 10  # lines, too few to say what a file is


@dataclass(frozen=True)
class Layout:
    """How the files of a corpus are read.

    Attributes:
        format: A registered corpus format.
        columns: The columns; without any, the format's own.
        notes: What was taken that a person may not expect; a sentence each.
    """

    format: str
    columns: Columns
    notes: tuple[str, ...] = ()


class Asked(NamedTuple):
    """What is known of the columns of a corpus before its files are looked at: arguments of `layout_of`."""

    given: Columns | None
    task: Columns | None
    files: Files
    looks_for_pair: bool


@dataclass(frozen=True)
class FormatLayout:
    """How the columns of a corpus format are found. A format without one has those that somebody gives.

    Attributes:
        columns: From the first file and what is asked to the columns, and what was taken that a person may not expect.
        is_table: Whether the columns of the task's own tables are meant where nobody gives any.
        is_text: Whether its files have lines.
        takes: Whether a file of its suffix is of it though its lines show another format, where texts are asked or not.
    """

    columns: Callable[[Path, Asked], tuple[Columns, list[str]]]
    is_table: bool = False
    is_text: bool = True
    takes: Callable[[Path, str, bool], bool] = lambda path, shown, asks_texts: False


FORMAT_LAYOUTS: Registry[FormatLayout] = Registry("layout of a corpus format")


def layout_of(
    files: Files,
    format_: str | None,
    given: Columns | None,
    task: Columns | None,
    all_files: Files,
    *,
    looks_for_pair: bool = False,
) -> Layout:
    """The format and the columns in which the files of a corpus are read.

    Args:
        files: Those of the train split, which decide.
        format_: The format, where somebody has said it.
        given: The columns that somebody has said.
        task: The columns of the task's tables: with a text, or with tokens; None if the task is not known.
        all_files: Those of all splits, whose suffixes must agree.
        looks_for_pair: Whether a second text is looked for where a text and its label are given.

    Raises:
        UnclearError: Nobody can say which column is which, or which format it is.
        DataError: The files are in several formats, or in one that is not read.
    """
    notes = list[str]()
    path, is_read = Path(files[0]), _is_readable(files[0])
    if format_ is None:
        format_ = _common_format(all_files)
        if is_read:
            format_, notes = _format(path, format_, given, task)
    how = FORMAT_LAYOUTS.get(format_)
    if not is_read and (how is None or how.is_text):  # the reader says why
        return layout_by_name(format_, given, task, all_files)
    if how is None:
        return Layout(format_, given or Columns(), tuple(notes))
    columns, more = how.columns(path, Asked(given, task, all_files, looks_for_pair))
    return Layout(format_, columns, (*notes, *more))


def layout_by_name(format_: str | None, given: Columns | None, task: Columns | None, all_files: Files) -> Layout:
    """How files are read by what is given, their suffixes and the task. Raises as `layout_of`."""
    format_ = format_ or _common_format(all_files)
    how = FORMAT_LAYOUTS.get(format_)
    default = (task if how is not None and how.is_table else None) or Columns()
    if given is not None and given.model_copy(update={"document": None}) != Columns():
        return Layout(format_, given)
    return Layout(format_, default.model_copy(update={"document": given.document if given else None}))


def _is_readable(path: str) -> bool:
    how = FORMAT_LAYOUTS.get(FORMATS.get(suffix_of(Path(path)), ""))
    if (how is not None and not how.is_text) or not Path(path).is_file():
        return False
    with suppress(DataError):
        read_lines(Path(path))
        return True
    return False


def _format(path: Path, by_suffix: str, given: Columns | None, task: Columns | None) -> tuple[str, list[str]]:
    """The format that a file's content shows, or else the one that its suffix names."""
    asks_texts = any(columns is not None and columns.text not in (None, "text") for columns in (given, task))
    found = recognise(path)
    if found is None:
        if suffix_of(path) in _OPEN and not split_of_suffix(path.name) and len(read_lines(path)) >= _FEW:
            raise unclear_format(path)
        return by_suffix, []
    format_ = found.reads
    how = FORMAT_LAYOUTS.get(by_suffix)
    if format_ == by_suffix or (how is not None and how.takes(path, format_, asks_texts)):
        return by_suffix, []
    return format_, [f"format {format_}, as {path.name} has {found.shown_by} (--format for another)"]


def unclear_format(path: Path) -> UnclearError:
    """What to say of a file that shows no format, or several: its first lines, and the options that read it."""
    several = [each.name for each in matches(path)]
    is_what = f"may be {' or '.join(several)}" if several else "is in no format that is recognised"
    lines = [line for line in read_lines(path) if line.strip()]
    shown = "; ".join(quote(excerpt(line)) for line in lines[:2])
    tried = [{"format": name} for name in CORPUS_FORMATS if _reads(path, name)]
    way_out = "" if tried else (
        " Write a row per text with its label as CSV or JSON lines, or a word and its tag on each line."
    )  # fmt: skip
    return UnclearError(f"{path}: it {is_what}. Its first lines: {shown}.{way_out}", tried)


def _reads(path: Path, format_: str) -> bool:
    """Whether a format reads a file, with labels that come again."""
    how = FORMAT_LAYOUTS.get(format_)
    if how is not None and not how.is_text:
        return False
    nothing_named = Asked(Columns(), Columns(), (), looks_for_pair=False)
    try:
        columns = how.columns(path, nothing_named)[0] if how is not None and how.is_table else Columns()
        items = CORPUS_FORMATS[format_](path, columns, None)
    except (DataError, ConfigError):
        return False
    labels = [label for item in items for label in labels_of(item)]
    return 1 < len({*labels}) <= len(labels) / 2


def suffix_of(path: Path) -> str:
    """The suffix of a file's name in lower case, ignoring a final `.gz`."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _common_format(paths: Sequence[str]) -> str:
    formats = {format_of(path): path for path in paths}
    if len(formats) > 1:
        listed = ", ".join(f"{path} ({name})" for name, path in formats.items())
        raise DataError(f"the files of one corpus are in several formats: {listed}. Give `format`.")
    return next(iter(formats))


def format_of(path: str) -> str:
    """The format that a file's name says. Raises DataError."""
    name = Path(path.removesuffix(".gz"))
    suffix = name.suffix.lower()
    if format_ := (FORMATS | MORE_FORMATS).get(suffix):
        return format_
    if split_of_suffix(name.name):  # eng.train, eng.testa: CoNLL-2003 as first published
        return "columns"
    refuse_binary(name)
    raise DataError(
        f"{path}: its name does not say its format. Give `format`: {', '.join(CORPUS_FORMATS)}; or end the name in "
        f"{', '.join(FORMATS)}."
    )
