"""A metric as one registered value: what it computes and for which tasks, and how it is stored and shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trials.registry import Registry

Output = Literal["tags", "spans", "classes", "binary", "numbers"]
"""What a task predicts: a tag for every word, spans of words, a class for every text, one of two classes of which one
is the positive class, or a number."""

NO_CLASS = -2  # an id that neither gold labels nor predictions have


@dataclass(frozen=True, eq=False)
class PredictedSplit:
    """Gold labels and predictions of one split. Its "places" are the words of tagged sentences, else the texts.

    Attributes:
        gold: (places,) label ids into `names`, or the numbers of a regression.
        predicted: (places,) the predictions; -1 where there is none, which is never correct.
        starts: (examples,) index of each example's first place, ascending.
        names: The labels.
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
        group: Metrics that are listed together.
        outputs: Every task with one of these outputs measures it; a task that selects by a metric measures it as well.
        function: From a predicted split to the value.
        higher_is_better: False for an error rate or a distance.
        lowest: The smallest value it can take.
    """

    name: str
    label: str
    about: str
    group: Literal["label", "span", "correlation"]
    outputs: frozenset[Output]
    function: Callable[[PredictedSplit], float]
    higher_is_better: bool = True
    lowest: float = 0.0

    def as_score(self, value: float) -> float:
        """The value as a score, of which the largest selects the best epoch."""
        return value if self.higher_is_better else -value


METRICS: Registry[TaskMetric] = Registry("metric")
"""All metrics, in the order of the store's columns."""


def register(metric: TaskMetric) -> TaskMetric:
    """Register a metric under its own name."""
    return METRICS.register(metric.name)(metric)


def metric_label(name: str) -> str:
    """The label of a metric; of a name that is not registered, the name in words."""
    return METRICS[name].label if name in METRICS else name.replace("_", " ")


def metrics_for(outputs: frozenset[Output], score: str) -> tuple[TaskMetric, ...]:
    """What a task with these outputs measures: the group of the metric that it selects by, then the others."""
    measured = [metric for metric in METRICS.values() if metric.outputs & outputs or metric.name == score]
    return tuple(sorted(measured, key=lambda metric: metric.group != METRICS[score].group))
