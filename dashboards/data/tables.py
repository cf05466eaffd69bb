"""A frame as a table on a page, and as CSV, Markdown and LaTeX (booktabs). The same frame gives the same bytes."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable

import pandas as pd

FORMATS = {"csv": "text/csv", "md": "text/markdown", "tex": "text/x-tex"}
_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def shown(value: object, column: str = "") -> str:
    """A table cell as people write it; empty if there is no value.

    Columns in "(%)" or "(points)" have two decimals, p values below 0.001 are "< 0.001", and other
    numbers have at most four decimals.
    """
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (hasattr(value, "item") and isinstance(value.item(), int)):
        return f"{value:,}"
    return _float(value, column) if isinstance(value, float) else str(value)


def _float(value: float, column: str) -> str:
    if column.endswith(("(%)", "(points)")):
        return f"{value:.2f}"
    if column == "p" or column.startswith("p ("):
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if 0 < abs(value) < 0.001 else f"{value:,.4f}".rstrip("0").rstrip(".")


def rows_of(frame: pd.DataFrame) -> Iterable[list[str]]:
    """Each row as text."""
    columns = [[shown(value, str(name)) for value in frame[name].tolist()] for name in frame.columns]
    return map(list, zip(*columns, strict=True))


def as_csv(frame: pd.DataFrame) -> str:
    """CSV (RFC 4180) with all digits. Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([_without_formula(name) for name in frame.columns])
    for row in zip(*(frame[name].tolist() for name in frame.columns), strict=True):
        writer.writerow([_without_formula(value) for value in row])
    return out.getvalue()


def _without_formula(value: object) -> object:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def as_markdown(frame: pd.DataFrame) -> str:
    """A Markdown table."""
    head = [_pipe(str(name)) for name in frame.columns]
    lines = [head, ["---"] * len(head), *([_pipe(word) for word in row] for row in rows_of(frame))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _pipe(word: str) -> str:
    return _CONTROL.sub(" ", word).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def as_latex(frame: pd.DataFrame, *, caption: str = "", label: str = "") -> str:
    """A LaTeX `table` with booktabs rules."""
    numeric = [pd.api.types.is_numeric_dtype(frame[name]) for name in frame.columns]
    lines = [
        r"\begin{table}", r"  \centering", f"  \\begin{{tabular}}{{{''.join('r' if n else 'l' for n in numeric)}}}",
        r"    \toprule", f"    {' & '.join(tex(str(name)) for name in frame.columns)} \\\\", r"    \midrule",
        *(f"    {' & '.join(tex(word) for word in row)} \\\\" for row in rows_of(frame)),
        r"    \bottomrule", r"  \end{tabular}",
    ]  # fmt: skip
    lines += [f"  \\caption{{{tex(caption)}}}"] * bool(caption) + [f"  \\label{{{label}}}"] * bool(label)
    return "\n".join([*lines, r"\end{table}", ""])


def tex(word: str) -> str:
    """Text escaped for LaTeX."""
    return _CONTROL.sub(" ", word).translate(_TEX)


def formatted(frame: pd.DataFrame, kind: str, *, caption: str = "", label: str = "") -> str:
    """A frame in one of `FORMATS`."""
    if kind == "csv":
        return as_csv(frame)
    return as_markdown(frame) if kind == "md" else as_latex(frame, caption=caption, label=label)
