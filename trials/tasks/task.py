"""The interface of a task, its values, and its corpus as read: validated, in one tag scheme, with at least two labels.

Numpy only, so that a plan can be checked without torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trials.datasets.broken_lines import BrokenLines, BrokenLinesError
from trials.datasets.cell_evidence import OUTSIDE, TagEvidence
from trials.datasets.corpus import (
    CORPUS_FORMATS,
    SPLITS,
    Corpus,
    Item,
    Sentence,
    Text,
    document_indices,
    fingerprint,
    item_words,
    labels_of,
    load_corpus,
)
from trials.datasets.documents import DOCUMENT
from trials.datasets.labels import cleaned
from trials.datasets.table_rows import TABLES, column_cells, first_rows, printed_list
from trials.datasets.text_file import read_lines
from trials.errors import DataError, quoted
from trials.metrics.label_table import TagScore
from trials.metrics.metric import METRICS, NO_CLASS, Output, PredictedSplit, metrics_for
from trials.models.family import Head
from trials.plugins.registry import NOT_LOADED, Registry
from trials.spec import Columns, DataSpec, Files, Scheme

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

IGNORE = -100  # cross_entropy's own default for "not a label"
NO_PREDICTION = -1  # for a word without any subword in the input


@dataclass(frozen=True, slots=True)
class Example:
    """One sentence or text as the model's input. Its "places" are its words, or the one label of a text.

    Attributes:
        ids: (subwords,) input ids, specials included.
        labels: (subwords,) label of a word at its first subword, IGNORE elsewhere; of a text (1,), a number if the
            task is a regression.
        gold: (places,) label of every place, those cut off and those with a tag that train lacks included.
        at: (places,) index of the subword whose prediction counts for a place; -1 if it was cut off.
        types: (subwords,) which text of a pair a subword belongs to; None if the model does not use it.
        states: (subwords, width) tensor of the input of the first trained layer; None if it is not cached.
        cut: Words that `max_length` cut off; of a text 1 if its end was.
    """

    ids: np.ndarray
    labels: np.ndarray
    gold: np.ndarray
    at: np.ndarray
    types: np.ndarray | None = None
    states: torch.Tensor | None = None
    cut: int = 0


@dataclass(frozen=True)
class Split:
    """An encoded split.

    Attributes:
        gold: (places,) labels of all examples, concatenated.
        starts: (examples,) index of each example's first place.
        documents: (examples,) the document of each, from 0; None where the corpus knows none.
    """

    examples: list[Example]
    documents: np.ndarray | None = None
    gold: np.ndarray = field(init=False)
    starts: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        lengths = [len(example.gold) for example in self.examples]
        gold = np.concatenate([example.gold for example in self.examples]) if self.examples else np.empty(0)
        object.__setattr__(self, "gold", gold)
        object.__setattr__(self, "starts", np.cumsum([0, *lengths[:-1]]) if lengths else np.empty(0, np.int64))


class Encoding(NamedTuple):
    """How items become examples.

    Attributes:
        max_length: Longest input in subwords.
        token_types: Whether the model tells the texts of a pair apart by token types.
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    lowercase: bool
    token_types: bool


class Task(ABC):
    """A task. It measures every registered metric of its outputs.

    Attributes:
        head: Whether each word has a label, or each text.
        regression: Whether the label is a number rather than a class.
        score: The metric that selects the best epoch.
        columns: The default columns of its tables.
        outputs: What it predicts.
        positive: Names that its positive class may have.
        reads_any: What every corpus of which it reads, where it is the task of no corpus in particular.
        scored_unit: What `n_scored` counts.
    """

    head: Head
    regression: bool
    score: str
    columns: Columns
    outputs: frozenset[Output]
    positive: tuple[str, ...] = ()
    reads_any: Output | None = None
    scored_unit: str = "words"

    @abstractmethod
    def read(self, items: Sequence[Item], scheme: Scheme) -> list[Item]:
        """The items of one split, validated and with tags in one scheme. Raises DataError."""

    def notes(self, items: Sequence[Item], scheme: Scheme) -> list[str]:
        """What to know about how the items of one split are read; a sentence each. Raises as `read`."""
        del items, scheme
        return []

    @abstractmethod
    def label_names(self, train: Sequence[Item]) -> tuple[str, ...]:
        """The sorted labels of the whole train split, not of the subset, so that all train sizes share them."""

    @abstractmethod
    def encode(self, items: Sequence[Item], names: tuple[str, ...], n_labels: int, how: Encoding) -> list[Example]:
        """The items as examples, in the same order; `names` are the labels and then those that train lacks."""

    @abstractmethod
    def table(self, split: PredictedSplit) -> tuple[TagScore, ...]:
        """Support, precision, recall and F1 of every label; empty for a regression."""

    def n_scored(self, items: Sequence[Item]) -> int:
        """How many labels of items the score rests on."""
        return sum(len(labels_of(item)) for item in items)

    @property
    def levels(self) -> tuple[str, ...]:
        """What `table` counts, the level that pages show first at the beginning: spans, words, or classes of texts."""
        if self.head == "text":
            return ("class",)
        return ("span", "token") if "spans" in self.outputs else ("token",)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics it measures, the one that selects the best epoch first."""
        others = (metric.name for metric in metrics_for(self.outputs, self.score))
        return (self.score, *(name for name in others if name != self.score))

    def predicted_split(
        self, gold: np.ndarray, predicted: np.ndarray, starts: np.ndarray, names: tuple[str, ...]
    ) -> PredictedSplit:
        """The arguments as what metrics take, with the id of the task's positive class."""
        positive = next((i for i, name in enumerate(names) if name in self.positive), NO_CLASS)
        return PredictedSplit(gold, predicted, starts, names, positive)

    def measure(
        self, gold: np.ndarray, predicted: np.ndarray, starts: np.ndarray, names: tuple[str, ...]
    ) -> dict[str, float]:
        """The value of each of `metrics`; the arguments are the attributes of `PredictedSplit`."""
        split = self.predicted_split(gold, predicted, starts, names)
        return {metric.name: metric.function(split) for metric in metrics_for(self.outputs, self.score)}


TASKS: Registry[Task] = Registry("task")


def score_name(task: str, score: str | None) -> str:
    """The metric that selects a trial's best epoch: its own, or that of its task."""
    registered = TASKS.get(task)
    return score or (f"score of {task} ({NOT_LOADED})" if registered is None else registered.metrics[0])


def head_of(task: str) -> Head | None:
    """Whether each word of a task has a label, or each text; None if its plug-in is not loaded."""
    registered = TASKS.get(task)
    return None if registered is None else registered.head


def task_that_reads(output: Output) -> str:
    """The name of the task that reads any corpus of this kind."""
    return next(name for name, task in TASKS.items() if task.reads_any == output)


def unit_of(task: Task) -> str:
    """What the items of its corpora are called."""
    return "texts" if task.head == "text" else "sentences"


def as_score(task_name: str, score: str | None, measured: Mapping[str, float]) -> float:
    """The score among measured metrics: the named one or the task's own, negated if lower is better."""
    name = score_name(task_name, score)
    return METRICS[name].as_score(measured[name])


def unseen_labels(items: Sequence[Item], labels: tuple[str, ...]) -> dict[str, int]:
    """How often each label that does not occur in train occurs, the most frequent first."""
    train_labels = set(labels)
    return dict(Counter(name for item in items for name in labels_of(item) if name not in train_labels).most_common())


def words_of(item: Item) -> tuple[str, ...]:
    """The words of a sentence; of a text the text itself, and the second one of a pair."""
    if isinstance(item, Text):
        return (item.text,) if item.pair is None else (item.text, item.pair)
    return item.forms


def sorted_labels(items: Sequence[Item]) -> tuple[str, ...]:
    """Every label that occurs, in alphabetical order."""
    return tuple(sorted({label for item in items for label in labels_of(item)}))


UNLABELLED = "-1"  # the hub's and GLUE's label of a split whose labels are not published
_MOSTLY = 0.5  # of all words
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
    """Without what does not change the corpus, as a key of the cache."""
    return data.model_copy(update={"sizes": None, "documents": None, "notes": ()})


@lru_cache(maxsize=8)
def _read(task_name: str, data: DataSpec) -> tuple[Corpus, tuple[str, ...]]:
    task, changed = TASKS[task_name], list[str]()

    def prepare(corpus: Corpus) -> Corpus:
        clean = cleaned(corpus, data.name, regression=task.regression, label_none=data.label_none)
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
        only = quoted(labels[0])
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
            f"{quoted(min(labels))}). Give the column of the classes (--label)."
        )
    way_out = "Give another file (`dev`, --dev FILE), or let a share of train serve as dev: --held-out 0.1."
    if found and found.isdisjoint(labels):
        some = ", ".join(quoted(label) for label in [*sorted(found)[:2], *sorted(labels)[:2]])
        raise DataError(
            f"{name}: dev shares no label with train ({some}, ...): its columns are in another order, or it is of "
            f"another corpus. {way_out}"
        )
    if len(found) == 1 < len(labels) and len(corpus.dev) >= _FEW:
        raise DataError(f"{name}: dev has one label only, {quoted(*found)}, so its score says nothing. {way_out}")


def _odd(task: Task, data: DataSpec, items: Sequence[Item]) -> Iterator[str]:
    """What makes it likely that items are not what was meant."""
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
    if n > _MOSTLY * total and total >= 20:
        yield f"{100 * n / total:.0f} % of the words are {quoted(most)}; is it the column of the words (--words)?"
    tags = Counter(tag for sentence in sentences for tag in sentence.tags)
    if "spans" not in task.outputs and TagEvidence.of(tags).are_spans:
        yield "the tags look like those of spans; with `task: ner` (--task ner) whole spans are scored."
    if "spans" in task.outputs and set(tags) == {OUTSIDE}:
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


_NO_TAGS = ("_", "-", "?", "*", "-X-", "")
_BY_CHANCE = 1e-6  # that all labels of texts are alike, drawn like those of train


def _labels(data: DataSpec, paths: Files) -> list[str] | None:
    """The labels of some files as they stand; None where one lacks their column. Raises DataError."""
    if data.format == "columns":
        items = [item for path in paths for item in CORPUS_FORMATS[data.format](Path(path), data.columns, None)]
        return [label for item in items for label in labels_of(item)]
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
    if not paths or (data.format != "columns" and (label is None or data.format not in TABLES)):
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
    share = train.count(only) / (len(train) or 1)
    is_none = share == 0 and only in (UNLABELLED, f"{UNLABELLED}.0", "None", *_NO_TAGS)
    is_text = data.columns.label is not None
    if is_none or (is_text and split != "dev" and 0 < share < 1 and share ** len(labels) < _BY_CHANCE):
        return "every label is empty" if only in ("", "None") else f"every label is {only}"
    return None


def _is_of_words_alone(path: str) -> bool:
    """Whether each line of a column file is one word, apart from comments and starts of documents."""
    lines = [line for line in read_lines(Path(path)) if line.strip() and DOCUMENT not in line]
    words = [line for line in lines if not line.startswith("# ")]
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
