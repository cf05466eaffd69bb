"""A frame as CSV, Markdown and LaTeX (booktabs). The same frame gives the same bytes."""

from __future__ import annotations

import csv
import io
import math

import pandas as pd

from dashboards.data.latex_tables import as_latex
from dashboards.data.tables import rows_of
from orchestrator.analysis.freeze_names import FreezeName
from trials.escaping import csv_cell, escaped, markdown

FORMATS = {"csv": "text/csv", "md": "text/markdown", "tex": "text/x-tex"}


def as_csv(frame: pd.DataFrame, source: str = "") -> str:
    """CSV (RFC 4180) with all digits. Text that a spreadsheet would run as a formula gets a leading apostrophe.

    The first line is the header, so that every reader takes it; `source`, if any, is the last column of each row.
    """
    out = io.StringIO()
    last = [csv_cell(escaped(source))] * bool(source)
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*map(_cell, frame.columns), *["source"] * bool(source)])
    for row in zip(*(frame[name].tolist() for name in frame.columns), strict=True):
        writer.writerow([*map(_cell, row), *last])
    return out.getvalue()


def _cell(value: object) -> object:
    is_empty = value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
    return "" if is_empty else csv_cell(value)


def as_markdown(frame: pd.DataFrame) -> str:
    """A Markdown table."""
    head = [markdown(str(name)) for name in frame.columns]
    lines = [head, ["---"] * len(head), *(map(_in_markdown, row) for row in rows_of(frame))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _in_markdown(word: str) -> str:
    return " ".join(filter(None, [word.squares if isinstance(word, FreezeName) else "", markdown(word)]))


def formatted(frame: pd.DataFrame, kind: str, *, caption: str, label: str, source: str) -> str:
    """A frame in one of `FORMATS`, with the source of its numbers as a column in CSV and a comment in LaTeX."""
    if kind == "csv":
        return as_csv(frame, source)
    return as_markdown(frame) if kind == "md" else as_latex(frame, caption=caption, label=label, source=source)
