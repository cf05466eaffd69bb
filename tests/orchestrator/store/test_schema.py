"""The store's columns follow from what is registered and declared in `trials`; names hold digests."""

from __future__ import annotations

from orchestrator.store.schema import EPOCHS, METRICS, TRIALS
from trials.record import RECORD_COLUMNS


def test_every_declared_field_of_a_record_has_its_columns_and_the_metrics_of_version_1_come_first_in_their_order() -> (
    None
):
    assert METRICS[:12] == (
        "accuracy", "macro_f1", "span_precision", "span_recall", "span_f1", "span_macro_precision",
        "span_macro_recall", "span_macro_f1", "matthews", "f1", "pearson", "spearman",
    )  # fmt: skip
    for name, column in RECORD_COLUMNS.items():
        assert (name in EPOCHS.names) == column.per_epoch
        assert (name in TRIALS.names) == (column.per_trial is not None)
