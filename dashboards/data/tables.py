"""The cells of a table as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from orchestrator.analysis.freeze_names import FreezeName
from trials.escaping import escaped


def shown(value: object, column: str = "") -> str:
    """A table cell as people write it; empty if there is no value.

    Columns in "(%)" or "(points)" have two decimals, p values below 0.001 are "< 0.001", and other numbers have at most
    two decimals from 1 on, else three digits. A `FreezeName` stays one, so that a surface can add its layer strip.
    """
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, FreezeName):
        return value
    if isinstance(value, int) or (hasattr(value, "item") and isinstance(value.item(), int)):
        return f"{value:,}"
    return _float(value, column) if isinstance(value, float) else escaped(str(value))


def _float(value: float, column: str) -> str:
    if column.endswith(("(%)", "(points)")):
        return f"{value:.2f}"
    if column == "p" or column.startswith("p ("):
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}".rstrip("0").rstrip(".")


def rows_of(frame: pd.DataFrame) -> Iterable[list[str]]:
    """Each row as text."""
    columns = [[shown(value, str(name)) for value in frame[name].tolist()] for name in frame.columns]
    return map(list, zip(*columns, strict=True))
