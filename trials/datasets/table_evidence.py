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

from trials.datasets.corpus import CORPUS_FORMATS, Text
from trials.datasets.schemes import TagEvidence
from trials.datasets.table_rows import column_cells, first_rows, is_number, printed_list
from trials.errors import ConfigError, DataError, UnclearError, unknown
from trials.escaping import beginning, quoted
from trials.settings import Columns

# Columns of documents; `document` may also be the text itself.
DOCUMENTS = frozenset((
    "doc_id", "docid", "doc", "document_id", "documentid", "document", "article_id", "thread_id", "dialogue_id",
    "dialog_id", "conversation_id", "recording_id",
))  # fmt: skip
_LONGEST_NAME = 200  # characters of what names a document
NO_PAIR = "none"  # in place of the column of second texts, or of documents: there is none
_MOST_CLASSES = 0.2  # of the rows: a column with more distinct values is no class
_MOST_TAGS = 60  # of a column of tags that are none of spans
_NEARLY = 0.95  # of the rows; the others are left to the reader, which names them
_PAIRS = (
    ("sentence1", "sentence2"), ("question1", "question2"), ("premise", "hypothesis"), ("question", "sentence"),
    ("text1", "text2"), ("text_a", "text_b"), ("sentence_a", "sentence_b"), ("text", "text2"), ("s1", "s2"),
    ("sent1", "sent2"), ("#1 string", "#2 string"), ("query", "passage"), ("query", "document"),
    ("question", "passage"), ("question", "context"), ("question", "answer"), ("claim", "evidence"),
    ("string1", "string2"), ("context", "response"), ("headline", "body"),
)  # fmt: skip
ALIASES = {
    "text": ("text", "sentence", "sentence1", "premise", "question1", "question", "review", "comment", "tweet",
             "utterance", "utt", "content", "body", "message", "document", "text_a"),
    "label": ("label", "labels", "class", "category", "target", "sentiment", "intent", "polarity", "gold_label", "y",
              "is_duplicate", "score", "similarity", "quality", "stars", "rating"),
    "tokens": ("tokens", "words", "forms", "sentence", "text"),
    "tags": ("ner_tags", "tags", "pos_tags", "upos", "labels", "ner", "bio_tags", "bio", "iob"),
}  # fmt: skip
_OF_A_WORD = {"word", "token", "form", "words", "tokens"}
KNOWN_NAMES = {
    *_OF_A_WORD, "tag", "pos", "ner", "sentence #",
    *(name for names in ALIASES.values() for name in names), *(name for pair in _PAIRS for name in pair),
}  # fmt: skip
_file_name = re.compile(r"\S+\.(txt|json|xml|html?|pdf|docx?|wav|mp3|png|jpe?g|gif|eml)", re.IGNORECASE)


def find_columns(path: Path, format_: str, given: Columns, task: Columns) -> tuple[Columns, list[str]]:
    """The columns of a table that nobody has given, and a sentence on each that may surprise.

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
        raise DataError(f"{path}: is empty. Give a file with a row per text.")
    table = _Table.of(path, format_, rows)
    given = table.named(given)
    columns, notes = table.of_words(given, task), list[str]()
    if columns is None:
        if given.text is None:
            table.refuse_a_word_a_row()
        columns = table.texts(given, task)
        table.refuse_what_is_no_class(columns)
        notes = [] if table.has_header else ["no header line"]
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
    if any(isinstance(value, int) for value in taken):
        return None
    rows = first_rows(files[0], format_)
    for name in map(str, rows[0] if rows else ()):
        if name.strip().lower() not in DOCUMENTS or name in taken:
            continue
        cells = [str(cell) for cell in column_cells(rows, name) or ()]
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
        repeated: How often the header line comes again.
    """

    path: Path
    format: str
    keys: Sequence[str | int]
    rows: Sequence[Sequence[Any]]
    repeated: int = 0

    @classmethod
    def of(cls, path: Path, format_: str, rows: Sequence[Mapping[str, Any]] | Sequence[Sequence[str]]) -> _Table:
        if isinstance(rows[0], Mapping):
            names = list(rows[0])
            cells = [[row.get(name) for name in names] for row in rows if isinstance(row, Mapping)]
            return cls(path, format_, names, cells)
        header, *rest = [list(row) for row in rows]
        others = [row for row in rest if row != header]
        if _is_header(header, others):
            return cls(path, format_, header, others, len(rest) - len(others))
        return cls(path, format_, range(len(header)), [header, *rest])

    @property
    def has_header(self) -> bool:
        return not (self.keys and isinstance(self.keys[0], int))

    @cached_property
    def raw(self) -> dict[str | int, list[Any]]:
        """The cells of each column, in rows that are whole."""
        whole = [row for row in self.rows if len(row) == len(self.keys)]
        return {key: [row[at] for row in whole] for at, key in enumerate(self.keys)}

    @cached_property
    def cells(self) -> dict[str | int, list[str]]:
        """As text."""
        return {key: [str(cell) for cell in column] for key, column in self.raw.items()}

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
                raise self._absent(key, value)
        return Columns(**columns)

    def _absent(self, key: str, value: str | int | None) -> ConfigError:
        where = f"{self.path}: columns.{key} (--{'words' if key == 'tokens' else key})"
        if self.has_header:
            return ConfigError(f"{where}: {unknown(str(value), [*map(str, self.keys)], in_file=True)}")
        return UnclearError(
            f"{where}: there is no column {value!r}, as the first row names none: use numbers from 0 to "
            f"{len(self.keys) - 1}.",
            self._options(),
        )

    # --- By name

    def _lower(self) -> dict[str, str]:
        """The columns by their names in small letters; of what objects hold, by the last part of a path, too."""
        if not self.has_header:
            return {}
        names = {str(key).strip().lower().rpartition(".")[2]: str(key) for key in reversed(self.keys)}
        return names | {str(key).strip().lower(): str(key) for key in reversed(self.keys)}

    def known(self, key: str, among: Sequence[str | int], taken: Sequence[str | int | None] = ()) -> str | None:
        """The column with a known name for a key."""
        lower = self._lower()
        found = (lower[name] for name in ALIASES[key] if name in lower)
        return next((name for name in found if name in among and name not in taken), None)

    def _plain(self) -> list[str | int]:
        """The columns whose cells are texts or numbers, or lists of one."""
        return [key for key, column in self.raw.items() if not any(map(_is_nested, column))]

    # --- Words and tags

    def of_words(self, given: Columns, task: Columns) -> Columns | None:
        """The columns of words and tags; None where a row is a text."""
        if given.text is not None:
            return None
        is_asked = given.tokens is not None or given.tags is not None
        sequences = self._sequences()
        tags = given.tags if given.tags is not None else self._tags(sequences, task)
        tokens = given.tokens
        if tokens is None and tags in sequences:
            alike = [key for key in sequences if key not in (tags, None) and _fit(sequences[key], sequences[tags])]
            named = self.known("tokens", alike)
            tokens = named if named is not None else alike[0] if len(alike) == 1 else None
        if tokens is not None and tags is not None:
            return Columns(tokens=tokens, tags=tags)
        if is_asked:
            which = ", ".join(quoted(str(key)) for key in self.keys)
            raise UnclearError(f"{self.path}: which columns hold words and tags (--words, --tags)? It has {which}.")
        return None

    def _sequences(self) -> dict[str | int, list[Sequence[Any]]]:
        """The columns whose cells are lists, printed lists, or several words."""
        found = dict[str | int, list[Sequence[Any]]]()
        for key, column in self.raw.items():
            if column and all(isinstance(cell, list) and not _is_nested(cell) for cell in column):
                found[key] = column
            elif column and all(isinstance(cell, str) for cell in column):
                lists = [printed for printed in map(printed_list, column) if printed]
                found[key] = [*(lists if len(lists) == len(column) else (cell.split(" ") for cell in column))]
        return found

    def _tags(self, sequences: Mapping[str | int, list[Sequence[Any]]], task: Columns) -> str | int | None:
        """The column of a tag for each word of another one."""
        likely = list[str | int]()
        spans = list[str | int]()
        for key, lists in sequences.items():
            others = [other for other in sequences if other != key and _fit(sequences[other], lists)]
            counts = Counter(str(tag) for tags in lists for tag in tags)
            if not others or not any(len(tags) > 1 for tags in lists):
                continue
            are_lists = isinstance(self.raw[key][0], list) or printed_list(self.raw[key][0]) is not None
            is_named = key == task.tags or self.known("tags", [key]) is not None
            words = max(len({word for words in sequences[other] for word in words}) for other in others)
            is_tag_set = len(counts) <= _MOST_TAGS and 2 * len(counts) <= words and _vary(lists)
            if TagEvidence.of(counts).are_spans:
                spans.append(key)
            elif is_tag_set or (is_named and (are_lists or len(counts) <= _MOST_TAGS)):
                likely.append(key)
        if task.tags in (*spans, *likely):
            return task.tags
        some = spans or likely
        return some[0] if len(some) == 1 else self.known("tags", some)

    def refuse_a_word_a_row(self) -> None:
        """Raise DataError if a row holds a word and its tag, not a text."""
        cells = self.cells
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

    # --- Texts and labels

    def texts(self, given: Columns, task: Columns) -> Columns:
        """The columns of texts and labels. Raises UnclearError."""
        lower, plain = self._lower(), self._plain()
        is_single = task.text not in (None, "text") and task.pair is None
        text, pair, label = given.text, given.pair, given.label
        if text is None and task.text in plain:
            text = task.text
        if text is None and not is_single:
            text = next((lower[a] for a, b in _PAIRS if lower.get(a) in plain and lower.get(b) in plain), None)
        if text is None:
            text = self.known("text", plain, (label, pair))
        if pair is None and text is not None and not is_single:
            pair = task.pair if task.pair in self.keys and task.pair != text else self._pair_of(text)
        if label is None:
            label = task.label if task.label in self.keys else self.known("label", self.keys, (text, pair))
        if label == "label" and (answers := self._answers(label)) is not None:
            label = answers
        text, pair, label = self._by_content(text, pair, label, wants_pair=task.pair is not None, is_single=is_single)
        return Columns(text=text, pair=None if pair == NO_PAIR else pair, label=label)

    def _pair_of(self, text: str | int) -> str | None:
        """The column whose name makes a pair with that of a text."""
        lower, text_name = self._lower(), str(text).strip().lower()
        others = [b for a, b in _PAIRS if a == text_name] + [a for a, b in _PAIRS if b == text_name]
        return next((lower[name] for name in others if name in lower), None)

    def _answers(self, label: str) -> str | None:
        """The column of answers of Prodigy's, where each is about the same label: they are its classes."""
        is_one = "answer" in self.raw and len({*self.cells[label]}) == 1
        return "answer" if is_one and {*self.cells["answer"]} <= {"accept", "reject", "ignore"} else None

    def _labels(self, taken: Sequence[object]) -> list[str | int]:
        most = max(2.0, _MOST_CLASSES * len(next(iter(self.cells.values()), ())))

        def few(column: Sequence[str]) -> bool:
            return column.count("") <= _MOST_CLASSES * len(column)  # of texts without a label

        candidates = [
            key
            for key, column in ((key, self.cells[key]) for key in self._plain())
            if key not in taken and 2 <= len(set(column)) <= most and max(map(len, column)) <= 60 and few(column)
        ]
        ids = [key for key in candidates if _are_class_ids(self.cells[key])]
        return ids if len(ids) == 1 and not self.has_header else candidates

    def _by_content(
        self, text: str | int | None, pair: str | int | None, label: str | int | None, *, wants_pair: bool,
        is_single: bool,
    ) -> tuple[str | int, str | int | None, str | int]:  # fmt: skip
        """What is known by name, and the rest by content: the text is the column with the longest cells, the label the
        one with few distinct short values.
        """
        if text is not None and label is not None and (pair is not None or not wants_pair):
            return text, pair, label
        most = text if text is not None else self._longest((pair, label))
        others = [
            key
            for key in self._plain()
            if key not in (pair, label, most) and most is not None and _is_text(self.cells[key], self.cells[most])
        ]
        labels = [label] if label is not None else self._labels((most, pair, *others))
        asks_pair = pair is None and not is_single and bool(others) and (wants_pair or text is None)
        if most is not None and len(labels) == 1 and not asks_pair and (pair is not None or not wants_pair):
            return most, pair, labels[0]
        self.refuse_what_is_no_class(Columns())
        raise self._unclear(most, others if asks_pair or wants_pair else [], labels, wants_pair=wants_pair)

    def _longest(self, taken: Sequence[object]) -> str | int | None:
        free = [key for key in self._plain() if key not in taken]
        return max(free, key=lambda key: sum(map(len, self.cells[key])), default=None)

    def _unclear(
        self, text: str | int | None, others: Sequence[str | int], labels: Sequence[str | int], *, wants_pair: bool
    ) -> UnclearError:
        seen = []
        if wants_pair:
            seen.append("which column is the second text of each pair (--pair COLUMN)")
        elif others:
            seen.append(f"several look like texts: {', '.join(map(str, [text, *others]))}")
        if len(labels) != 1:
            listed = ", ".join(map(str, labels))
            seen.append(f"several could be labels: {listed}" if labels else "no column looks like a label")
        said = "; ".join(seen)
        shown = "; ".join(beginning(", ".join(quoted(str(cell)) for cell in row)) for row in self.rows[:2])
        names = f"columns {', '.join(quoted(str(key)) for key in self.keys)}" if self.has_header else "no header line"
        return UnclearError(
            f"{self.path}: which columns hold the text and its label? {said[:1].upper()}{said[1:]}. It has {names}; "
            f"its first rows: {shown}.",
            self._options(text, others, labels, single=not wants_pair),
        )

    def _options(
        self, text: str | int | None = None, others: Sequence[str | int] = (), labels: Sequence[str | int] = (), *,
        single: bool = True,
    ) -> Iterator[dict[str, object]]:  # fmt: skip
        """Columns that may be meant, and that read the file: it has several labels then, which come again."""
        text = self._longest(()) if text is None else text
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
            values = [*map(_parsed, self.raw.get(key, ())[:1000])]
            if columns.label is None:  # what an object holds is a column, too
                values = [value for value in values if not isinstance(value, dict)]
            where = f"{self.path}: the labels in {key!r}"
            if any(map(_is_nested, values)):
                example = beginning(str(next(filter(_is_nested, values))))
                raise DataError(
                    f"{where} are spans or nested objects ({example}), as doccano, Prodigy and Label Studio write "
                    "them, and no classes. Export them as CoNLL 2003, or write a word and its tag a line."
                )
            several = [
                value for value in values if isinstance(value, list) and len(value) > 1 and columns.label is not None
            ]
            parts, singles = [*map(_split, values)], {*map(str, values)}
            joined = [each for each in parts if len(each) > 1]
            if several or (joined and 2 * sum({*each} <= singles for each in joined) >= len(joined)):
                raise DataError(
                    f"{where} are several a text ({beginning(str((several or joined)[0]))}), and a text has one class "
                    "here. Keep one label a row, or write a column for each label and give one of them."
                )
        texts = self.cells.get(columns.text, []) if columns.text is not None else []
        if texts and all(map(_file_name.fullmatch, texts)):
            raise DataError(
                f"{self.path}: the texts in {columns.text!r} are names of files ({quoted(texts[0])}). Write what the "
                "files hold into the column, or put them into a folder for each class."
            )


def _split(label: Any) -> list[str]:
    """The labels that separators join in a cell."""
    return re.split(r"\s*[,;|]\s*", str(label)) if isinstance(label, str) else []


def _parsed(value: Any) -> Any:
    """What JSON in a cell holds."""
    with suppress(ValueError, RecursionError):
        if isinstance(value, str) and value[:1] in ("[", "{"):
            return json.loads(value)
    return value


def _is_nested(value: Any) -> bool:
    """Whether a label is an object, or a list of objects or lists."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, list | dict) for v in value))


def _fit(words: Sequence[Sequence[Any]], tags: Sequence[Sequence[Any]]) -> bool:
    """Whether two columns have as many parts in nearly each row."""
    n = sum(len(a) == len(b) for a, b in zip(words, tags, strict=True))
    return n >= _NEARLY * len(tags)


def _vary(lists: Sequence[Sequence[Any]]) -> bool:
    """Whether the numbers of parts differ."""
    return len({*map(len, lists)}) > 1


def _are_class_ids(column: Sequence[str]) -> bool:
    """Whether the values are the numbers of classes, from 0 or 1 on."""
    values = {*column}
    return values in ({*map(str, range(start, start + len(values)))} for start in (0, 1))


def _is_text(column: Sequence[str], longest: Sequence[str]) -> bool:
    """Whether cells look like texts, beside the column with the longest ones."""
    n_words, most_words = (sum(len(cell.split()) for cell in cells) for cells in (column, longest))
    return n_words >= 2 * len(column) and 3 * n_words >= most_words and 2 * len({*column}) > len(column)


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether a first row names the columns: by a known name, by words above numbers, or above classes or tags that
    lack it.
    """
    for at, cell in enumerate(first):
        below = [row[at] for row in rest if len(row) > at]
        if cell.strip().lower() in KNOWN_NAMES and cell not in below:
            return True
        if below and all(map(is_number, below)) and not is_number(cell):
            return True
        if below and printed_list(cell) is None and all(printed_list(each) is not None for each in below):
            return True
        if _are_tags(below) and {*cell.split(" ")}.isdisjoint(tag for tags in below for tag in tags.split(" ")):
            return True
        if (
            2 <= len(set(below)) <= _MOST_CLASSES * len(below)
            and cell not in below
            and all(len(c) <= 60 for c in first)
        ):
            return True
    return False


def _are_tags(cells: Sequence[str]) -> bool:
    """Whether cells hold tags of spans, several each."""
    counts = Counter(tag for cell in cells for tag in cell.split(" "))
    return len(counts) <= _MOST_TAGS and counts.total() >= 2 * len(cells) > 0 and TagEvidence.of(counts).are_spans
