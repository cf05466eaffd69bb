"""Classification and regression of texts or pairs of texts: GLUE's nine tasks (Wang et al. 2019) and any other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from trials.corpora.broken_lines import convert_all
from trials.corpora.corpus import Item, Text
from trials.errors import DataError, quote
from trials.metrics.label_table import TagScore, tag_table
from trials.metrics.metric import Output, PredictedSplit
from trials.models.family import Head
from trials.spec import Columns, Scheme
from trials.tasks.task import IGNORE, TASKS, Encoding, Example, Task, sorted_labels

SENTENCE = Columns(text="sentence", label="label")


@dataclass(frozen=True)
class TextClassification(Task):
    """A class, or a number, for each text or pair of texts.

    Attributes:
        columns: Names of a table's columns, as GLUE calls them.
    """

    score: str = "accuracy"
    columns: Columns = SENTENCE
    outputs: frozenset[Output] = frozenset({"classes"})
    positive: tuple[str, ...] = ()
    regression: bool = False
    head: Head = "text"
    reads_any: Output | None = None

    def read(self, items: Sequence[Item], scheme: Scheme) -> list[Item]:
        """The texts with validated labels. Raises DataError."""
        texts = [item for item in items if isinstance(item, Text)]
        if len(texts) < len(items):
            raise DataError(
                "the task classifies texts, but this corpus has tagged words. Use a task like `pos` or `ner`, or give "
                "`columns: {text: ..., label: ...}`."
            )
        check = partial(_check_label, regression=self.regression)
        if self.regression:
            convert_all(check, texts)
        else:  # what is wrong is the task or the column, so one error says it
            for text in texts:
                check(text)
        return [*texts]

    def label_names(self, train: Sequence[Item]) -> tuple[str, ...]:
        """The classes; a regression has the one output `number`."""
        return ("number",) if self.regression else sorted_labels(train)

    def encode(self, items: Sequence[Item], names: tuple[str, ...], n_labels: int, how: Encoding) -> list[Example]:
        """One label per text; texts beyond `max_length` are cut off, the longer text of a pair first."""
        texts = [item for item in items if isinstance(item, Text)]
        first = [_lower(text.text, how.lowercase) for text in texts]
        pairs = [_lower(text.pair, how.lowercase) for text in texts if text.pair is not None] or None
        typed = how.token_types and bool(pairs)
        encoded = how.tokenizer(first, pairs, truncation=True, max_length=how.max_length, return_token_type_ids=typed)
        types = encoded.get("token_type_ids") or [None] * len(texts)
        ids = {name: i for i, name in enumerate(names)}
        golds = [float(text.label) if self.regression else ids[text.label] for text in texts]
        cut = [bool(part.overflowing) for part in encoded.encodings]
        return [_example(*values, n_labels) for values in zip(encoded["input_ids"], types, golds, cut, strict=True)]

    def table(self, split: PredictedSplit) -> tuple[TagScore, ...]:
        """One row per class."""
        return () if self.regression else tag_table(split.gold, split.predicted, split.names, level="class")


def _lower(text: str, lowercase: bool) -> str:
    return text.lower() if lowercase else text


def _check_label(text: Text, *, regression: bool) -> None:
    try:
        number = float(text.label)
    except ValueError:
        number = None
    if regression and (number is None or not math.isfinite(number)):
        raise DataError(
            f"{text.place}: the label is {quote(text.label)}, but a regression needs a number. Fix this line."
        )
    if not regression and number is not None and not text.label.lstrip("+-").isdigit():
        raise DataError(
            f"{text.place}: the label is {quote(text.label)}, a number with a fraction, but the task needs classes. "
            "Use a regression like `stsb`, or name the column of the classes with `columns: {label: ...}`."
        )


def _example(ids: list[int], types: list[int] | None, gold: float, is_cut: bool, n_labels: int) -> Example:
    learnt = gold if isinstance(gold, float) or gold < n_labels else IGNORE
    return Example(
        np.array(ids, dtype=np.int64),
        labels=np.array([learnt]),
        gold=np.array([gold]),
        at=np.zeros(1, dtype=np.int64),
        types=np.array(types, dtype=np.int64) if types is not None else None,
        cut=int(is_cut),
    )


def _pair(first: str, second: str) -> Columns:
    return Columns(text=first, pair=second, label="label")


# The official metrics: gluebenchmark.com/tasks.
_SENTENCES = _pair("sentence1", "sentence2")
_BINARY: frozenset[Output] = frozenset({"binary"})
for _name, _task in {
    "classification": TextClassification(columns=Columns(text="text", label="label"), reads_any="classes"),
    "sst2": TextClassification(),
    "cola": TextClassification("matthews"),
    "mrpc": TextClassification("f1", _SENTENCES, _BINARY, positive=("1", "equivalent")),
    "qqp": TextClassification("f1", _pair("question1", "question2"), _BINARY, positive=("1", "duplicate")),
    "stsb": TextClassification("pearson", _SENTENCES, frozenset({"numbers"}), regression=True, reads_any="numbers"),
    "mnli": TextClassification(columns=_pair("premise", "hypothesis")),
    "qnli": TextClassification(columns=_pair("question", "sentence")),
    "rte": TextClassification(columns=_SENTENCES),
    "wnli": TextClassification(columns=_SENTENCES),
}.items():
    TASKS.register(_name)(_task)
