"""Validation of `columns` against what a file format has."""

from __future__ import annotations

from pathlib import Path

from trials.errors import DataError
from trials.settings import Columns


def check_keys(path: Path, columns: Columns, holder: str, *known: str) -> None:
    """Refuse keys of `columns` that files of this format do not have. Raises DataError."""
    for key, value in columns:
        if value is not None and key not in known:
            use = f"It takes {' and '.join(known)}." if known else "Leave it out."
            raise DataError(f"{path}: columns.{key}: {holder} has no such column. {use}")
