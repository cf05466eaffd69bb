"""The store's columns follow from what is registered and declared in `trials`; those of version 1 stay as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore
from orchestrator.store.schema import EPOCHS, METRICS, TRIALS, is_intact, promised, stamped
from tests.examples import each
from tests.orchestrator.store.rows import epoch
from trials.errors import StoreError
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


# --- Names that hold a digest of what they name, and what readers and compaction make of it.


def test_a_name_is_age_and_the_beginning_of_the_sha_256() -> None:
    assert stamped("part", 12, b"abc", "parquet") == "part-00000000000000000012-ba7816bf8f01cfea.parquet"


@given(st.binary(min_size=1), st.data())
def test_any_other_bytes_are_told_from_those_that_were_written(content: bytes, data: st.DataObject) -> None:
    name, at = stamped("part", 0, content, "parquet"), data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    assert is_intact(name, content)
    assert not is_intact(name, changed)
    assert not is_intact(name, content[:at])


@each(
    "name",
    [
        "part-01795183308170301531-1836fa94.parquet",
        "plan-01795183308185021406.json",
        "part-0.parquet",
        "0123456789abcdef-000001-000000000012.safetensors",
    ],
)
def test_a_name_from_before_there_were_digests_promises_nothing(name: str) -> None:
    assert promised(name) is None
    assert is_intact(name, b"anything")


def test_a_part_whose_bytes_changed_is_neither_read_nor_compacted_into_one_that_looks_right(storage: Storage) -> None:
    store, folder = ResultStore(storage), storage.at("epochs")
    for step in (1, 2):
        store.append("epochs", [epoch(step=step)])
    name = next(iter(folder.files()))
    content = bytearray(folder.read(name))
    content[len(content) // 3] ^= 1
    folder.write(name, bytes(content))
    for action in (store.compact, ResultStore(storage).compact):
        with pytest.raises(StoreError, match="its bytes do not match the digest in its name"):
            action()
    assert len(folder.files()) == 2
