"""Metrics. Each is one registered value: what it computes, for which tasks, and how it is stored and shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trials.metrics.contributions import jackknife
from trials.plugins.registry import NOT_LOADED, Registry

Output = Literal["tags", "spans", "classes", "binary", "numbers"]
"""What a task predicts: a tag for every word, spans of words, a class for every text, one of two classes of which one
is the positive class, or a number."""

Group = Literal["label", "span", "correlation"]

MAX_LEFT_OUT = 2000  # examples; a metric of its own, asked that often, takes a second or so
NO_CLASS = -2  # an id that neither gold labels nor predictions have


@dataclass(frozen=True, eq=False)
class PredictedSplit:
    """Gold labels and predictions of one split. Its "places" are the words of tagged sentences, else the texts.

    Attributes:
        gold: (places,) label ids into `names`, or the numbers of a regression.
        predicted: (places,) the predictions; -1 where there is none, which is never correct.
        starts: (examples,) index of each example's first place, ascending.
        positive: Id of the positive class; NO_CLASS where the task has none.
    """

    gold: np.ndarray
    predicted: np.ndarray
    starts: np.ndarray
    names: tuple[str, ...]
    positive: int = NO_CLASS


@dataclass(frozen=True)
class TaskMetric:
    """One metric. Registering it is all it takes: tasks measure it, the store gets a column, pages offer it.

    Attributes:
        name: The name in YAML files and of the store's column.
        label: The name in captions, on axes and in tables.
        about: One sentence for the store's data dictionary.
        outputs: Every task with one of these outputs measures it; a task that selects by a metric measures it as well.
        function: From a predicted split to the value.
        higher_is_better: False for an error rate or a distance.
        lowest: The smallest value it can take.
        contributions: From a predicted split to (examples,) values whose mean is the metric: what an interval over
            sentences needs (`trials.metrics.metric`). None leaves out one example after the other, which asks
            `function` once for each and is done up to `MAX_LEFT_OUT` examples.
        per_word: Whether `contributions` are numerators of a share of all words, which vary by example as well.
    """

    name: str
    label: str
    about: str
    group: Group
    outputs: frozenset[Output]
    function: Callable[[PredictedSplit], float]
    higher_is_better: bool = True
    lowest: float = 0.0
    contributions: Callable[[PredictedSplit], np.ndarray] | None = None
    per_word: bool = False

    def score_contributions(self, split: PredictedSplit) -> np.ndarray:
        """(examples,) contributions to the score; empty where they are not known.

        Fewer than two examples have none, nor has a metric without `contributions` on a large split.
        """
        if len(split.starts) < 2 or (self.contributions is None and len(split.starts) > MAX_LEFT_OUT):
            return np.empty(0)
        values = (self.contributions or self._leaving_out)(split)
        return values if self.higher_is_better else -values

    def words(self, split: PredictedSplit) -> np.ndarray:
        """(examples,) words of each where the score divides by all words; empty where it does not, or each has one."""
        n_words = np.diff(split.starts, append=len(split.gold))
        return n_words if self.per_word and (n_words != 1).any() else np.empty(0, np.int64)

    def constant_score(self, split: PredictedSplit) -> float:
        """The score of the best constant prediction: of a gold label for all items, or of the mean of gold numbers."""
        is_numeric = np.issubdtype(split.gold.dtype, np.floating)
        constants = [split.gold.mean()] if is_numeric else np.unique(split.gold)
        of_each = [self.function(replace(split, predicted=np.full_like(split.gold, value))) for value in constants]
        return max(map(self.as_score, of_each))

    def _leaving_out(self, split: PredictedSplit) -> np.ndarray:
        ends = np.append(split.starts[1:], len(split.gold))
        left_out = []
        for start, end in zip(split.starts, ends, strict=True):
            keep = np.r_[:start, end : len(split.gold)]
            starts = np.where(split.starts > start, split.starts - (end - start), split.starts)
            starts = starts[split.starts != start]
            rest = replace(split, gold=split.gold[keep], predicted=split.predicted[keep], starts=starts)
            left_out.append(self.function(rest))
        return jackknife(np.array([self.function(split)]), np.array(left_out))

    def as_score(self, value: float) -> float:
        """The value as a score: larger is better, so errors are negated."""
        return value if self.higher_is_better else -value


METRICS: Registry[TaskMetric] = Registry("metric")
"""All metrics, in the order of the store's columns."""


def register(metric: TaskMetric) -> TaskMetric:
    """Register a metric under its own name."""
    return METRICS.register(metric.name)(metric)


def metric_label(name: str) -> str:
    """The label of a metric; if its plug-in is not loaded, its name in words."""
    metric, label = METRICS.get(name), name.replace("_", " ")
    if metric is not None:
        return metric.label
    return label if name == "score" or name.endswith(f"({NOT_LOADED})") else f"{label} ({NOT_LOADED})"


def metrics_for(outputs: frozenset[Output], score: str) -> tuple[TaskMetric, ...]:
    """The metrics of a task with these outputs: first the group of the metric that selects epochs, then the others."""
    measured = [metric for metric in METRICS.values() if metric.outputs & outputs or metric.name == score]
    return tuple(sorted(measured, key=lambda metric: metric.group != METRICS[score].group))
