"""The first rows of a table as they are, to find out what its columns hold."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from trials.datasets.text_file import read_lines
from trials.errors import DataError

N_ROWS = 400
_Rows = Sequence[Mapping[str, Any]] | Sequence[Sequence[str]]


def first_rows(path: Path, format_: str, n: int = N_ROWS) -> _Rows:
    """Up to `n` rows of a TSV or CSV file as lists of cells, the header line included if there is one; of a JSON lines
    or Parquet file as mappings. Raises DataError.
    """
    if format_ == "parquet":
        return _of_parquet(path, n)
    lines = [line for line in read_lines(path) if line.strip()][: n + 1]
    try:
        if format_ == "jsonl":
            found = [json.loads(line) for line in lines[:n]]
            return [row for row in found if isinstance(row, dict)]
        return [line.split("\t") for line in lines] if format_ == "tsv" else list(csv.reader(lines, strict=False))
    except (ValueError, RecursionError, csv.Error) as error:
        raise DataError(f"{path}: not {format_.upper()} ({error}).") from error


def _of_parquet(path: Path, n: int) -> list[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            batch = next(file.iter_batches(n, use_threads=False), None)
            return list(islice(batch.to_pylist(), n)) if batch is not None else []
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a complete Parquet file ({str(error).partition(chr(10))[0]}).") from error
