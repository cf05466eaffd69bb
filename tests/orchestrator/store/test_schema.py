"""The store's columns follow from what is registered and declared in `trials`; those of version 1 stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.store.schema import EPOCHS, METRICS, TRIALS, epochs_columns
from trials.metrics.metric import METRICS as REGISTERED
from trials.metrics.metric import TaskMetric, register
from trials.record import RECORD_COLUMNS
from trials.tasks import TASKS
from trials.tasks.task import as_score

ERROR_RATE = TaskMetric(
    "error_rate",
    label="error rate",
    about="Share of wrong labels.",
    group="label",
    outputs=frozenset({"tags"}),
    function=lambda split: float(np.mean(split.gold != split.predicted)),
    higher_is_better=False,
)


def test_a_registered_metric_is_measured_and_has_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTERED, "_plugins", dict(REGISTERED._plugins))  # gone again after the test
    register(ERROR_RATE)
    gold, predicted = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])
    measured = TASKS["pos"].measure(gold, predicted, np.array([0]), ("A", "B"))
    assert measured["error_rate"] == 0.25
    assert TASKS["pos"].metrics == ("accuracy", "macro_f1", "error_rate")
    assert as_score("pos", "error_rate", measured) == -0.25
    assert "error_rate" not in TASKS["rte"].metrics
    new = epochs_columns(REGISTERED.values())
    assert [name for name in new if name not in EPOCHS.names] == ["error_rate"]
    assert [name for name in new if name != "error_rate"] == EPOCHS.names


def test_the_metrics_of_version_1_come_first_and_in_their_order() -> None:
    assert METRICS[:12] == (
        "accuracy", "macro_f1", "span_precision", "span_recall", "span_f1", "span_macro_precision",
        "span_macro_recall", "span_macro_f1", "matthews", "f1", "pearson", "spearman",
    )  # fmt: skip


def test_every_declared_field_of_a_record_has_its_columns() -> None:
    for name, column in RECORD_COLUMNS.items():
        assert (name in EPOCHS.names) == column.per_epoch
        assert (name in TRIALS.names) == (column.per_trial is not None)
