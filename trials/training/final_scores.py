"""What is known of a trial at its end: the scores of its best epoch on all splits, with the report of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trials.cache.encoding import EncodedCorpus
from trials.metrics.metric import METRICS
from trials.record import SplitReport, scored_once
from trials.settings import Predictions
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import Split, as_score, score_name
from trials.training.best_epoch import BestEpoch
from trials.training.loop import EvaluatedSplit, Training, evaluate

AUTO_WORDS = 100_000  # largest split whose predictions are stored by default; about a megabyte in the store


@dataclass(frozen=True)
class FinalScores:
    """What only the last record has: scores on the splits beside dev, with the weights of the best epoch, and the
    reports of all splits.
    """

    test_score: float | None = None
    test_metrics: dict[str, float] | None = None
    reports: tuple[SplitReport, ...] = ()


def final_scores(
    spec: TrialSpec, training: Training, data: EncodedCorpus, best: BestEpoch, predictions: Predictions
) -> FinalScores:
    """Evaluate the splits beside dev with the restored weights of the best epoch."""
    metrics, reports = {}, [split_report(spec, data, "dev", data.dev, best.dev, predictions)]
    for name in ("test", "mismatched"):  # of MNLI, texts of other genres than train's (Williams et al. 2018)
        if (split := data.splits[name]).examples:
            evaluated = evaluate(training, split)
            metrics[name] = TASKS[spec.task].measure(split.gold, evaluated.predicted, split.starts, data.names)
            reports.append(split_report(spec, data, name, split, evaluated, predictions))
    score = as_score(spec.task, spec.score, metrics["test"]) if "test" in metrics else None
    return FinalScores(score, scored_once(**metrics) if metrics else None, tuple(reports))


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
