"""Which columns of a table hold the texts and their labels, by their names and by what all rows hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.datasets.schemes import TagEvidence
from trials.datasets.table_reader import column_cells, first_rows
from trials.errors import ConfigError, DataError, unknown
from trials.escaping import quoted
from trials.settings import Columns

# Columns of documents; `document` may also be the text itself.
DOCUMENTS = frozenset((
    "doc_id", "docid", "doc", "document_id", "documentid", "document", "article_id", "thread_id", "dialogue_id",
    "dialog_id", "conversation_id", "recording_id",
))  # fmt: skip
_LONGEST_NAME = 200  # characters of what names a document
NO_PAIR = "none"  # in place of the column of second texts, or of documents: there is none
_MOST_CLASSES = 0.2  # of the rows: a column with more distinct values is no class
_PAIRS = (
    ("sentence1", "sentence2"), ("question1", "question2"), ("premise", "hypothesis"), ("question", "sentence"),
    ("text1", "text2"), ("text_a", "text_b"), ("sentence_a", "sentence_b"), ("text", "text2"), ("s1", "s2"),
    ("sent1", "sent2"), ("#1 string", "#2 string"), ("query", "passage"), ("query", "document"),
    ("question", "passage"), ("question", "context"), ("question", "answer"), ("claim", "evidence"),
    ("string1", "string2"), ("context", "response"), ("headline", "body"),
)  # fmt: skip
ALIASES = {
    "text": ("text", "sentence", "sentence1", "premise", "question1", "question", "review", "comment", "tweet",
             "utterance", "content", "body", "message", "document"),
    "label": ("label", "labels", "class", "category", "target", "sentiment", "intent", "polarity", "gold_label", "y",
              "is_duplicate", "score", "similarity", "quality", "stars", "rating"),
    "tokens": ("tokens", "words", "forms"),
    "tags": ("tags", "ner_tags", "pos_tags", "upos", "labels"),
}  # fmt: skip
_OF_A_WORD = {"word", "token", "form", "words", "tokens"}
_HEADER_NAMES = {
    *_OF_A_WORD, "tag", "pos", "ner", "sentence #",
    *(name for names in ALIASES.values() for name in names), *(name for pair in _PAIRS for name in pair),
}  # fmt: skip


class UnclearColumnsError(ConfigError):
    """Nobody can say which column is which.

    Attributes:
        choices: The columns, by name or position.
        pairs: Whether two of them look like texts.
    """

    def __init__(self, message: str, choices: Sequence[str], *, pairs: bool) -> None:
        self.choices, self.pairs = choices, pairs
        super().__init__(message)


def guess_columns(path: Path, format_: str, given: Columns, task: Columns) -> tuple[Columns, list[str]]:
    """The columns of a table that nobody has given, and a sentence on each that may surprise.

    Args:
        path: Its first file.
        format_: `tsv`, `csv`, `jsonl` or `parquet`.
        given: Columns that somebody has said; `pair` may be `NO_PAIR`.
        task: The columns of the task's own tables; without any, the task is not known.

    Raises:
        UnclearColumnsError: Several columns may be it, or none.
        DataError: The file cannot be read, or its rows are no texts.
    """
    rows = first_rows(path, format_)
    if not rows or not rows[0]:
        raise DataError(f"{path}: is empty. Give a file with a row per text.")
    table = _Table.of(path, rows)
    given = table.named(given)
    columns, notes = _guessed(table, given, task)
    return columns.model_copy(update={"document": given.document}), notes


def _guessed(table: _Table, given: Columns, task: Columns) -> tuple[Columns, list[str]]:
    if given.tokens is not None or given.tags is not None:
        tags = given.tags if given.tags is not None else table.known("tags", ())
        tokens = given.tokens if given.tokens is not None else table.known("tokens", ())
        return Columns(tokens=tokens, tags=tags), []
    if given.text is None and (sentences := table.sentences()) is not None:
        return sentences, []
    if given.text is None:
        table.refuse_a_word_a_row()
    columns = table.texts(given, task)
    notes = [] if table.has_header else ["no header line"]
    if columns.pair is not None and given.pair is None and given.text is not None:
        notes.append(f"{columns.pair!r} is taken as the second text of each pair (--pair {NO_PAIR} to leave it out)")
    return columns, notes


def document_column(format_: str, columns: Columns, files: Sequence[Path]) -> str | None:
    """The column whose name clearly says that it holds documents, in tables whose columns are given by name: in every
    row of every file, and in the first one with documents of several rows. Raises DataError: a file cannot be read.
    """
    taken = [value for _, value in columns if value is not None]
    if any(isinstance(value, int) for value in taken):
        return None
    rows = first_rows(files[0], format_)
    for name in map(str, rows[0] if rows else ()):
        if name.strip().lower() not in DOCUMENTS or name in taken:
            continue
        cells = [str(cell) for cell in column_cells(rows, name)]
        if _has(rows, name) and 1 < len({*cells}) < len(cells) and max(map(len, cells)) <= _LONGEST_NAME:
            others = (first_rows(path, format_) for path in files[1:])
            if all(not other or _has(other, name) for other in others):
                return name
    return None


def _has(rows: Sequence[Any], name: str) -> bool:
    """Whether the header line names a column, or each object has it."""
    return all(name in row for row in rows) if isinstance(rows[0], Mapping) else name in rows[0]


@dataclass(frozen=True)
class _Table:
    """Rows of a table.

    Attributes:
        keys: The columns: names, or positions where there is no header line.
        rows: Their cells.
    """

    path: Path
    keys: Sequence[str | int]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, path: Path, rows: Sequence[Mapping[str, Any]] | Sequence[Sequence[str]]) -> _Table:
        if isinstance(rows[0], Mapping):
            names = list(rows[0])
            return cls(path, names, [[row.get(name) for name in names] for row in rows if isinstance(row, Mapping)])
        header, *rest = [list(row) for row in rows]
        if _is_header(header, rest):
            return cls(path, header, rest)
        return cls(path, range(len(header)), [header, *rest])

    @property
    def has_header(self) -> bool:
        return not (self.keys and isinstance(self.keys[0], int))

    def named(self, given: Columns) -> Columns:
        """Given columns, by name where a header line has one for a position. Raises ConfigError: there is none."""
        columns: dict[str, str | int | None] = {}
        for key, value in given:
            is_none = value is None or (key in ("pair", "document") and value == NO_PAIR)
            if is_none or value in self.keys:
                columns[key] = value
            elif isinstance(value, int) and -len(self.keys) <= value < len(self.keys):
                columns[key] = self.keys[value]
            else:
                raise ConfigError(self._absent(key, value))
        return Columns(**columns)

    def _absent(self, key: str, value: str | int | None) -> str:
        option = {"tokens": "words"}.get(key, key)
        if self.has_header:
            return (
                f"{self.path}: columns.{key} (--{option}): {unknown(str(value), [*map(str, self.keys)], in_file=True)}"
            )
        text, label = self._content_keys()
        return (
            f"{self.path}: columns.{key} (--{option}): there is no column {value!r}, as the first row names none: use "
            f"numbers from 0 to {len(self.keys) - 1}, as in --text {text} --label {label} (in a sweep file `columns: "
            f"{{text: {text}, label: {label}}}`)."
        )

    # --- By name

    def _lower(self) -> dict[str, str]:
        return {str(key).strip().lower(): str(key) for key in reversed(self.keys)} if self.has_header else {}

    def known(self, key: str, taken: Sequence[str | int | None]) -> str | None:
        """The column with a known name for a key."""
        lower = self._lower()
        return next((lower[name] for name in ALIASES[key] if name in lower and lower[name] not in taken), None)

    def sentences(self) -> Columns | None:
        """The columns of lists of words and tags."""
        tokens, tags = self.known("tokens", ()), self.known("tags", ())
        if tokens is None or tags is None or tokens == tags or not self.rows:
            return None
        words, marks = (self.rows[0][self.keys.index(name)] for name in (tokens, tags))
        are_lists = isinstance(words, list)
        are_cells = isinstance(words, str) and isinstance(marks, str) and words.count(" ") == marks.count(" ") > 0
        return Columns(tokens=tokens, tags=tags) if are_lists or are_cells else None

    def _pair_of(self, text: str | int) -> str | None:
        """The column whose name makes a pair with that of a text."""
        lower, text_name = self._lower(), str(text).strip().lower()
        others = [b for a, b in _PAIRS if a == text_name] + [a for a, b in _PAIRS if b == text_name]
        return next((lower[name] for name in others if name in lower), None)

    def texts(self, given: Columns, task: Columns) -> Columns:
        """The columns of texts and labels. Raises UnclearColumnsError."""
        lower = self._lower()
        is_single = task.text not in (None, "text") and task.pair is None
        text, pair, label = given.text, given.pair, given.label
        if text is None and task.text in self.keys:
            text = task.text
        if text is None and not is_single:
            text = next((lower[a] for a, b in _PAIRS if a in lower and b in lower), None)
        if text is None:
            text = self.known("text", (label, pair))
        if pair is None and text is not None and not is_single:
            pair = task.pair if task.pair in self.keys and task.pair != text else self._pair_of(text)
        if label is None:
            label = task.label if task.label in self.keys else self.known("label", (text, pair))
        text, pair, label = self._by_content(text, pair, label, wants_pair=task.pair is not None, is_single=is_single)
        return Columns(text=text, pair=None if pair == NO_PAIR else pair, label=label)

    # --- By content

    def _cells(self) -> dict[str | int, list[str]]:
        whole = [row for row in self.rows if len(row) == len(self.keys)]
        return {key: [str(row[at]) for row in whole] for at, key in enumerate(self.keys)}

    def _content_keys(self) -> tuple[str | int, str | int]:
        """The columns that most look like a text and its label."""
        cells = self._cells()
        text = max(self.keys, key=lambda key: sum(map(len, cells[key])))
        labels = self._labels(cells, (text,)) or [key for key in self.keys if key != text] or [1]
        return text, min(labels, key=lambda key: len(set(cells.get(key, ()))))

    def _labels(self, cells: Mapping[str | int, Sequence[str]], taken: Sequence[object]) -> list[str | int]:
        most = max(2.0, _MOST_CLASSES * len(next(iter(cells.values()), ())))
        candidates = [
            key
            for key, column in cells.items()
            if key not in taken and 2 <= len(set(column)) <= most and max(map(len, column)) <= 60 and all(column)
        ]
        ids = [key for key in candidates if _are_class_ids(cells[key])]
        return ids if len(ids) == 1 and not self.has_header else candidates

    def _by_content(
        self,
        text: str | int | None,
        pair: str | int | None,
        label: str | int | None,
        *,
        wants_pair: bool,
        is_single: bool,
    ) -> tuple[str | int, str | int | None, str | int]:
        """What is known by name, and the rest by content: the text is the column with the longest cells, the label the
        one with few distinct short values.
        """
        if text is not None and label is not None and (pair is not None or not wants_pair):
            return text, pair, label
        cells = self._cells()
        length = {key: sum(map(len, column)) for key, column in cells.items()}
        free = [key for key in self.keys if key not in (pair, label)]
        most = max(free, key=lambda key: length[key]) if text is None and free else text
        others = [key for key in free if key != most and most is not None and _is_text(cells[key], cells[most])]
        labels = [label] if label is not None else self._labels(cells, (most, pair, *others))
        asks_pair = pair is None and not is_single and bool(others) and (wants_pair or text is None)
        if most is not None and len(labels) == 1 and not asks_pair and (pair is not None or not wants_pair):
            return most, pair, labels[0]
        raise self._unclear(most, others if asks_pair or wants_pair else [], labels, wants_pair=wants_pair)

    def _unclear(
        self, text: str | int | None, others: Sequence[str | int], labels: Sequence[str | int], *, wants_pair: bool
    ) -> UnclearColumnsError:
        choices, (guessed, likely) = [*map(str, self.keys)], self._content_keys()
        text = guessed if text is None else text
        if labels:
            likely = min(labels, key=lambda key: len(set(self._cells()[key])))
        if len(labels) == 1:
            seen = ""
        elif labels:
            seen = f"several could be labels: {', '.join(map(str, labels))}"
        else:
            seen = "no column looks like a label"
        options = " ".join([f"--text {text}", *(f"--pair {key}" for key in others[:1]), f"--label {likely}"])
        if wants_pair:
            seen = "; ".join(filter(None, ("which column is the second text of each pair (--pair COLUMN)", seen)))
        elif others:
            listed = ", ".join(map(str, [text, *others]))
            seen = "; ".join(filter(None, (f"several look like texts: {listed}", seen)))
            options += f", or with --pair {NO_PAIR}"
        if not self.has_header:
            numbers = f"other numbers from 0 to {len(self.keys) - 1}"
            message = f"{self.path}: no header line: use {options}, or {numbers}; {seen}."
        else:
            question = f"{self.path}: which columns hold the text and its label? {seen[:1].upper()}{seen[1:]}."
            message = f"{question} Say it with {options}; it has {', '.join(map(quoted, choices))}."
        in_file = ", ".join(f"{key}: ..." for key in ("text", *(["pair"] if others or wants_pair else []), "label"))
        return UnclearColumnsError(
            f"{message} In a sweep file: `columns: {{{in_file}}}`.", choices, pairs=bool(others or wants_pair)
        )

    def refuse_a_word_a_row(self) -> None:
        """Raise DataError if a row holds a word and its tag, not a text."""
        cells = self._cells()
        tags = [key for key, column in cells.items() if TagEvidence.of(Counter(column)).are_spans]
        tokens = [key for key, column in cells.items() if key not in tags and not any(" " in c.strip() for c in column)]
        named = {*self._lower()} & _OF_A_WORD
        if not (tags and tokens and len(tokens) + len(tags) + 1 >= len(self.keys)) and not (tags and named):
            return
        listed = ", ".join(quoted(str(key)) for key in self.keys)
        raise DataError(
            f"{self.path}: a row holds one word and its tag, not a text: the tags are column {tags[0]!r} of {listed}. "
            "A table is read with a row per text or sentence. Write it as a column file instead: a word and its tag on "
            "each line, separated by a tab, and a blank line after each sentence (`format: columns`, --format columns)."
        )


def _are_class_ids(column: Sequence[str]) -> bool:
    """Whether the values are the numbers of classes, from 0 or 1 on."""
    values = {*column}
    return values in ({*map(str, range(start, start + len(values)))} for start in (0, 1))


def _is_text(column: Sequence[str], longest: Sequence[str]) -> bool:
    """Whether cells look like texts, beside the column with the longest ones."""
    n_words, most_words = (sum(len(cell.split()) for cell in cells) for cells in (column, longest))
    return n_words >= 2 * len(column) and 3 * n_words >= most_words and 2 * len({*column}) > len(column)


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether a first row names the columns: by a known name, by words above numbers, or above classes that lack it."""
    for at, cell in enumerate(first):
        below = [row[at] for row in rest if len(row) > at]
        if cell.strip().lower() in _HEADER_NAMES and cell not in below:
            return True
        if below and all(map(_is_number, below)) and not _is_number(cell):
            return True
        if (
            2 <= len(set(below)) <= _MOST_CLASSES * len(below)
            and cell not in below
            and all(len(c) <= 60 for c in first)
        ):
            return True
    return False


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
