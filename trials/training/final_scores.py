"""The best epoch of a trial: its weights, held until the end, and then its scores on all splits with their reports."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from safetensors.torch import save

from trials.cache.encoding import EncodedCorpus
from trials.metrics.metric import METRICS
from trials.models.load import LoadedModel
from trials.record import SplitReport, final_metrics
from trials.spec import Predictions, TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import Split, as_score, score_name
from trials.training.loop import EvaluatedSplit, Training, evaluate

AUTO_WORDS = 100_000  # largest split whose predictions are stored by default; about a megabyte in the store


@dataclass(frozen=True)
class FinalScores:
    """What only the last record has: scores on test and mismatched with the weights of the best epoch, and reports of
    all splits.
    """

    test_score: float | None = None
    test_metrics: dict[str, float] | None = None
    reports: tuple[SplitReport, ...] = ()


def final_scores(
    spec: TrialSpec, training: Training, data: EncodedCorpus, best: BestEpoch, predictions: Predictions
) -> FinalScores:
    """Evaluate the splits other than dev with the restored weights of the best epoch."""
    metrics, reports = {}, [split_report(spec, data, "dev", data.dev, best.dev, predictions)]
    for name in ("test", "mismatched"):  # of MNLI, texts of other genres than train's (Williams et al. 2018)
        if (split := data.splits[name]).examples:
            evaluated = evaluate(training, split)
            metrics[name] = TASKS[spec.task].measure(split.gold, evaluated.predicted, split.starts, data.names)
            reports.append(split_report(spec, data, name, split, evaluated, predictions))
    score = as_score(spec.task, spec.score, metrics["test"]) if "test" in metrics else None
    return FinalScores(score, final_metrics(**metrics) if metrics else None, tuple(reports))


def split_report(
    spec: TrialSpec, data: EncodedCorpus, name: str, split: Split, evaluated: EvaluatedSplit, predictions: Predictions
) -> SplitReport:
    """The scores of every label, what each sentence contributes, and the predictions if the sweep stores them."""
    task = TASKS[spec.task]
    predicted = task.predicted_split(split.gold, evaluated.predicted, split.starts, data.names)
    tags = task.table(predicted)
    metric = METRICS[score_name(spec.task, spec.score)]
    contributions, constant = tuple(metric.score_contributions(predicted).tolist()), metric.constant_score(predicted)
    documents = () if split.documents is None else tuple(split.documents.tolist())
    n_words = tuple(metric.words(predicted).tolist()) if contributions else ()
    by_default = task.head == "tokens" and len(split.gold) <= AUTO_WORDS
    report = SplitReport(name, tags, contributions, constant, documents=documents, words=n_words)
    if predictions == "none" or (predictions == "auto" and not by_default):
        return report
    probability = tuple(None if math.isnan(p) else p for p in evaluated.probability.tolist())
    gold, predicted_values = tuple(split.gold.tolist()), tuple(evaluated.predicted.tolist())
    names = () if task.regression else data.names
    return replace(report, names=names, gold=gold, predicted=predicted_values, probability=probability)


class BestEpoch:
    """The trained weights at the best dev score so far, the earliest of equal ones; test is evaluated with them.

    Attributes:
        dev: The evaluation on dev at that score.
        weights: Copies of the trained parameters; empty before the first evaluation.
        trained: The model's parameters that `weights` belong to.
    """

    dev: EvaluatedSplit

    def __init__(self, loaded: LoadedModel) -> None:
        self.trained = [p for p in loaded.model.parameters() if p.requires_grad]
        self.score = -math.inf
        self.weights: list[torch.Tensor] = []

    def update(self, score: float, dev: EvaluatedSplit) -> None:
        """Copy the model's weights if they score better than all before."""
        if score > self.score:
            if not self.weights:
                self.weights = [torch.empty_like(p) for p in self.trained]
            torch._foreach_copy_(self.weights, [p.detach() for p in self.trained])  # in place: never two copies
            self.score, self.dev = score, dev

    def replace(self, score: float, dev: EvaluatedSplit, weights: list[torch.Tensor]) -> None:
        """Set the best epoch, e.g. from a checkpoint; `weights` are shaped and ordered as the trained ones (...)."""
        self.score, self.dev = score, dev
        self.weights = [weight.to(p.device) for weight, p in zip(weights, self.trained, strict=True)]

    @torch.no_grad()
    def restore(self) -> None:
        """Copy the best weights back into the model."""
        for parameter, best in zip(self.trained, self.weights, strict=True):
            parameter.copy_(best)

    def to_bytes(self, names: Mapping[int, str], labels: Sequence[str]) -> bytes:
        """The best weights as a safetensors file, with the labels of the head.

        Args:
            names: The name of each parameter of the model, by its `id`.
            labels: The labels, in the order of the head's outputs.
        """
        tensors = {
            names[id(p)]: weight.to("cpu", copy=True).contiguous()
            for p, weight in zip(self.trained, self.weights, strict=True)
        }
        return save(tensors, {"labels": json.dumps(list(labels))})
