"""A frame as a table: on a page, and as CSV, Markdown and LaTeX (booktabs). The same frame gives the same bytes."""

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


def shown(value: object) -> str:
    """A cell for a person: numbers with four significant decimals at most, nothing for what is not there."""
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (hasattr(value, "item") and isinstance(value.item(), int)):
        return f"{value:,}" if abs(int(str(value))) >= 10_000 else str(value)
    if isinstance(value, float):
        if abs(value) >= 10_000:
            return f"{value:,.0f}"
        return f"{value:.3g}" if abs(value) < 0.001 else f"{value:.4f}".rstrip("0").rstrip(".")
    return str(value)


def rows_of(frame: pd.DataFrame) -> Iterable[list[str]]:
    """Each row as words."""
    columns = [frame[name].tolist() for name in frame.columns]
    return ([shown(value) for value in row] for row in zip(*columns, strict=True))


def as_csv(frame: pd.DataFrame) -> str:
    """RFC 4180. What a spreadsheet would take for a formula is quoted with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([_harmless(name) for name in frame.columns])
    for row in zip(*(frame[name].tolist() for name in frame.columns), strict=True):
        writer.writerow([_harmless(value) for value in row])
    return out.getvalue()


def _harmless(value: object) -> object:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def as_markdown(frame: pd.DataFrame) -> str:
    """A pipe table."""
    head = [_pipe(str(name)) for name in frame.columns]
    lines = [head, ["---"] * len(head), *([_pipe(word) for word in row] for row in rows_of(frame))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _pipe(word: str) -> str:
    return _CONTROL.sub(" ", word).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def as_latex(frame: pd.DataFrame, *, caption: str = "", label: str = "") -> str:
    """A `table` with rules of the package booktabs."""
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
    """A word as LaTeX prints it."""
    return _CONTROL.sub(" ", word).translate(_TEX)


def formatted(frame: pd.DataFrame, kind: str, *, caption: str = "", label: str = "") -> str:
    """A frame in one of `FORMATS`."""
    if kind == "csv":
        return as_csv(frame)
    return as_markdown(frame) if kind == "md" else as_latex(frame, caption=caption, label=label)
