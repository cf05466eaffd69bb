"""A table as people read it, and as CSV, Markdown and LaTeX (booktabs). The same frame gives the same bytes.

LaTeX tables fit a two-column paper of the ACL: narrow ones take a column, wide ones both. Nothing but LaTeX itself is
needed: without booktabs its rules are plain lines, and layer strips are drawn as rules. Widths are estimated in
Computer Modern, which is wider than the Times of such papers.
"""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from orchestrator.analysis.freeze_names import FROZEN, TRAINED, FreezeName
from trials.escaping import csv_cell, escape_line, latex, latex_comment, markdown


def cell_text(value: object, column: str = "") -> str:
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
    return _float(value, column) if isinstance(value, float) else escape_line(str(value))


def _float(value: float, column: str) -> str:
    if column.endswith(("(%)", "(points)")):
        return f"{value:.2f}"
    if column == "p" or column.startswith("p ("):
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}".rstrip("0").rstrip(".")


def rows_of(frame: pd.DataFrame) -> Iterable[list[str]]:
    """Each row of a frame as text, cell by cell in the order of its columns, whatever these are."""
    columns = [[cell_text(value, str(name)) for value in frame[name].tolist()] for name in frame.columns]
    return map(list, zip(*columns, strict=True))


COLUMN_PT, PAGE_PT = 219.0, 455.0  # widths in the ACL's style: 7.7 cm and 16 cm
_SIZES = {r"\small": 9.0, r"\footnotesize": 8.0, r"\scriptsize": 7.0}  # in points, for the class `article` at 10 pt
_EM = 0.55  # mean width of a character, in units of the size of its font
_GAP_PT = 6.0  # between columns, twice `\tabcolsep`
_HEAD, _TEXT = 12, 30  # characters in a line of a heading, and of a cell with sentences
_NAMES = 3  # columns from the left that every block repeats, at most
_MACROS = (
    r"\providecommand{\toprule}{\hline}\providecommand{\midrule}{\hline}\providecommand{\bottomrule}{\hline}",
    r"\providecommand{\frozenlayer}{\rule{0.8ex}{0.8ex}\kern0.25ex}",
    r"\providecommand{\trainedlayer}{\rule{0.1ex}{0.8ex}\rule{0.6ex}{0.1ex}\kern-0.6ex"
    r"\raisebox{0.7ex}[0pt][0pt]{\rule{0.6ex}{0.1ex}}\rule{0.1ex}{0.8ex}\kern0.25ex}",
)
STRIPS = "Squares: embeddings, then layers; filled where frozen."


class _Column(NamedTuple):
    """A column of a table."""

    head: list[str]
    cells: list[str]
    form: str
    chars: float

    def width(self, size: float) -> float:
        """The width in points, with the gap after it, for a size of the font."""
        return self.chars * _EM * size + _GAP_PT


def as_latex(
    frame: pd.DataFrame, *, caption: str = "", label: str = "", source: str = "", most: int | None = None
) -> str:
    """A LaTeX `table` or `table*` with booktabs rules; `source` is a comment above it."""
    rows = frame if most is None else frame.head(most)
    columns = [_column(frame, n, list(cells)) for n, cells in enumerate(zip(*rows_of(rows), strict=True))]
    columns = columns or [_column(frame, n, []) for n in range(frame.shape[1])]
    size, blocks, is_wide = _arrange(columns, _first_figure(frame))
    parts = [caption] * bool(caption)
    if len(frame) > len(rows):
        parts.append(f"The first {len(rows)} of {len(frame):,} rows; the CSV has all.")
    has_strips = any(isinstance(value, FreezeName) and value.squares for name in frame for value in rows[name])
    parts += [STRIPS] * (has_strips and bool(caption))
    kind = "table*" if is_wide else "table"
    lines = [
        *_MACROS,
        f"\\begin{{{kind}}}",
        r"  \centering",
        f"  {size}\\setlength{{\\tabcolsep}}{{{_GAP_PT / 2:g}pt}}",
        *(line for n, block in enumerate(blocks) for line in _tabular(block, _SIZES[size], is_first=n == 0)),
    ]
    lines += [f"  \\caption{{{latex(' '.join(parts))}}}"] * bool(parts) + [f"  \\label{{{label}}}"] * bool(label)
    return (latex_comment(source) if source else "") + "\n".join([*lines, f"\\end{{{kind}}}", ""])


def _column(frame: pd.DataFrame, n: int, cells: list[str]) -> _Column:
    is_number = pd.api.types.is_numeric_dtype(frame.iloc[:, n])
    longest = max((_chars(cell) for cell in cells), default=0)
    width = min(longest, _TEXT)
    head = textwrap.wrap(str(frame.columns[n]), max(_HEAD, round(width)), break_long_words=False) or [""]
    longest_word = max((len(word) for cell in cells for word in cell.split()), default=0) if longest > _TEXT else 0
    chars = max(width, longest_word, *map(len, head))
    form = "r" if is_number else "p" if longest > _TEXT else "l"
    return _Column(list(map(latex, head)), list(map(_latex_cell, cells)), form, chars)


def _chars(cell: str) -> float:
    return 2 + 0.6 * len(cell.squares) + len(_short(cell)) if isinstance(cell, FreezeName) else len(cell)


def _short(cell: FreezeName) -> str:
    """The name that stands next to a layer strip, whose first square already says whether the embeddings are frozen."""
    return cell.removesuffix(" + embeddings") if cell.squares else str(cell)


def _latex_cell(cell: str) -> str:
    if isinstance(cell, FreezeName) and cell.squares:
        return f"{_draw_squares(cell.squares.replace(' ', '~'))}~{latex(_short(cell))}"
    return _draw_squares(latex(cell))


def _draw_squares(text: str) -> str:
    """LaTeX with the squares of layer strips as rules, as its fonts have no such characters."""
    squares = text.replace(FROZEN, r"\frozenlayer{}").replace(TRAINED, r"\trainedlayer{}")
    return squares.replace("±", r"$\pm$")  # its own character is a bitmap in many installations


def _first_figure(frame: pd.DataFrame) -> int:
    """How many columns from the left name a row: up to the one with the setting, if that is near."""
    for n in range(min(_NAMES, frame.shape[1])):
        if any(isinstance(value, FreezeName) for value in frame.iloc[:, n]):
            return n + 1
    return 1


def _arrange(columns: Sequence[_Column], names: int) -> tuple[str, list[list[_Column]], bool]:
    """(size of the font, columns of each block, whether it takes both columns of the page)."""
    for available, is_wide in ((COLUMN_PT, False), (PAGE_PT, True)):
        for size, points in _SIZES.items():
            if sum(column.width(points) for column in columns) <= available:
                return size, [list(columns)], is_wide
    size = r"\scriptsize"
    points = _SIZES[size]
    first, blocks = list(columns[:names]), list[list[_Column]]()
    for column in columns[names:]:
        room = PAGE_PT - sum(placed.width(points) for placed in (blocks[-1] if blocks else ()))
        if not blocks or column.width(points) > room:
            blocks.append(list(first))
        blocks[-1].append(column)
    return size, blocks or [first], True


def _tabular(columns: Sequence[_Column], points: float, *, is_first: bool) -> list[str]:
    forms = (f"p{{{column.chars * _EM * points:.0f}pt}}" if column.form == "p" else column.form for column in columns)
    rows = zip(*(map(_ragged_cell, c.cells) if c.form == "p" else c.cells for c in columns), strict=True)
    return [
        *([] if is_first else [r"  \par\medskip"]),
        f"  \\begin{{tabular}}{{{''.join(forms)}}}",
        r"    \toprule",
        f"    {' & '.join(_heading(column) for column in columns)} \\tabularnewline",
        r"    \midrule",
        *(f"    {' & '.join(row)} \\tabularnewline" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]


def _ragged_cell(cell: str) -> str:
    return rf"\raggedright\hspace{{0pt}}{cell}" if cell else ""


def _heading(column: _Column) -> str:
    if len(column.head) == 1:
        return column.head[0]
    side = "r" if column.form == "r" else "l"
    lines = r"\\".join(column.head)
    return rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{lines}\end{{tabular}}"


FORMATS = {"csv": "text/csv", "md": "text/markdown", "tex": "text/x-tex"}


def as_csv(frame: pd.DataFrame, source: str = "") -> str:
    """CSV (RFC 4180) with all digits. Text that a spreadsheet would run as a formula gets a leading apostrophe.

    The first line is the header, so that every reader takes it; `source`, if any, is the last column of each row.
    """
    out = io.StringIO()
    last = [csv_cell(escape_line(source))] * bool(source)
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*map(_cell, frame.columns), *["source"] * bool(source)])
    for row in zip(*(frame[name].tolist() for name in frame.columns), strict=True):
        writer.writerow([*map(_cell, row), *last])
    return out.getvalue()


def _cell(value: object) -> object:
    is_empty = value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
    return "" if is_empty else csv_cell(value)


def as_markdown(frame: pd.DataFrame) -> str:
    """A Markdown table with all columns of a frame, whatever these are, under their names."""
    head = [markdown(str(name)) for name in frame.columns]
    lines = [head, ["---"] * len(head), *(map(_markdown_cell, row) for row in rows_of(frame))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown_cell(word: str) -> str:
    return " ".join(filter(None, [word.squares if isinstance(word, FreezeName) else "", markdown(word)]))


def format_table(frame: pd.DataFrame, kind: str, *, caption: str, label: str, source: str) -> str:
    """A frame in one of `FORMATS`, with the source of its numbers as a column in CSV and a comment in LaTeX."""
    if kind == "csv":
        return as_csv(frame, source)
    return as_markdown(frame) if kind == "md" else as_latex(frame, caption=caption, label=label, source=source)
