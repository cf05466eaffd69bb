"""How the files of a corpus are read: the format whose evidence they have, or that of their suffix, and the columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trials.datasets.conllu_reader import TAGS
from trials.datasets.corpus import CORPUS_FORMATS, labels_of
from trials.datasets.recognisers import BINARY, matches, recognised
from trials.datasets.split_names import split_of_suffix
from trials.datasets.table_evidence import NO_PAIR, document_column, find_columns
from trials.datasets.table_reader import TABLES
from trials.datasets.table_rows import csv_delimiter, dialect_of
from trials.datasets.text_file import read_lines
from trials.datasets.word_columns import find_positions, misc_tags
from trials.errors import ConfigError, DataError, UnclearError
from trials.escaping import beginning, quoted
from trials.settings import Columns, Files

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


def layout_of(
    files: Files,
    format_: str | None,
    given: Columns | None,
    task: Columns | None,
    all_files: Files,
    *,
    looks_for_pair: bool = False,
) -> Layout:
    """How some files are read.

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
    if not is_read and format_ != "parquet":  # the reader says why
        return layout_by_name(format_, given, task, all_files)
    if format_ in ("columns", "conllu"):
        columns, more = find_positions(path, given) if format_ == "columns" else _treebank(path, given)
        return Layout(format_, columns, (*notes, *more))
    if format_ not in TABLES:
        return Layout(format_, given or Columns(), tuple(notes))
    if task is None and given is None:
        return Layout(format_, Columns(), tuple(notes))
    columns, more = _of_table(path, format_, given or Columns(), task or Columns(), looks_for_pair)
    if columns.document == NO_PAIR:
        columns = columns.model_copy(update={"document": None})
    elif columns.document is None and (named := document_column(format_, columns, [path, *map(Path, all_files)])):
        columns = columns.model_copy(update={"document": named})
        more.append(f"documents by column {named!r} (--document for another, or {NO_PAIR})")
    return Layout(format_, columns, (*notes, *more))


def layout_by_name(format_: str | None, given: Columns | None, task: Columns | None, all_files: Files) -> Layout:
    """How files are read by what is given, their suffixes and the task. Raises as `layout_of`."""
    format_ = format_ or _common_format(all_files)
    default = (task if format_ in TABLES else None) or Columns()
    if given is not None and given.model_copy(update={"document": None}) != Columns():
        return Layout(format_, given)
    return Layout(format_, default.model_copy(update={"document": given.document if given else None}))


def _is_readable(path: str) -> bool:
    if path.endswith(".parquet") or not Path(path).is_file():
        return False
    with suppress(DataError):
        read_lines(Path(path))
        return True
    return False


def _treebank(path: Path, given: Columns | None) -> tuple[Columns, list[str]]:
    """The tags of a treebank: upos, unless somebody says another; asked where MISC holds tags of spans."""
    columns = given or Columns()
    if columns.tags is None and (names := misc_tags(read_lines(path))):
        raise UnclearError(
            f"{path}: which tags? Its words have UPOS tags, and tags of spans in MISC ({', '.join(names)}=...).",
            [{"tags": name} for name in (*names, TAGS[0])],
        )
    return columns, []


def _of_table(
    path: Path, format_: str, given: Columns, task: Columns, looks_for_pair: bool
) -> tuple[Columns, list[str]]:
    """The columns of a table: those given, and those of the task, of known names or contents for what is not."""
    notes = dialect_of(format_, read_lines(path)).notes() if format_ in ("tsv", "csv") else []
    is_whole = given.label is not None if given.text is not None else None not in (given.tokens, given.tags)
    if is_whole and not (looks_for_pair and given.text is not None):
        return given, notes  # the reader checks them
    columns, more = find_columns(path, format_, given, task)
    return columns, [*notes, *more]


def _format(path: Path, by_suffix: str, given: Columns | None, task: Columns | None) -> tuple[str, list[str]]:
    """The format that a file shows, or else that of its suffix where this says one."""
    asks_texts = any(columns is not None and columns.text not in (None, "text") for columns in (given, task))
    found = recognised(path)
    if found is None:
        if _suffix(path) in _OPEN and not split_of_suffix(path.name) and len(read_lines(path)) >= _FEW:
            raise _unknown(path)
        return by_suffix, []
    format_ = found.reads
    is_csv = {by_suffix, format_} == {"csv", "tsv"} and csv_delimiter(read_lines(path)) == "\t"
    if format_ == by_suffix or is_csv or (format_ == "columns" and by_suffix in TABLES and asks_texts):
        return by_suffix, []
    return format_, [f"format {format_}, as {path.name} has {found.shown_by} (--format for another)"]


def _unknown(path: Path) -> UnclearError:
    """What to say of a file that shows no format, or several: its first lines, and the options that read it."""
    several = [each.name for each in matches(path)]
    is_what = f"may be {' or '.join(several)}" if several else "is in no format that is recognised"
    lines = [line for line in read_lines(path) if line.strip()]
    shown = "; ".join(quoted(beginning(line)) for line in lines[:2])
    tried = [{"format": name} for name in CORPUS_FORMATS if name != "parquet" and _reads(path, name)]
    way_out = "" if tried else (
        " Write a row per text with its label as CSV or JSON lines, or a word and its tag on each line."
    )  # fmt: skip
    return UnclearError(f"{path}: it {is_what}. Its first lines: {shown}.{way_out}", tried)


def _reads(path: Path, format_: str) -> bool:
    """Whether a format reads a file, with labels that come again."""
    try:
        columns = find_columns(path, format_, Columns(), Columns())[0] if format_ in TABLES else Columns()
        items = CORPUS_FORMATS[format_](path, columns, None)
    except (DataError, ConfigError):
        return False
    labels = [label for item in items for label in labels_of(item)]
    return 1 < len({*labels}) <= len(labels) / 2


def _suffix(path: Path) -> str:
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
    if suffix in BINARY:
        raise DataError(f"{path}: {suffix} files are not read. {BINARY[suffix].replace('FILE', name.name)}")
    raise DataError(
        f"{path}: its name does not say its format. Give `format`: {', '.join(CORPUS_FORMATS)}; or end the name in "
        f"{', '.join(FORMATS)}."
    )
