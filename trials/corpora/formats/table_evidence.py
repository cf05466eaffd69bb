"""Which columns of a table hold what: by names that are known, by what all rows hold, or else nobody can say.

A label is a column of few values that come again, a text the one of the longest cells. Words with tags are two columns
of lists, or of cells with as many words as the other has tags. What could be several is asked about, with options that
have read the file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from trials.corpora.cell_evidence import TagEvidence, are_classes, are_several_tags
from trials.corpora.column_names import ALIASES, MOST_TAGS, NO_PAIR, OF_A_WORD, PAIRS, is_header
from trials.corpora.corpus import CORPUS_FORMATS, Text
from trials.corpora.table_rows import SIGNS, column_cells, first_rows, parts_of, printed_list
from trials.errors import ConfigError, DataError, UnclearError, excerpt, quote, unknown_name
from trials.spec import Columns

Column = str | int
# Columns of documents; `document` may also be the text itself.
DOCUMENTS = frozenset((
    "doc_id", "docid", "doc", "document_id", "documentid", "document", "article_id", "thread_id", "dialogue_id",
    "dialog_id", "conversation_id", "recording_id",
))  # fmt: skip
_LONGEST_NAME = 200  # characters of what names a document
_MOST_EMPTY = 0.2  # of the labels, of texts that have none
_MOST_NAMES = 20  # of columns, in a message
_NEARLY = 0.95  # of the rows; the others are left to the reader, which names them
_CLEAR_LABELS = ("label", "labels", "class", "gold_label")
_ANSWERS = {"accept", "reject", "ignore"}
_decimal_comma = re.compile(r"-?\d+,\d+")
_bytes = re.compile(r"""\[?b(?:'.*'|".*")\]?""", re.DOTALL)
_file_name = re.compile(r"\S+\.(txt|json|xml|html?|pdf|docx?|wav|mp3|png|jpe?g|gif|eml)", re.IGNORECASE)


def find_columns(path: Path, format_: str, given: Columns, task: Columns) -> tuple[Columns, list[str]]:
    """The columns of a table that were not given, and a sentence about each choice that may surprise.

    Args:
        path: Its first file.
        format_: `tsv`, `csv`, `jsonl` or `parquet`.
        given: Columns that somebody has said; `pair` may be `NO_PAIR`.
        task: The columns of the task's own tables; without any, the task is not known.

    Raises:
        UnclearError: Several columns may be it, or none.
        DataError: The file cannot be read, or its rows are no texts with one label each.
    """
    rows = first_rows(path, format_)
    if not rows or not rows[0]:
        raise DataError(f"{path}: has no {'JSON objects' if format_ == 'jsonl' else 'rows'}. Give one per text.")
    table = _Table.from_rows(path, format_, rows)
    for key, cells in table.cells.items():
        if cells and all(map(_bytes.fullmatch, cells)):
            raise DataError(
                f"{path}: the cells in {key!r} are bytes as Python prints them ({quote(cells[0])}). Decode them "
                "before they are written: `text.decode('utf-8')`."
            )
    given = table.given_columns(given)
    columns, notes = table.word_columns(given, task), list[str]()
    if columns is None:
        if given.text is None:
            table.refuse_a_word_a_row()
        columns = table.texts(given, task)
        table.refuse_what_is_no_class(columns)
        notes = [] if table.has_header else ["no header line"]
        if given.pair is None and (unused := table.unused_texts(columns)):
            listed = ", ".join(map(repr, unused[:3])) + (", ..." if unused[3:] else "")
            notes.append(f"not used: {listed} (--pair {quote(str(unused[0]))} takes it as second texts)")
        if columns.pair is not None and given.pair is None and given.text is not None:
            taken = f"{columns.pair!r} is taken as the second text of each pair"
            notes.append(f"{taken} (--pair {NO_PAIR} to leave it out)")
    if table.repeated:
        notes.append(f"its header line comes {table.repeated:,} more times and is no row")
    return columns.model_copy(update={"document": given.document}), notes


def document_column(format_: str, columns: Columns, files: Sequence[Path]) -> str | None:
    """The column whose name clearly says that it holds documents, in tables whose columns are given by name: in every
    row of every file, and in the first one with documents of several rows. Raises DataError: a file cannot be read.
    """
    taken = [value for _, value in columns if value is not None]
    tables = [] if any(isinstance(value, int) for value in taken) else [first_rows(path, format_) for path in files]
    for name in map(str, tables[0][0] if tables and tables[0] else ()):
        if name.strip().lower() in DOCUMENTS and name not in taken and all(_has(rows, name) for rows in tables if rows):
            cells = [str(cell) for cell in column_cells(tables[0], name) or ()]
            if 1 < len({*cells}) < len(cells) and max(map(len, cells)) <= _LONGEST_NAME:
                return name
    return None


def _has(rows: Sequence[Any], name: str) -> bool:
    """Whether the header line names a column, or each object has it."""
    return all(name in row for row in rows) if isinstance(rows[0], Mapping) else name in rows[0]


@dataclass(frozen=True)
class _Table:
    """A table.

    Attributes:
        keys: The columns: names, or positions where there is no header line.
        raw: The cells of each, in rows that are whole.
        repeated: How often the header line comes again.
    """

    path: Path
    format: str
    keys: Sequence[Column]
    raw: Mapping[Column, Sequence[Any]]
    repeated: int = 0

    @classmethod
    def from_rows(cls, path: Path, format_: str, rows: Sequence[Any]) -> _Table:
        if isinstance(rows[0], Mapping):
            return cls(path, format_, [*rows[0]], {name: [row.get(name) for row in rows] for name in rows[0]})
        header, rest = rows[0], [row for row in rows if row != rows[0]]
        names = header if (names_columns := is_header(header, rest)) else range(len(header))
        whole = [row for row in (rest if names_columns else rows) if len(row) == len(header)]
        raw = {name: [row[column] for row in whole] for column, name in enumerate(names)}
        return cls(path, format_, names, raw, len(rows) - 1 - len(rest) if names_columns else 0)

    @property
    def has_header(self) -> bool:
        return 0 not in self.raw

    @cached_property
    def cells(self) -> dict[Column, list[str]]:
        """The cells of each column as text."""
        return {key: [*map(str, column)] for key, column in self.raw.items()}

    def given_columns(self, given: Columns) -> Columns:
        """Given columns, by name where a header line has one for a position. Raises ConfigError: there is none."""
        columns: dict[str, Column | None] = {}
        for key, value in given:
            is_none = value is None or (key in ("pair", "document") and value == NO_PAIR)
            if is_none or value in self.raw:
                columns[key] = value
            elif isinstance(value, int) and -len(self.keys) <= value < len(self.keys):
                columns[key] = self.keys[value]
            else:
                raise self._absent(key, value)
        return Columns(**columns)

    def _absent(self, key: str, value: Column | None) -> ConfigError:
        where = f"{self.path}: columns.{key} (--{'words' if key == 'tokens' else key})"
        if self.has_header:
            return ConfigError(f"{where}: {unknown_name(str(value), [*map(str, self.keys)], in_file=True)}")
        range_ = f"as the first row names none: use numbers from 0 to {len(self.keys) - 1}"
        return UnclearError(f"{where}: there is no column {value!r}, {range_}.", self._options(None, (), ()))

    # --- By name

    @cached_property
    def lower(self) -> dict[str, str]:
        """The columns by their names in small letters; of what objects hold, by the last part of a path, too."""
        names = [str(key) for key in reversed(self.keys)] if self.has_header else []
        last = {name.strip().lower().rpartition(".")[2]: name for name in names}
        return last | {name.strip().lower(): name for name in names}

    def known_column(self, key: str, among: Sequence[Column], taken: Sequence[Column | None] = ()) -> str | None:
        """The column with a known name for a key."""
        found = (self.lower[name] for name in ALIASES[key] if name in self.lower)
        return next((name for name in found if name in among and name not in taken), None)

    @cached_property
    def plain(self) -> list[Column]:
        """The columns whose cells are texts, numbers, or flat lists of these."""
        return [key for key, column in self.raw.items() if not any(map(_is_nested, column))]

    # --- Words and tags

    def word_columns(self, given: Columns, task: Columns) -> Columns | None:
        """The columns of words and tags; None where a row is a text."""
        if given.text is not None:
            return None
        sequences = self._sequences()
        tokens, tags = given.tokens, given.tags if given.tags is not None else self._tags(sequences, task)
        if tokens is None and tags in sequences:
            alike = [key for key in sequences if key != tags and _fit(sequences[key], sequences[tags])]
            tokens = self.known_column("tokens", alike) or (alike[0] if len(alike) == 1 else None)
        if tokens is not None and tags is not None:
            return Columns(tokens=tokens, tags=tags)
        if given.tokens is not None or given.tags is not None:
            raise UnclearError(
                f"{self.path}: which columns hold words and tags (--words, --tags)? It has {self._list()}."
            )
        return None

    def _list(self) -> str:
        more = f" and {len(self.keys) - _MOST_NAMES} more" if len(self.keys) > _MOST_NAMES else ""
        return ", ".join(quote(str(key)) for key in self.keys[:_MOST_NAMES]) + more

    def _sequences(self) -> dict[Column, list[Sequence[Any]]]:
        """The columns whose cells are lists, printed lists, or several words."""
        found = dict[Column, list[Sequence[Any]]]()
        for key, column in self.raw.items():
            if column and all(isinstance(cell, list) and not _is_nested(cell) for cell in column):
                found[key] = [*column]
            elif column and all(isinstance(cell, str) for cell in column):
                lists = [printed for printed in map(printed_list, column) if printed]
                joined = next((sign for sign in SIGNS if _are_joined(column, sign)), None)
                parts = (cell.split(" ") if joined is None else parts_of(cell, joined) for cell in column)
                found[key] = [*(lists if len(lists) == len(column) else parts)]
        return found

    def _tags(self, sequences: Mapping[Column, list[Sequence[Any]]], task: Columns) -> Column | None:
        """The column of a tag for each word of another one."""
        likely, spans = list[Column](), list[Column]()
        for key, lists in sequences.items():
            others = [other for other in sequences if other != key and _fit(sequences[other], lists)]
            if not others or not any(len(tags) > 1 for tags in lists):
                continue
            counts = Counter(str(tag) for tags in lists for tag in tags)
            are_lists = isinstance(self.raw[key][0], list) or printed_list(self.raw[key][0]) is not None
            is_named = key == task.tags or self.known_column("tags", [key]) is not None
            words = max(len({word for words in sequences[other] for word in words}) for other in others)
            is_tag_set = len(counts) <= MOST_TAGS and 2 * len(counts) <= words and len({*map(len, lists)}) > 1
            if TagEvidence.from_counts(counts).are_spans:
                spans.append(key)
            elif is_tag_set or (is_named and (are_lists or len(counts) <= MOST_TAGS)):
                likely.append(key)
        if task.tags in (*spans, *likely):
            return task.tags
        some = spans or likely
        return some[0] if len(some) == 1 else self.known_column("tags", some)

    def refuse_a_word_a_row(self) -> None:
        """Raise DataError if a row holds a word and its tag, not a text."""
        tags = [key for key, column in self.cells.items() if TagEvidence.from_counts(Counter(column)).are_spans]
        tokens = [key for key in self.keys if key not in tags and not any(" " in c.strip() for c in self.cells[key])]
        is_all = tags and tokens and len(tokens) + len(tags) + 1 >= len(self.keys)
        if is_all or (tags and {*self.lower} & OF_A_WORD):
            raise DataError(
                f"{self.path}: a row holds one word and its tag, not a text: the tags are column {tags[0]!r} of "
                f"{self._list()}. A table is read with a row per text or sentence. Write it as a column file instead: "
                "a word and its tag on each line, separated by a tab, and a blank line after each sentence (`format: "
                "columns`, --format columns)."
            )

    # --- Texts and labels

    def texts(self, given: Columns, task: Columns) -> Columns:
        """The columns of texts and labels: those with known names; else the text is the column with the longest cells,
        the label the one with few distinct short values. Raises UnclearError: several may be it.
        """
        lower, plain = self.lower, self.plain
        is_single, wants_pair = task.text not in (None, "text") and task.pair is None, task.pair is not None
        text, pair, label = given.text, given.pair, given.label
        if text is None and task.text in plain:
            text = task.text
        if text is None and not is_single:
            text = next((lower[a] for a, b in PAIRS if lower.get(a) in plain and lower.get(b) in plain), None)
        if text is None:
            text = self.known_column("text", plain, (label, pair))
        if pair is None and text is not None and not is_single:
            pair = task.pair if task.pair in self.raw and task.pair != text else self._pair_of(text)
        if label is None:
            label = task.label if task.label in self.raw else self._named_label((text, pair))
        if label == "label" and len({*self.cells[label]}) == 1 and {*self.cells.get("answer", "-")} <= _ANSWERS:
            label = "answer"  # of Prodigy's, each about the same label: they are its classes
        if text is not None and label is not None and (pair is not None or not wants_pair):
            return Columns(text=text, pair=None if pair == NO_PAIR else pair, label=label)
        free = [key for key in plain if key not in (pair, label)]
        most = text if text is not None else max(free, key=self._length, default=None)
        others = [] if most is None else [key for key in free if key != most and self._is_text(key, most)]
        labels = [label] if label is not None else self._labels((most, pair, *others))
        asks_pair = pair is None and not is_single and bool(others) and (wants_pair or text is None)
        if most is None or len(labels) != 1 or asks_pair or (pair is None and wants_pair):
            self.refuse_what_is_no_class(Columns())
            raise self._unclear(most, others if asks_pair or wants_pair else [], labels, wants_pair=wants_pair)
        return Columns(text=most, pair=None if pair == NO_PAIR else pair, label=labels[0])

    def _named_label(self, taken: Sequence[Column | None]) -> str | None:
        """The column with a known name for labels; None where several that hold classes have one less clear."""
        named = self.known_column("label", self.keys, taken)
        others = [name for name in map(str, self._labels(taken)) if name.strip().lower() in ALIASES["label"]]
        return None if len(others) > 1 and named is not None and named.lower() not in _CLEAR_LABELS else named

    def _pair_of(self, text: Column) -> str | None:
        """The column whose name forms a pair with the name of a text column."""
        name = str(text).strip().lower()
        others = [b for a, b in PAIRS if a == name] + [a for a, b in PAIRS if b == name]
        return next((self.lower[name] for name in others if name in self.lower), None)

    def unused_texts(self, columns: Columns) -> list[Column]:
        """The columns that are not taken and whose cells hold words, not all the same; the longest texts first."""
        taken = (columns.text, columns.pair, columns.label)
        unused = [
            key for key, cells in self.cells.items()
            if key in self.plain and key not in taken and str(key).strip().lower() not in DOCUMENTS
            and len({*cells} - _ANSWERS) > 1 and sum(map(_has_words, cells)) > len(cells) / 2
        ]  # fmt: skip
        return sorted(unused, key=self._length, reverse=True)

    def _length(self, key: Column) -> int:
        return sum(map(len, self.cells[key]))

    def _is_text(self, key: Column, longest: Column) -> bool:
        """Whether the cells of a column look like texts, compared with the column that has the longest ones."""
        column = self.cells[key]
        n_words, most_words = (sum(len(cell.split()) for cell in self.cells[each]) for each in (key, longest))
        return n_words >= 2 * len(column) and 3 * n_words >= most_words and 2 * len({*column}) > len(column)

    def _labels(self, taken: Sequence[object]) -> list[Column]:
        found = [
            key
            for key in self.plain
            if key not in taken and are_classes(self.cells[key])
            and self.cells[key].count("") <= _MOST_EMPTY * len(self.cells[key])
        ]  # fmt: skip
        ids = [key for key in found if _are_class_ids({*self.cells[key]})]
        return ids if len(ids) == 1 and not self.has_header else sorted(found, key=lambda key: len({*self.cells[key]}))

    def _unclear(
        self, text: Column | None, others: Sequence[Column], labels: Sequence[Column], *, wants_pair: bool
    ) -> UnclearError:
        seen = []
        if wants_pair:
            seen.append("which column is the second text of each pair (--pair COLUMN)")
        elif others:
            seen.append(f"several look like texts: {', '.join(map(str, [text, *others]))}")
        if len(labels) != 1:
            listed = ", ".join(map(str, labels))
            seen.append(f"several could be labels: {listed}" if labels else "no column looks like a label")
        doubt = "; ".join(seen)
        rows = [*zip(*self.cells.values(), strict=True)][:2]
        shown = "; ".join(excerpt(", ".join(map(quote, row))) for row in rows)
        names = f"columns {self._list()}" if self.has_header else "no header line"
        return UnclearError(
            f"{self.path}: which columns hold the text and its label? {doubt[:1].upper()}{doubt[1:]}. It has {names}; "
            f"its first rows: {shown}.",
            self._options(text, others, labels, single=not wants_pair),
        )

    def _options(
        self, text: Column | None, others: Sequence[Column], labels: Sequence[Column], *, single: bool = True
    ) -> Iterator[dict[str, object]]:
        """Columns that may be meant, and that read the file: it has several labels then, which come again."""
        text = max(self.plain, key=self._length, default=None) if text is None else text
        few = sorted((key for key in self.keys if key != text), key=lambda key: len({*self.cells[key]}))
        pairs = [*others[:1], *([None] if single or not others else [])]
        for label, pair in product(labels or few, pairs or [None]):
            columns = Columns(text=text, pair=pair, label=label)
            with suppress(DataError):
                self.refuse_what_is_no_class(columns)
                found = CORPUS_FORMATS[self.format](self.path, columns, None)
                classes = {item.label for item in found if isinstance(item, Text)}
                if 1 < len(classes) <= max(2, len(found) / 2):
                    second = {"pair": NO_PAIR if pair is None else pair} if others else {}
                    yield {"text": text, **second, "label": label}

    def refuse_what_is_no_class(self, columns: Columns) -> None:
        """Raise DataError where the labels are spans of characters or several a row, or the texts are names of files.

        Args:
            columns: Those of texts and labels; without any, each column is looked at for spans.
        """
        for key in self.keys if columns.label is None else [columns.label]:
            values = [*map(_parse, self.raw.get(key, ())[:1000])]
            if columns.label is None:  # what an object holds is a column, too
                values = [value for value in values if not isinstance(value, dict)]
            where = f"{self.path}: the labels in {key!r}"
            if nested := next(filter(_is_nested, values), None):
                raise DataError(
                    f"{where} are spans or nested objects ({excerpt(str(nested))}), as doccano, Prodigy and Label "
                    "Studio write them, and no classes. Export them as CoNLL 2003, or write a word and its tag a line."
                )
            if values and all(map(_decimal_comma.fullmatch, map(str, values))):
                raise DataError(f"{where} are numbers with commas ({values[0]}). Write points, as in 3.5.")
            tags = [value for value in values if isinstance(value, str) and are_several_tags(value)]
            if 2 * len(tags) > len(values):
                raise DataError(
                    f"{where} are tags of the words of each text ({excerpt(tags[0])}), but not as many as words. "
                    "Write one for each word, with spaces between words and between tags, or a word and its tag a line."
                )
            several = [v for v in values if isinstance(v, list) and len(v) > 1 and columns.label is not None]
            joined, singles = [parts for parts in map(_split, values) if len(parts) > 1], {*map(str, values)}
            if several or (joined and 2 * sum({*each} <= singles for each in joined) >= len(joined)):
                raise DataError(
                    f"{where} are several a text ({excerpt(str((several or joined)[0]))}), and a text has one class "
                    "here. Keep one label a row, or write a column for each label and give one of them."
                )
        texts = self.cells.get(columns.text, []) if columns.text is not None else []
        if texts and all(map(_file_name.fullmatch, texts)):
            raise DataError(
                f"{self.path}: the texts in {columns.text!r} are names of files ({quote(texts[0])}). Write what the "
                "files hold into the column, or put them into a folder for each class."
            )


def _are_joined(cells: Sequence[str], sign: str) -> bool:
    """Whether a sign, and no space, parts what most cells hold, as it does tags of a sentence."""
    parts = [parts_of(cell, sign) for cell in cells]
    return 2 * sum(len(each) > 1 for each in parts) > len(cells) and not any(" " in p for each in parts for p in each)


def _split(label: Any) -> list[str]:
    """The labels that separators join in a cell."""
    return re.split(r"\s*[,;|]\s*", label) if isinstance(label, str) else []


def _parse(value: Any) -> Any:
    """What JSON or a printed list in a cell holds."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    with suppress(ValueError, RecursionError):
        return json.loads(value)
    return printed_list(value) or value


def _has_words(cell: str) -> bool:
    """Whether a cell is words, not a number, a code or an address."""
    return re.match(r"\s*[\"'.,;:!?()-]*[^\W\d_]+[\"'.,;:!?()-]*(\s|$)", cell) is not None


def _is_nested(value: Any) -> bool:
    """Whether a label is an object, or a list of objects or lists."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, list | dict) for v in value))


def _fit(words: Sequence[Sequence[Any]], tags: Sequence[Sequence[Any]]) -> bool:
    """Whether two columns have as many parts in nearly each row."""
    return sum(len(a) == len(b) for a, b in zip(words, tags, strict=True)) >= _NEARLY * len(tags)


def _are_class_ids(values: set[str]) -> bool:
    """Whether the values are the numbers of classes, from 0 or 1 on."""
    return values in ({*map(str, range(start, start + len(values)))} for start in (0, 1))
