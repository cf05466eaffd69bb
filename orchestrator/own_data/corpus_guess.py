"""Find out what a folder, file, treebank or dataset holds: its splits, format, columns and task."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from orchestrator.own_data.choose_options import Ask, ChooseOptions
from trials.datasets.broken_lines import BrokenLinesError
from trials.datasets.corpus import CORPUS_FORMATS, Sentence
from trials.datasets.text_file import read_lines
from trials.draft import Lookup
from trials.errors import ConfigError, DataError, MissingError
from trials.escaping.untrusted_text import quoted
from trials.settings import Columns, DataSpec
from trials.sources.corpus_draft import TABLES, DataDraft, named_corpus
from trials.sources.hub_client import near_here
from trials.starter import BUNDLED_TREEBANKS
from trials.tasks import TASKS

HELD_OUT = 0.1  # of train, where there is no dev split
_N_ROWS = 400  # of a table, that its columns are guessed from
_N_ITEMS = 400  # that the task is guessed from
_MOST_CLASSES = 0.2  # of the rows: a column with more distinct values is no class
_ALIASES = {
    "text": ("text", "sentence", "sentence1", "premise", "question1", "question", "review", "comment", "tweet",
             "utterance", "content", "body", "message", "document"),
    "pair": ("sentence2", "hypothesis", "question2", "text2", "text_b"),
    "label": ("label", "labels", "class", "category", "target", "sentiment", "intent", "polarity", "gold_label", "y"),
    "tokens": ("tokens", "words", "forms"),
    "tags": ("tags", "ner_tags", "pos_tags", "upos", "labels"),
}  # fmt: skip
_SPAN_TAG = re.compile(r"O|[BIESLU]-.+")


@dataclass(frozen=True)
class CorpusGuess:
    """What a name stands for.

    Attributes:
        data: The key `data` of a sweep file.
        lines: What was taken, and how to say otherwise; a sentence each.
    """

    data: Mapping[str, Any]
    task: str
    lines: tuple[str, ...]


def guess_corpus(asked: ChooseOptions, lookup: Lookup) -> CorpusGuess:
    """What a name holds, read and validated.

    Args:
        asked: The data, and the task and columns that somebody has said.

    Raises:
        ConfigError: Nobody can say which column is which.
        DataError, MissingError: The files are absent, broken, or do not fit the task.
    """
    draft, task, lines = guess_draft(draft_of(asked.data), asked, lookup)
    found = lookup.data(draft, task)
    assert found.sizes is not None
    n_train, n_dev, n_test = found.sizes
    files = ", ".join(Path(p).name for p in (*found.train, *found.dev, *found.test)[:4])
    unit = "sentences" if TASKS[task].head == "tokens" else "texts"
    first = f"{found.name} ({files}): {n_train:,} {unit} for training, {n_dev:,} dev, {n_test:,} test"
    return CorpusGuess(draft.model_dump(mode="json", exclude_defaults=True), task, (first, *lines))


def guess_draft(draft: DataDraft, asked: ChooseOptions, lookup: Lookup) -> tuple[DataDraft, str, list[str]]:
    """A corpus with the columns that its tables have and a split that serves as dev; its task; a line on each guess.

    Raises as `guess_corpus`; the files have not been read as a whole.
    """
    draft, data = _located(draft, lookup)
    task, lines = asked.task, []
    if draft.held_out is not None:
        lines.append(
            f"no dev split: {draft.held_out:.0%} of train serve as dev, the same on every machine "
            "(a file with `dev` in its name beside it is taken instead)"
        )
    columns = _columns_given(asked, data)
    if data.format in TABLES and columns is None:
        of_task = Columns() if task is None else TASKS[task].columns
        columns = _guess_columns(Path(data.train[0]), data.format, asked.ask) if of_task == Columns() else of_task
    if task is None:
        task = _task_of(data, columns)
        lines.append(f"task {task}, by its {'labels' if task == 'classification' else 'tags'} (--task for another)")
    if columns is not None:
        named = ", ".join(f"{key} = {value!r}" for key, value in columns if value is not None)
        header = "; no header line" if isinstance(columns.label, int) else ""
        lines.append(f"columns {named}{header} (--text and --label for others)")
        draft = draft.model_copy(update={"columns": columns})
    return draft, task, lines


def _located(draft: DataDraft, lookup: Lookup) -> tuple[DataDraft, DataSpec]:
    """A corpus and its files, unread; without a dev split it holds a share of train out."""
    try:
        return draft, lookup.locate(draft)
    except DataError as error:
        if draft.held_out is not None:
            raise
        held_out = draft.model_copy(update={"held_out": HELD_OUT})
        try:
            return held_out, lookup.locate(held_out)
        except DataError:
            raise error from None


def draft_of(name: str) -> DataDraft:
    """The corpus that a name stands for, unread. Raises ConfigError, or MissingError for a path that is not there."""
    path = Path(name).expanduser()
    if path.is_file():
        words = "".join(c if c.isalnum() or c in "_.+-" else "-" for c in path.name.split(".")[0])
        return DataDraft(train=(name,), held_out=HELD_OUT, name=words or "data")
    draft = named_corpus(name)
    if draft.folder is not None and not path.exists():
        raise MissingError(
            f"{name}: no such file or folder.{near_here(name, BUNDLED_TREEBANKS)} Give one, a bundled sample, a "
            "treebank like UD_English-EWT, or a dataset of the hub like nyu-mll/glue/sst2."
        )
    return draft


def _columns_given(asked: ChooseOptions, data: DataSpec) -> Columns | None:
    """The columns that somebody has said; by name where a header line has known names at their numbers."""
    if asked.text is None or asked.label is None:
        return None
    columns = Columns(text=name_or_position(asked.text), label=name_or_position(asked.label))
    if data.format not in ("tsv", "csv") or not (isinstance(columns.text, int) and isinstance(columns.label, int)):
        return columns
    rows = _first_rows(Path(data.train[0]), data.format, 1)
    header = [*rows[0]] if rows else []
    if not all(-len(header) <= at < len(header) for at in (columns.text, columns.label)):
        return columns
    text, label = header[columns.text], header[columns.label]
    is_header = text.strip().lower() in _ALIASES["text"] and label.strip().lower() in _ALIASES["label"]
    return Columns(text=text, label=label) if is_header else columns


def name_or_position(word: str) -> str | int:
    """A column as a command line names it: a position is a number."""
    return int(word) if word.lstrip("-").isdigit() else word


# --- Tables


def _guess_columns(path: Path, format_: str, ask: Ask | None) -> Columns:
    rows = _first_rows(path, format_)
    if not rows:
        raise DataError(f"{path}: is empty. Give a file with a row per text.")
    if isinstance(rows[0], Mapping):
        names = list(rows[0])
        body = [[row.get(name) for name in names] for row in rows if isinstance(row, Mapping)]
        return _named(path, names, body, ask)
    header, *rest = [list(row) for row in rows]
    if _is_header(header, rest):
        return _named(path, header, rest, ask)
    return _by_content(path, list(range(len(header))), [header, *rest], ask)


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether a first row names the columns: by a known name, by words above numbers, or above classes that lack it."""
    if {cell.strip().lower() for cell in first} & {name for names in _ALIASES.values() for name in names}:
        return True
    for at, cell in enumerate(first):
        below = [row[at] for row in rest if len(row) > at]
        if below and all(map(_is_number, below)) and not _is_number(cell):
            return True
        if 2 <= len(set(below)) <= _MOST_CLASSES * len(below) and cell not in below:
            return True
    return False


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _named(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]], ask: Ask | None) -> Columns:
    """The columns by their names, else by what they hold."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    known = {key: lower[alias] for key, aliases in _ALIASES.items() for alias in reversed(aliases) if alias in lower}
    holds_lists = bool(rows) and isinstance(rows[0][names.index(known["tokens"])], list) if "tokens" in known else False
    if holds_lists and "tags" in known:
        return Columns(tokens=known["tokens"], tags=known["tags"])
    if "text" in known and "label" in known:
        return Columns(text=known["text"], pair=known.get("pair"), label=known["label"])
    return _by_content(path, list(names), rows, ask)


def _by_content(path: Path, keys: Sequence[str | int], rows: Sequence[Sequence[Any]], ask: Ask | None) -> Columns:
    """The text is the column with the longest cells; the label the one with few distinct short values."""
    whole = [row for row in rows if len(row) == len(keys)]
    cells = {key: [str(row[at]) for row in whole] for at, key in enumerate(keys)}
    length = {key: sum(map(len, column)) for key, column in cells.items()}
    text = max(keys, key=lambda key: length[key])
    most = max(2.0, _MOST_CLASSES * len(whole))
    labels = [
        key
        for key in keys
        if key != text and 2 <= len(set(cells[key])) <= most and max(map(len, cells[key])) <= 60 and all(cells[key])
    ]
    if len(labels) == 1:
        return Columns(text=text, label=labels[0])
    choices = [str(key) for key in keys]
    if ask is not None and choices:
        numbered = " It has no header line, so give a number." if isinstance(text, int) else ""
        chosen = name_or_position(ask(f"Which column holds the text?{numbered}", choices))
        return Columns(text=chosen, label=name_or_position(ask("Which column holds its label?", choices)))
    seen = "no column looks like a label" if not labels else f"several could be labels: {', '.join(map(str, labels))}"
    if isinstance(text, int):
        likely = min(
            labels or [key for key in keys if key != text] or [1], key=lambda key: len(set(cells.get(key, ())))
        )
        raise ConfigError(
            f"{path}: no header line: use --text {text} --label {likely}, or other numbers from 0 to {len(keys) - 1}; "
            f"{seen}."
        )
    raise ConfigError(
        f"{path}: which columns hold the text and its label? {seen[0].upper()}{seen[1:]}. Say it with --text COLUMN "
        f"--label COLUMN; it has {', '.join(map(quoted, choices))}."
    )


# --- The task


def _task_of(data: DataSpec, columns: Columns | None) -> str:
    """The task by the first items; where these are broken, by the format, so that whoever reads all tells what is."""
    read = CORPUS_FORMATS[data.format]
    try:
        items = read(Path(data.train[0]), columns or Columns(), _N_ITEMS)[:_N_ITEMS]
    except BrokenLinesError:
        return {"conllu": "pos", "columns": "ner"}.get(data.format, "classification")
    tags = {tag for item in items if isinstance(item, Sentence) for tag in item.tags}
    if not tags:
        return "classification"
    return "ner" if data.format != "conllu" and all(map(_SPAN_TAG.fullmatch, tags)) else "pos"


def _first_rows(path: Path, format_: str, n: int = _N_ROWS) -> Sequence[Mapping[str, Any]] | Sequence[Sequence[str]]:
    """Up to `n` rows of a TSV or CSV file as lists of cells, the header line included if there is one; of a JSON lines
    or Parquet file as mappings. Raises DataError.
    """
    if format_ == "parquet":
        return _of_parquet(path, n)
    lines = [line for line in read_lines(path) if line.strip()][: n + 1]
    try:
        if format_ == "jsonl":
            found = [json.loads(line) for line in lines[:n]]
            return [row for row in found if isinstance(row, dict)]
        return [line.split("\t") for line in lines] if format_ == "tsv" else list(csv.reader(lines, strict=False))
    except (ValueError, RecursionError, csv.Error) as error:
        raise DataError(f"{path}: not {format_.upper()} ({error}).") from error


def _of_parquet(path: Path, n: int) -> list[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            batch = next(file.iter_batches(n, use_threads=False), None)
            return list(islice(batch.to_pylist(), n)) if batch is not None else []
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a complete Parquet file ({str(error).partition(chr(10))[0]}).") from error
