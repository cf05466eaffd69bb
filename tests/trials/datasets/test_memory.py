"""What does not fit in this machine's memory is refused before it fills it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trials.datasets import text_file
from trials.datasets.table_reader import read_parquet
from trials.datasets.text_file import BYTES_PER_BYTE, MOST_TIMES, free_bytes, largest_text, read_lines
from trials.errors import DataError
from trials.settings import Columns

TEXTS = Columns(text="text", label="label")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """A machine with room for a thousand bytes of text."""
    monkeypatch.setattr(text_file, "free_bytes", lambda: 1_000 * BYTES_PER_BYTE)
    return 1_000


def test_free_memory_is_read_from_the_machine() -> None:
    assert 0 < largest_text() == free_bytes() // BYTES_PER_BYTE < 1 << 45


def test_the_limit_of_a_control_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_GROUP", tmp_path)
    for name, text in (("max", "3000000"), ("current", "1000000")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert free_bytes() == 2_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes() > 2_000_000


def test_an_archive_that_unpacks_to_no_text_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(64 << 20)))
    with pytest.raises(
        DataError, match=rf"zeros\.gz: its 6\d,\d+ bytes unpack to 33,554,432 or more, over {MOST_TIMES}"
    ):
        read_lines(path)


def test_an_archive_of_much_text_is_refused_where_memory_is_small(tmp_path: Path, small: int) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"".join(b"word %d\n" % n for n in range(400))))
    message = r"it unpacks to at least 3,490 bytes, more than the 1,000 that fit in this machine's free memory"
    with pytest.raises(DataError, match=message):
        read_lines(path)


def test_a_file_larger_than_memory_is_not_read(tmp_path: Path, small: int) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(b"a" * (small + 1))
    with pytest.raises(DataError, match=r"large\.txt: it has 1,001 bytes, more than the 1,000 that fit"):
        read_lines(path)


def test_a_row_group_larger_than_memory_is_not_read(tmp_path: Path, small: int) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": [f"text {n}" for n in range(300)], "label": [0, 1] * 150}), path)
    with pytest.raises(DataError, match=r"t\.parquet: row group 1 of 1 has [\d,]+ bytes, more than the 1,000"):
        read_parquet(path, TEXTS)


def test_columns_that_are_not_used_may_be_large(tmp_path: Path, small: int) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "label": [0, 1], "vector": ["x" * 5000, "y" * 5000]}), path)
    assert len(read_parquet(path, TEXTS)) == 2


def test_a_value_that_a_dictionary_repeats_is_counted_each_time(tmp_path: Path, small: int) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["x" * 50] * 600, "label": ["0", "1"] * 300}), path)
    assert path.stat().st_size < 3_000
    with pytest.raises(DataError, match=r"t\.parquet: its rows hold at least \d\d,\d+ bytes, more than the 1,000"):
        read_parquet(path, TEXTS)


def test_only_the_first_rows_of_a_large_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": [f"text {n}" for n in range(3000)], "label": [0, 1] * 1500}), path)
    assert len(read_parquet(path, TEXTS, 600)) == 600
    assert len(read_parquet(path, TEXTS)) == 3000
