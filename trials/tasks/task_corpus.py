"""The corpus of a task as read: validated, in one tag scheme, with at least two labels; and what is odd about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from trials.corpora.broken_lines import BrokenLines, BrokenLinesError
from trials.corpora.cell_evidence import OUTSIDE, TagEvidence
from trials.corpora.corpus import (
    CORPUS_FORMATS,
    SPLITS,
    Corpus,
    Item,
    Sentence,
    document_indices,
    fingerprint,
    item_words,
    labels_of,
    load_corpus,
)
from trials.corpora.documents import DOCUMENT
from trials.corpora.labels import clean_labels
from trials.corpora.table_rows import TABLES, column_cells, first_rows, printed_list
from trials.corpora.text_file import read_lines
from trials.errors import DataError, quote
from trials.spec import DataSpec, Files
from trials.tasks.task import TASKS, Task, unseen_labels

_MOSTLY = 0.5  # share of items or words that counts as most of them
_FEW = 20  # items, of which nothing is said
_LONG = 1_000  # words of a sentence that surely has lost its blank lines


def read_corpus(task_name: str, data: DataSpec) -> Corpus:
    """The items of every split, cached in the process.

    Raises:
        DataError: what `load_corpus` and the task's `read` raise, or a train split with only one label.
    """
    return _read(task_name, _without_counts(data))[0]


def reading_notes(task_name: str, data: DataSpec) -> list[str]:
    """What to know about how a corpus is read: its files, the scheme of its tags, words and sentences that are odd."""
    return [*data.notes, *_read(task_name, _without_counts(data))[1]]


def counted_corpus(task_name: str, data: DataSpec) -> DataSpec:
    """The corpus with `sizes` and `documents`. Raises as `read_corpus`."""
    corpus = read_corpus(task_name, data)
    splits = corpus.train, corpus.dev, corpus.test
    counts = tuple(len(set(document_indices(items) or ())) for items in splits)
    return data.model_copy(update={"sizes": tuple(map(len, splits)), "documents": counts})


def _without_counts(data: DataSpec) -> DataSpec:
    """The data spec without the values that do not change what is read, as a key of the cache."""
    return data.model_copy(update={"sizes": None, "documents": None, "notes": ()})


@lru_cache(maxsize=8)
def _read(task_name: str, data: DataSpec) -> tuple[Corpus, tuple[str, ...]]:
    task, changed = TASKS[task_name], list[str]()

    def prepare(corpus: Corpus) -> Corpus:
        clean = clean_labels(corpus, data.name, regression=task.regression, label_none=data.label_none)
        changed.extend(clean.notes)
        _refuse_what_cannot_be_scored(task, data.name, clean.corpus)
        return clean.corpus

    raw = load_corpus(data, prepare)
    splits, notes, broken = list[list[Item]](), dict[str, list[str]](), BrokenLines()
    for name in SPLITS:
        items: list[Item] = getattr(raw, name)
        try:
            splits.append(task.read(items, data.scheme))
            for note in (*task.notes(items, data.scheme), *_odd(task, data, items)):
                notes.setdefault(note, []).append(name)
        except BrokenLinesError as error:
            broken.add(BrokenLinesError([f"{data.name}, {name} split: {line}" for line in error.lines], error.n))
        except DataError as error:
            raise DataError(f"{data.name}, {name} split: {error}") from error
    broken.raise_if_any()
    labels = task.label_names(splits[0])
    if len(labels) < 2 and not task.regression:
        only = quote(labels[0])
        raise DataError(f"{data.name}: its train split has one label only, {only}; there is nothing to learn.")
    return Corpus(*splits), (*changed, *(f"{', '.join(names)}: {note}" for note, names in notes.items()))


def _refuse_what_cannot_be_scored(task: Task, name: str, corpus: Corpus) -> None:
    """Raise DataError where nearly each text has a label of its own, or dev has no label of train, or one alone."""
    labels, found = ({label for item in items for label in labels_of(item)} for items in (corpus.train, corpus.dev))
    n = len(corpus.train)
    if task.regression:
        return
    if task.head == "text" and n >= _FEW and len(labels) > _MOSTLY * n:
        raise DataError(
            f"{name}: {len(labels):,} different labels for {n:,} texts are no classes (the first: "
            f"{quote(min(labels))}). Give the column of the classes (--label)."
        )
    way_out = "Give another file (`dev`, --dev FILE), or let a share of train serve as dev: --held-out 0.1."
    if found and found.isdisjoint(labels):
        some = ", ".join(quote(label) for label in [*sorted(found)[:2], *sorted(labels)[:2]])
        raise DataError(
            f"{name}: dev shares no label with train ({some}, ...): its columns are in another order, or it is of "
            f"another corpus. {way_out}"
        )
    if len(found) == 1 < len(labels) and len(corpus.dev) >= _FEW:
        raise DataError(f"{name}: dev has one label only, {quote(*found)}, so its score says nothing. {way_out}")


def _odd(task: Task, data: DataSpec, items: Sequence[Item]) -> Iterator[str]:
    """Signs that the items are not what the user meant."""
    sentences = [item for item in items if isinstance(item, Sentence)]
    if not sentences:
        short = sum(len(item_words(item)) == 1 for item in items)
        if short > _MOSTLY * len(items) and len(items) >= _FEW:
            yield f"{short:,} of {len(items):,} texts have no space: single words, or a script that writes none."
        if items and task.columns.pair is not None and data.columns.pair is None:
            yield "only one text of each pair is read; name the other one with `columns: {pair: ...}` (--pair)."
        return
    word_counts = Counter(form for sentence in sentences for form in sentence.forms)
    total, (most, n) = word_counts.total(), word_counts.most_common(1)[0]
    if n > _MOSTLY * total and total >= 20:  # in fewer words, one may well be most of them
        yield f"{100 * n / total:.0f} % of the words are {quote(most)}; is it the column of the words (--words)?"
    tags = Counter(tag for sentence in sentences for tag in sentence.tags)
    if "spans" not in task.outputs and TagEvidence.from_counts(tags).are_spans:
        yield "the tags look like those of spans; with `task: ner` (--task ner) whole spans are scored."
    if "spans" in task.outputs and set(tags) == {OUTSIDE}:
        yield f"all {total:,} words have the tag {OUTSIDE}, so there is no span to find."
    longest = max(len(sentence.forms) for sentence in sentences)
    breaks = "there are no blank lines between sentences" if len(sentences) == 1 else "blank lines are missing"
    if longest >= _LONG or (len(sentences) == 1 and total >= 100):
        lengths = f"1 sentence of {total:,} words" if len(sentences) == 1 else f"a sentence has {longest:,} words"
        yield f"{lengths}: {breaks}; `max_length` cuts off all but the first words of it."


def drop_unlabelled(task_name: str, data: DataSpec) -> DataSpec:
    """A corpus without its splits that have no labels, with a note on each.

    Raises:
        DataError: dev has none, or a file cannot be read.
    """
    hidden = {split: reason for split in ("dev", "test", "mismatched") if (reason := _why_unlabelled(data, split))}
    if "dev" in hidden:
        raise DataError(
            f"{data.dev[0]}: the dev split has no labels: {hidden['dev']}. Give another one (`dev`, --dev FILE), or "
            "let a share of train serve as dev: `held_out: 0.1`."
        )
    if not hidden:
        return data
    usable = {split: () if split in hidden else getattr(data, split) for split in SPLITS}
    notes = [
        f"{split} is left out, as it has no labels: {reason} ({Path(getattr(data, split)[0]).name})"
        for split, reason in hidden.items()
    ]
    changes = {**usable, "fingerprint": fingerprint(**usable), "notes": (*data.notes, *notes)}
    return data.model_copy(update=changes)


_NO_LABEL = ("-1", "-1.0", "None", "_", "-", "?", "*", "-X-", "")
_BY_CHANCE = 1e-6  # that all labels are alike, drawn like those of train


def _labels(data: DataSpec, paths: Files) -> list[str] | None:
    """The labels of some files as they stand; None where one lacks their column. Raises DataError."""
    if data.format == "columns":
        items = [item for path in paths for item in CORPUS_FORMATS[data.format](Path(path), data.columns, None)]
        return [label for item in items for label in labels_of(item)]
    if data.format == "conllu":
        position = {"upos": 3, "xpos": 4}.get(str(data.columns.tags or "upos"), -1)
        rows = [line.split("\t") for path in paths for line in read_lines(Path(path))]
        return [row[position] for row in rows if row[0].isdigit() and len(row) > position]
    column = data.columns.label if data.columns.label is not None else data.columns.tags
    assert column is not None
    found = [column_cells(first_rows(Path(path), data.format), column) for path in paths]
    cells = [cell for cells in found for cell in cells or ()]
    lists = [
        tags for cell in cells if (tags := cell if isinstance(cell, list) else printed_list(str(cell))) is not None
    ]
    inside = [str(tag) for tags in lists for tag in tags] or ([""] if lists else [])
    return None if None in found else inside if len(lists) == len(cells) else [str(cell).strip() for cell in cells]


def _why_unlabelled(data: DataSpec, split: str) -> str | None:
    """Why a split has no labels; None if it has some, or is broken in another way."""
    paths: Files = getattr(data, split)
    label = data.columns.label if data.columns.label is not None else data.columns.tags
    if not paths or (data.format in TABLES and label is None):
        return None
    try:
        if data.format == "columns" and all(map(_is_of_words_alone, paths)):
            return "each line has one column"
        labels = _labels(data, paths)
        if labels is None:
            return f"there is no column {label!r}"
        if len({*labels}) != 1:
            return None
        train, only = _labels(data, data.train) or [], labels[0]
    except DataError:
        return None  # the reader names its lines
    # Hidden test labels may be a real class throughout: so many alike would hardly be drawn at their share in train.
    share = train.count(only) / (len(train) or 1)
    is_none = share == 0 and (only in _NO_LABEL or (split != "dev" and len(labels) >= _FEW))
    if is_none or (split != "dev" and 0 < share < 1 and share ** len(labels) < _BY_CHANCE):
        return "every label is empty" if only in ("", "None") else f"every label is {only}"
    return None


def _is_of_words_alone(path: str) -> bool:
    """Whether each line of a column file is one word, apart from comments and starts of documents."""
    words = [line for line in read_lines(Path(path)) if line.strip() and line[0] != "#" and DOCUMENT not in line]
    return bool(words) and all(len(line.split()) == 1 for line in words)


def unseen_notes(task_name: str, data: DataSpec) -> list[str]:
    """A message for each split other than train with labels that do not occur in train."""
    task, corpus = TASKS[task_name], read_corpus(task_name, data)
    if task.regression:
        return []
    labels, notes = task.label_names(corpus.train), []
    for split in SPLITS[1:]:
        unseen = unseen_labels(getattr(corpus, split), labels)
        if unseen:
            names = ", ".join(f"{label} ({n})" for label, n in unseen.items())
            notes.append(f"{data.name}: {split} has labels that train lacks, each counted as an error: {names}.")
    return notes
