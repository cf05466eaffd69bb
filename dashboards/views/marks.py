"""What figures of several views are made of: numbers that JSON can hold, names that are no HTML, notes, panels."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboards.views.cells import Places
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.savings import COUNTED

MOST_CELLS = 30  # in a figure that draws a line or a row a cell
_LONGEST = 60
_GAP = 0.09  # between panels, as a share of the height


def name(text: object, most: int = _LONGEST) -> str:
    """A name from the data as plotly may write it: short, and without HTML or a place for a value (`%{x}`)."""
    return html.escape(short(text, most)).replace("%{", "%&#123;")


def short(text: object, most: int = _LONGEST) -> str:
    """A name cut to what a figure has room for; not escaped."""
    words = str(text)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def numbers(values: npt.ArrayLike, scale: float = 1.0, digits: int = 4) -> list[float | None]:
    """As JSON can hold them: rounded after scaling, None for what is no number."""
    scaled = np.round(np.asarray(values, dtype=np.float64) * scale, digits)
    return [value if ok else None for value, ok in zip(scaled.tolist(), np.isfinite(scaled).tolist(), strict=True)]


def with_note(figure: Figure, look: Look, *notes: str, width: int = 110) -> Figure:
    """The figure with notes below the title of its x axis, whose margin grows; the same where there are none."""
    words = " ".join(note for note in notes if note)
    if not words:
        return figure
    lines = "<br>".join(html.escape(line, quote=False) for line in textwrap.wrap(words, width))
    drawn = figure["layout"]
    title = drawn["xaxis"]["title"]
    told = f'<span style="font-size:12px;color:{look.muted}">{lines}</span>'
    text = "<br>".join(filter(None, [title["text"], told]))
    named = {"xaxis": {**drawn["xaxis"], "title": {**title, "text": text}}}
    if "margin" in drawn:
        named["margin"] = {**drawn["margin"], "b": drawn["margin"]["b"] + 20 * (lines.count("<br>") + 1)}
    return {**figure, "layout": {**drawn, **named}}


def panels(look: Look, x: dict[str, Any], titles: Sequence[str], *, each: int = 260, **y: Any) -> dict[str, Any]:
    """A layout of panels above each other that share their x axis: `y`, `y2`, ... from the top."""
    n = len(titles)
    height = (1 - _GAP * (n - 1)) / n
    domains = [[max(0.0, 1 - height - k * (height + _GAP)), 1 - k * (height + _GAP)] for k in range(n)]
    drawn = layout(look, x={**x, "anchor": axis_name(n - 1)}, y={}, height=120 + each * n)
    lines = drawn.pop("yaxis")
    for k, (title, domain) in enumerate(zip(titles, domains, strict=True)):
        drawn[f"yaxis{k + 1 if k else ''}"] = {**lines, **axis(title, **y), "domain": domain}
    return drawn


def axis_name(panel: int) -> str:
    """Of a panel's y axis."""
    return f"y{panel + 1}" if panel else "y"


def ticks(spots: Places) -> dict[str, Any]:
    """Those of an axis; a word of `cells.places` is lines with a break between them."""
    words = ["<br>".join(name(line) for line in lines.split("<br>")) for lines in spots.words]
    return {"tickvals": spots.ticks, "ticktext": words}


def cell_colour(look: Look, row: Any) -> str:
    """Of a row with `cell`, `baseline`, `depth` and `n_layers`: its depth's, of the baseline the text's."""
    return look.text if row.cell == row.baseline else look.depth(int(row.depth), int(row.n_layers))


def cell_symbol(look: Look, row: Any) -> str:
    """Of a row with `strategy` and `embeddings`: hollow where the embeddings are frozen."""
    symbol = look.strategy(str(row.strategy))[1]
    return f"{symbol}-open" if row.embeddings else symbol


def cell_words(row: Any, *, several: bool) -> str:
    """What is frozen, and the train size where there are several."""
    return f"{name(row.freeze)}, {row.train_size:,}" if several else name(row.freeze)


KEYS = ["train_size", "cell", "baseline", "freeze", "strategy", "depth", "embeddings", "n_layers"]
_ORDER = ["train_size", "depth", "strategy", "embeddings", "cell"]


class Few(NamedTuple):
    """Some cells of a selection.

    Attributes:
        table: One row a cell with `KEYS`, by train size, depth, strategy and embeddings.
        note: In words, where others are left out; else empty.
    """

    table: pd.DataFrame
    note: str


def few_cells(trials: pd.DataFrame, most: int = MOST_CELLS, *, sizes: int | None = None) -> Few:
    """The cells of the largest train sizes that `most` rows can hold (of at most `sizes` sizes); of one, the first."""
    cells = trials.drop_duplicates("cell")[KEYS].sort_values(_ORDER, ignore_index=True)
    counts = cells["train_size"].value_counts().sort_index(ascending=False)
    fits = max(1, int((counts.cumsum() <= most).sum()))
    shown = counts.index[: fits if sizes is None else min(fits, sizes)]
    table = cells[cells["train_size"].isin(shown)].head(most).reset_index(drop=True)
    if len(table) == len(cells):
        return Few(table, "")
    told = ", ".join(f"{size:,}" for size in sorted(shown)[:6]) + (", ..." if len(shown) > 6 else "")
    plural = "s" * (len(shown) != 1)
    words = f"Only {len(table)} of {len(cells)} cells are drawn: train size{plural} {told}."
    return Few(table, f"{words} Choose train sizes to see others.")


def completed_of(trials: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The completed trials of some cells."""
    return trials[(trials["state"] == "completed") & trials["cell"].isin(cells["cell"])]


class OneDevice(NamedTuple):
    """Trials whose costs may be compared.

    Attributes:
        trials: Those of one device; all where the cost is counted, not measured.
        note: Which devices were left out; empty where none was.
    """

    trials: pd.DataFrame
    note: str


def one_device(trials: pd.DataFrame, cost: str) -> OneDevice:
    """The trials of the device that most of them ran on: times, memory and energy of two devices do not compare."""
    if cost in COUNTED or not len(trials):
        return OneDevice(trials, "")
    counts = trials["device"].value_counts()
    unnamed = int(trials["device"].isna().sum())
    if not len(counts):
        return OneDevice(trials.iloc[:0], "No trial says which device it ran on.")
    told = [f"{short(device)} ({n} trials)" for device, n in counts.iloc[1:].items()]
    told += [f"an unnamed device ({unnamed} trials)"] * bool(unnamed)
    shown = trials[trials["device"] == counts.index[0]]
    note = (
        f"Different devices do not compare: {short(counts.index[0])} is drawn, not {', '.join(told)}." if told else ""
    )
    return OneDevice(shown, note)
