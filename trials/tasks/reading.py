"""Read a corpus for a task: validated, in one tag scheme, with at least two labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from trials.datasets.broken_lines import BrokenLines, BrokenLinesError
from trials.datasets.column_evidence import TagEvidence
from trials.datasets.corpus import SPLITS, Corpus, Item, Sentence, fingerprint, item_words, load_corpus
from trials.datasets.documents import DOCUMENT, document_indices
from trials.datasets.schemes import OUTSIDE
from trials.datasets.table_reader import label_cells
from trials.datasets.text_file import read_lines
from trials.errors import DataError
from trials.escaping.untrusted_text import quoted
from trials.settings import DataSpec, Files
from trials.tasks.task import TASKS, Task, unseen_labels

UNLABELLED = "-1"  # the hub's and GLUE's label of a split whose labels are not published
_MOSTLY = 0.5  # of all words
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
    """Without what does not change the corpus, as a key of the cache."""
    return data.model_copy(update={"sizes": None, "documents": None, "notes": ()})


@lru_cache(maxsize=8)
def _read(task_name: str, data: DataSpec) -> tuple[Corpus, tuple[str, ...]]:
    task, raw = TASKS[task_name], load_corpus(data)
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
        only = quoted(labels[0])
        raise DataError(f"{data.name}: its train split has one label only, {only}; there is nothing to learn.")
    return Corpus(*splits), tuple(f"{', '.join(names)}: {note}" for note, names in notes.items())


def _odd(task: Task, data: DataSpec, items: Sequence[Item]) -> Iterator[str]:
    """What makes it likely that items are not what was meant."""
    sentences = [item for item in items if isinstance(item, Sentence)]
    if not sentences:
        short = sum(len(item_words(item)) == 1 for item in items)
        if short > _MOSTLY * len(items) and len(items) >= 20:
            yield f"{short:,} of {len(items):,} texts are single words; words with tags are --format columns."
        if items and task.columns.pair is not None and data.columns.pair is None:
            yield "only one text of each pair is read; name the other one with `columns: {pair: ...}` (--pair)."
        return
    words = Counter(form for sentence in sentences for form in sentence.forms)
    total, (most, n) = words.total(), words.most_common(1)[0]
    if n > _MOSTLY * total and total >= 20:
        yield f"{100 * n / total:.0f} % of the words are {quoted(most)}; is it the column of the words (--words)?"
    tags = Counter(tag for sentence in sentences for tag in sentence.tags)
    if task.score != "span_f1" and TagEvidence.of(tags).are_spans:
        yield "the tags look like those of spans; with `task: ner` (--task ner) whole spans are scored."
    if task.score == "span_f1" and set(tags) == {OUTSIDE}:
        yield f"all {total:,} words have the tag {OUTSIDE}, so there is no span to find."
    longest = max(len(sentence.forms) for sentence in sentences)
    breaks = "there are no blank lines between sentences" if len(sentences) == 1 else "blank lines are missing"
    if longest >= _LONG or (len(sentences) == 1 and total >= 100):
        lengths = f"1 sentence of {total:,} words" if len(sentences) == 1 else f"a sentence has {longest:,} words"
        yield f"{lengths}: {breaks}; `max_length` cuts off all but the first words of it."


def labelled(task_name: str, data: DataSpec) -> DataSpec:
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
    left = {split: () if split in hidden else getattr(data, split) for split in SPLITS}
    notes = [
        f"{split} is left out, as it has no labels: {reason} ({Path(getattr(data, split)[0]).name})"
        for split, reason in hidden.items()
    ]
    changes = {**left, "fingerprint": fingerprint(**left), "notes": (*data.notes, *notes)}
    return data.model_copy(update=changes)


def _why_unlabelled(data: DataSpec, split: str) -> str | None:
    """Why a split has no labels; None if it has some, or is broken in another way."""
    paths: Files = getattr(data, split)
    label = data.columns.label
    if not paths or (data.format != "columns" and label is None):
        return None
    try:
        if data.format == "columns":
            lines = [line for path in paths for line in read_lines(Path(path)) if line.strip() and DOCUMENT not in line]
            return "each line has one column" if lines and all(len(line.split()) == 1 for line in lines) else None
        rows = [row for path in paths for row in label_cells(Path(path), data.format, label, data.columns)]
        if rows == [None]:
            return f"there is no column {label!r}"
        kinds = {str(row).strip() for row in rows}
        if not rows or len(kinds) > 1 or kinds.isdisjoint({UNLABELLED, f"{UNLABELLED}.0", "", "None"}):
            return None
        known = (cell for path in data.train for cell in label_cells(Path(path), data.format, label, data.columns))
        if kinds & {str(cell).strip() for cell in known}:
            return None
    except DataError:
        return None  # the reader names its lines
    return f"every label is {next(iter(kinds))}" if kinds.isdisjoint({"", "None"}) else "every label is empty"


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
