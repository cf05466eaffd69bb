"""What a reader says to `columns` that it cannot follow."""

from __future__ import annotations

from pathlib import Path

from trials.errors import DataError
from trials.settings import Columns


def check_keys(path: Path, columns: Columns, holder: str, *known: str) -> None:
    """Refuse a key of `columns` that files of this kind have no use for.

    Args:
        path: The file, for the message.
        columns: What was asked for.
        holder: What the file is, e.g. ``a CoNLL-U file``.
        known: The keys that it has a use for.

    Raises:
        DataError: another key is set.
    """
    for key, value in columns:
        if value is not None and key not in known:
            use = f"It takes {' and '.join(known)}." if known else "Leave it out."
            raise DataError(f"{path}: columns.{key}: {holder} has no such column. {use}")
