"""Trials that classify texts: they learn, report, and their train subsets hold every class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trials.conftest import TrialMaker, records_of
from trials.cache.encoding import encode_for
from trials.metrics.label_table import tag_table
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.training.new_training import stratified_subset, train_subset

LONG = {"lr": 2e-2, "epochs": 5}


def test_a_classification_learns_more_than_the_most_frequent_class(make_trial: TrialMaker, texts: Path) -> None:
    spec = make_trial("bert", task="sst2", data={"folder": str(texts)}, train_size=40, optim=LONG)
    records, gold = records_of(spec), encode_for(spec).dev.gold
    assert max(record.score for record in records) > np.bincount(gold).max() / len(gold)
    assert records[-1].train_loss < records[0].train_loss


def test_its_reports_are_of_the_predictions_with_the_best_weights(make_trial: TrialMaker, texts: Path) -> None:
    spec = make_trial(task="mrpc", data={"folder": str(texts)}, train_size=40, optim={"lr": 1e-2, "epochs": 4})
    records = records_of(spec, predictions="all")
    best = max(records, key=lambda record: record.score)
    for report, metrics in zip(records[-1].reports, (best.metrics, records[-1].test_metrics), strict=True):
        gold, predicted = (np.array(column, dtype=np.int64) for column in (report.gold, report.predicted))
        assert TASKS["mrpc"].measure(gold, predicted, np.arange(len(gold)), report.names) == metrics
        assert report.tags == tag_table(gold, predicted, report.names, level="class")
        assert all(p is not None and 0.5 <= p <= 1 for p in report.probability)
    assert [report.split for report in records[-1].reports] == ["dev", "test"]
    assert all(not record.reports for record in records[:-1])


def files_of(folder: Path, **more: str) -> dict[str, Any]:
    columns = {"text": "sentence1", "pair": "sentence2", "label": "label"}
    files = {"train": str(folder / "train.tsv"), "dev": str(folder / "dev.tsv")}
    return {"folder": None, "columns": columns, **files, **more}


def test_a_mismatched_split_is_scored_once_beside_dev_and_changes_nothing_else(
    make_trial: TrialMaker, texts: Path
) -> None:
    other = str(texts / "test.tsv")
    alone, both = (
        make_trial(task="mnli", data=files_of(texts, **m), train_size=8) for m in ({}, {"mismatched": other})
    )
    as_test = records_of(make_trial(task="mnli", data=files_of(texts, test=other), train_size=8))[-1]
    records, expected = records_of(both), records_of(alone)
    assert [record.metrics for record in records] == [record.metrics for record in expected]
    assert (records[-1].test_score, expected[-1].test_metrics) == (None, None)
    assert records[-1].test_metrics == {f"{k}_mismatched": v for k, v in (as_test.test_metrics or {}).items()}
    _, mismatched = records[-1].reports
    assert (mismatched.split, len(mismatched.contributions)) == ("mismatched", 12)
    assert np.mean(mismatched.contributions) == pytest.approx(records[-1].test_metrics["accuracy_mismatched"])
    assert alone.trial_id != both.trial_id


def test_a_regression_learns_numbers_and_has_no_table(make_trial: TrialMaker, texts: Path) -> None:
    data = {"folder": str(texts), "columns": {"text": "sentence1", "pair": "sentence2", "label": "score"}}
    spec = make_trial(task="stsb", data=data, train_size=40, optim={"lr": 1e-2, "epochs": 10})
    records = records_of(spec, predictions="all")
    assert max(record.score for record in records) > 0.5
    assert set(records[-1].metrics) == set(records[-1].test_metrics or {}) == {"pearson", "spearman"}
    (report, _) = records[-1].reports
    assert (report.tags, report.names) == ((), ())
    assert set(report.gold) == {0.5, 1.5}
    assert len(set(report.predicted)) > 2
    assert set(report.probability) == {None}


def test_the_tasks_first_metric_selects_unless_another_is_asked_for(make_trial: TrialMaker, texts: Path) -> None:
    for score, asked in (("f1", {}), ("accuracy", {"score": "accuracy"})):
        found = records_of(make_trial(task="mrpc", data={"folder": str(texts)}, train_size=8, **asked))
        assert [r.score for r in found] == [r.metrics[score] for r in found]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.integers(0, 99), st.data())
def test_a_smaller_stratified_subset_begins_a_larger_one(classes: list[int], seed: int, data: st.DataObject) -> None:
    sizes = st.integers(1, len(classes))
    small, large = sorted(data.draw(st.tuples(sizes, sizes)))
    one, other = (stratified_subset(np.array(classes), size, seed) for size in (small, large))
    assert np.array_equal(one, other[:small])


def subset(spec: TrialSpec) -> list[int]:
    return [int(i) for i in train_subset(spec, encode_for(spec).train)]


def test_the_subset_of_a_trial_is_stratified_by_class_and_of_a_regression_by_nothing(
    make_trial: TrialMaker, texts: Path
) -> None:
    spec = make_trial(task="sst2", data={"folder": str(texts)}, train_size=10)
    gold = encode_for(spec).train.gold
    assert abs(gold[subset(spec)].sum() - 10 * gold.mean()) <= 0.5
    columns = {"text": "sentence1", "pair": "sentence2", "label": "score"}
    numbers = make_trial(task="stsb", data={"folder": str(texts), "columns": columns}, train_size=10)
    assert len(set(subset(numbers))) == 10
