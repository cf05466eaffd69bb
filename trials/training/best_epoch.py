"""The best epoch of a trial: its weights, kept until the end, and what they do on dev and test."""

from __future__ import annotations

import math

import torch

from trials.encoding.encoded_corpus import Encoded
from trials.models.load import LoadedModel
from trials.record import SplitReport
from trials.settings import Predictions
from trials.tasks.task import Split, Task
from trials.training.loop import Evaluation

AUTO_WORDS = 100_000  # a split whose predictions are kept by default; about a megabyte in the store


class Best:
    """The weights that learn, at the best dev score so far, the earliest of equals: what the test split is shown.

    Attributes:
        score: Theirs.
        dev: What they did on dev.
        weights: Themselves; none before the first evaluation.
        learning: The model's, which they are put back into.
    """

    dev: Evaluation

    def __init__(self, loaded: LoadedModel) -> None:
        self.learning = [p for p in loaded.model.parameters() if p.requires_grad]
        self.score = -math.inf
        self.weights: list[torch.Tensor] = []

    def offer(self, score: float, dev: Evaluation) -> None:
        """Keep the weights if they score better than all before."""
        if score > self.score:
            self.put(score, dev, [p.detach().clone() for p in self.learning])

    def put(self, score: float, dev: Evaluation, weights: list[torch.Tensor]) -> None:
        """Take these for the best."""
        self.score, self.dev, self.weights = score, dev, weights

    @torch.no_grad()
    def restore(self) -> None:
        """Put the best weights back into the model."""
        for parameter, best in zip(self.learning, self.weights, strict=True):
            parameter.copy_(best)


def split_report(
    task: Task, data: Encoded, name: str, split: Split, found: Evaluation, predictions: Predictions
) -> SplitReport:
    """The scores of every label, and the predictions if they are wanted."""
    tags = task.table(split.gold, found.predicted, split.starts, data.names)
    by_default = task.head == "tokens" and len(split.gold) <= AUTO_WORDS
    if predictions == "none" or (predictions == "auto" and not by_default):
        return SplitReport(name, tags)
    return SplitReport(
        name,
        tags,
        () if task.regression else data.names,
        tuple(split.gold.tolist()),
        tuple(found.predicted.tolist()),
        tuple(None if math.isnan(p) else p for p in found.probability.tolist()),
    )
