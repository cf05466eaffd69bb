"""The store's columns follow from what is registered and declared in `trials`; names hold digests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.store.schema import EPOCHS, METRICS, TRIALS, is_intact, stamped
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


@given(st.binary(min_size=1), st.data())
def test_any_other_bytes_are_told_from_those_that_were_written(content: bytes, data: st.DataObject) -> None:
    name, at = stamped("part", 0, content, "parquet"), data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    assert is_intact(name, content)
    assert not is_intact(name, changed)
    assert not is_intact(name, content[:at])
