"""The interface of a task and its values. Numpy only, so that a plan can be checked without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trials.corpora.corpus import Item, Text, labels_of
from trials.metrics.label_table import TagScore
from trials.metrics.metric import METRICS, NO_CLASS, Output, PredictedSplit, metrics_for
from trials.models.family import Head
from trials.plugins.registry import NOT_LOADED, Registry
from trials.spec import Columns, Scheme

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
    """

    head: Head
    regression: bool
    score: str
    columns: Columns
    outputs: frozenset[Output]
    positive: tuple[str, ...] = ()
    reads_any: Output | None = None

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
        """What metrics take: (places,) gold and predicted, (examples,) starts, and the id of the positive class."""
        positive = next((i for i, name in enumerate(names) if name in self.positive), NO_CLASS)
        return PredictedSplit(gold, predicted, starts, names, positive)

    def measure(
        self, gold: np.ndarray, predicted: np.ndarray, starts: np.ndarray, names: tuple[str, ...]
    ) -> dict[str, float]:
        """The value of each of `metrics`, by name; arguments as of `predicted_split`, (places,) and (examples,)."""
        split = self.predicted_split(gold, predicted, starts, names)
        return {metric.name: metric.function(split) for metric in metrics_for(self.outputs, self.score)}


TASKS: Registry[Task] = Registry("task")


def score_name(task: str, score: str | None) -> str:
    """The metric that selects a trial's best epoch: the spec's own, or else the task's."""
    registered = TASKS.get(task)
    return score or (f"score of {task} ({NOT_LOADED})" if registered is None else registered.metrics[0])


def head_of(task: str) -> Head | None:
    """Whether each word of a task has a label, or each text; None if its plug-in is not loaded."""
    registered = TASKS.get(task)
    return None if registered is None else registered.head


def task_that_reads(output: Output) -> str:
    """The name of the task that reads any corpus of this kind."""
    return next(name for name, task in TASKS.items() if task.reads_any == output)


def unit_of(task: str) -> str:
    """What the items of a task's corpora are called."""
    return {"text": "texts", "tokens": "sentences"}.get(head_of(task) or "", "items")


def as_score(task_name: str, score: str | None, measured: Mapping[str, float]) -> float:
    """The score among measured metrics: the named one or the task's own, negated if lower is better."""
    name = score_name(task_name, score)
    return METRICS[name].as_score(measured[name])


def unseen_labels(items: Sequence[Item], labels: tuple[str, ...]) -> dict[str, int]:
    """How often each label that does not occur in train occurs, the most frequent first."""
    train_labels = set(labels)
    return dict(Counter(name for item in items for name in labels_of(item) if name not in train_labels).most_common())


def words_of(item: Item) -> tuple[str, ...]:
    """The words of a sentence, or the text itself and, in a pair, the second text."""
    if isinstance(item, Text):
        return (item.text,) if item.pair is None else (item.text, item.pair)
    return item.forms


def sorted_labels(items: Sequence[Item]) -> tuple[str, ...]:
    """Every label that occurs, in alphabetical order."""
    return tuple(sorted({label for item in items for label in labels_of(item)}))
