"""Does it hold for other corpora and models? Every corpus and model of a sweep, and all sweeps together."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.frames import EVERYTHING
from dashboards.data.selection import Selection, whole_sweep
from dashboards.views.kit.cells import KEYS, drawn_of, loss_columns, panel_titles, verdicts, with_cells
from dashboards.views.kit.drawing import (
    cell_colour,
    cell_name,
    cell_symbol,
    freeze_column,
    grid,
    heading,
    interval_bars,
    name,
    numbers,
    panel_axes,
    with_note,
)
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import DASHES, SYMBOLS, Figure, Look, axis, layout
from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.describe import describe_cells
from trials.freeze.strategies import is_from_below

MOST_PANELS, MOST_LINES, MOST_NAMED = 24, 40, 9
# Lee, Tang & Lin 2019, "What would Elsa do?": a quarter of the layers, the last ones, keep 90 % of the quality.
_LEE_SHARE, _LEE_QUALITY = 75.0, 90.0
_EACH, _COLUMNS = 250, 3  # height of a panel in pixels, panels in a row


class Panels(NamedTuple):
    """Cells in panels or lines.

    Attributes:
        table: One row per cell: `cells.KEYS`, `panel` (or `line`), `share` (% of the layers that are frozen), and for
            panels those of `loss_table`, for lines `quality` (% of the baseline's mean) and `n`.
        titles: Of the panels or lines.
    """

    table: pd.DataFrame
    titles: list[str]
    note: str


def prepare_panels(selection: Selection) -> Panels:
    """A panel per task, corpus, model and train size, in the order of the plan."""
    whole = whole_sweep(selection)
    trials = whole.trials
    error = EmptyPartError("This sweep has one corpus and model.")
    if not len(whole.completed):
        raise error
    where = ["task", "corpus", "model", "train_size"]
    table = with_cells(loss_table(whole.with_sentences, whole.column, whole.plan), trials, *where)
    table = table[table["n_pairs"] > 0].reset_index(drop=True)
    if len(table[["corpus", "model"]].drop_duplicates()) < 2:
        raise error
    table = table.assign(panel=table.groupby(where, sort=False).ngroup(), share=_share(table))
    titles = panel_titles(table, where)
    return Panels(table, titles, drawn_of(MOST_PANELS, len(titles), "panels"))


def _share(table: pd.DataFrame) -> pd.Series:
    return 100 * table["depth"] / table["n_layers"].clip(lower=1)


def _word(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def draw_panels(info: Panels, look: Look) -> Figure:
    """Small multiples on the same axes: the loss against the share of layers frozen."""
    shown = info.titles[:MOST_PANELS]
    columns = 1 if look.narrow else min(_COLUMNS, len(shown))
    x = axis("layers frozen (%)", range=[-6, 106], tickvals=[0, 25, 50, 75, 100])
    titles = [name(title) for title in shown]
    drawn = grid(look, x, axis("loss (points)", zeroline=True), titles, columns=columns, panel_height=_EACH)
    data = []
    for n in range(len(shown)):
        data += _marks(info.table[info.table["panel"] == n], panel_axes(n), look)
    if info.note:
        drawn["annotations"].append({**heading(info.note, 1, 1), "xanchor": "right", "yshift": 22})
    keys = _keys(info.table[info.table["panel"] < len(shown)], look)
    data += keys
    drawn["showlegend"] = len(keys) <= MOST_NAMED
    drawn["legend"] |= {"yref": "container", "y": 1, "yanchor": "top"}
    return {"data": data, "layout": drawn}


def _marks(table: pd.DataFrame, place: dict[str, str], look: Look) -> list[dict[str, Any]]:
    ends = table.assign(mean=table["loss"])
    labels = [cell_name(row, several=False) for row in table.itertuples()]
    return [
        {
            "type": "scatter", "mode": "markers", **place, "name": "loss", "showlegend": False,
            "x": numbers(table["share"]), "y": numbers(table["loss"], 100),
            "error_y": interval_bars(ends, look.muted, scale=100),
            "marker": {
                "size": 10,
                "color": [cell_colour(look, row) for row in table.itertuples()],
                "symbol": [cell_symbol(look, row) for row in table.itertuples()],
            },
            "customdata": [[label, verdict] for label, verdict in zip(labels, verdicts(table), strict=True)],
            "hovertemplate": "%{customdata[0]}: %{y:+.2f} points<br>%{customdata[1]}<extra></extra>",
        }
    ]  # fmt: skip


def _keys(table: pd.DataFrame, look: Look) -> list[dict[str, Any]]:
    """The settings of all panels, for the legend."""
    settings = table.drop_duplicates(["freeze", "n_layers"]).sort_values(
        ["n_layers", "depth", "strategy", "embeddings"], kind="stable"
    )
    return [
        {
            "type": "scatter", "mode": "markers", "x": [None], "y": [None], "hoverinfo": "skip",
            "name": cell_name(row, several=False),
            "marker": {"size": 10, "color": cell_colour(look, row), "symbol": cell_symbol(look, row)},
        }
        for row in settings.itertuples()
    ]  # fmt: skip


def panels_table(info: Panels) -> pd.DataFrame:
    """One row per setting."""
    t = info.table
    return pd.DataFrame(
        {
            **{key.replace("_", " "): t[key] for key in ("task", "corpus", "model")},
            "train size (sentences)": t["train_size"],
            "frozen": freeze_column(t["freeze"], t["n_layers"]),
            "layers frozen (%)": t["share"].round(1),
            **loss_columns(t),
            "verdict": verdicts(t),
            "pairs": t["n_pairs"],
        }
    )


def prepare_synthesis(selection: Selection) -> Panels:
    """Quality as a share of full tuning, over the cells that freeze from the embeddings up: a line per sweep, task,
    corpus, model and train size with a completed baseline.
    """
    tables: list[pd.DataFrame] = []
    names: list[str] = []
    snapshot = selection.snapshot
    for sweep in snapshot.sweeps.values():
        if sweep.name == EVERYTHING and len(snapshot.sweeps) > 1:
            continue
        done = whole_sweep(selection, sweep).completed
        kinds = list(zip(done["strategy"], done["n_layers"], strict=True))
        lowest = {kind for kind in {*kinds} if is_from_below(*kind)}
        below = done[[kind in lowest for kind in kinds]]
        for key, rows in below.groupby(["task", "corpus", "model", "train_size"], sort=False):
            cells = describe_cells(rows, KEYS, "score")
            base = cells[cells["cell"] == cells["baseline"]]
            if not len(base) or not base["mean"].iloc[0] > 0 or len(cells) < 2:
                continue
            quality = 100 * cells["mean"] / base["mean"].iloc[0]
            tables.append(cells.assign(line=len(names), share=_share(cells), quality=quality))
            of_sweep = [sweep.name] * (len(snapshot.sweeps) > 1)
            names.append(", ".join([*of_sweep, *map(_word, key)]))
    if len(names) < 2:
        raise EmptyPartError("This needs two corpora, models or train sizes with a baseline.")
    table = pd.concat(tables, ignore_index=True).sort_values(["line", "share", "embeddings"], kind="stable")
    return Panels(table.reset_index(drop=True), names, drawn_of(MOST_LINES, len(names), "lines"))


def draw_synthesis(info: Panels, look: Look) -> Figure:
    """A line each, named at its end, over the rule of thumb of Lee et al."""
    data = []
    for n, title in enumerate(info.titles[:MOST_LINES]):
        rows = info.table[info.table["line"] == n]
        hover = [[cell_name(row, several=False), row.n] for row in rows.itertuples()]
        line = {"dash": DASHES[n // 6 % len(DASHES)], "color": look.line(n)}
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": name(title), "x": numbers(rows["share"]),
                "y": numbers(rows["quality"]), "customdata": hover, "line": line,
                "marker": {"symbol": SYMBOLS[n % len(SYMBOLS)], "size": 8, "color": look.line(n)},
                "hovertemplate": "%{y:.1f} % of full tuning<br>%{customdata[0]} (n=%{customdata[1]})"
                "<extra>%{fullData.name}</extra>",
            }
        )  # fmt: skip
    rule: dict[str, Any] = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": _LEE_QUALITY, "y1": _LEE_QUALITY,
            "line": {"color": look.muted, "width": 1, "dash": "dot"}}  # fmt: skip
    rule_of = {"text": "Lee et al. 2019: 75 % frozen keeps 90 %", "x": _LEE_SHARE, "y": _LEE_QUALITY, "showarrow": True,
             "arrowhead": 2, "ax": -60, "ay": 28, "font": {"size": 12, "color": look.muted}}  # fmt: skip
    if look.narrow:  # where no line runs yet
        text = str(rule_of["text"]).replace(": ", ":<br>")  # in one line it ends outside
        at = {"x": 0, "xanchor": "left", "align": "left", "yshift": -18}
        rule_of = {**rule_of, **at, "text": text, "showarrow": False}
    drawn = layout(
        look, x=axis("layers frozen (% of all)", range=[-4, 104]), y=axis("quality (% of full tuning)"), height=460,
        shapes=[rule], annotations=[rule_of], showlegend=len(data) <= MOST_NAMED,
    )  # fmt: skip
    return with_note({"data": data, "layout": drawn}, look, info.note)


def synthesis_table(info: Panels) -> pd.DataFrame:
    """One row per setting."""
    t = info.table
    return pd.DataFrame(
        {
            "line": [info.titles[n] for n in t["line"]],
            "frozen": freeze_column(t["freeze"], t["n_layers"]),
            "layers frozen (%)": t["share"].round(1),
            "quality (% of full tuning)": t["quality"].round(2),
            "trials": t["n"],
        }
    )


PANELS = Part(
    "across-panels",
    "Differences by corpus and model",
    "A panel for each corpus, model and train size of the sweep, on the same axes; intervals are those that decide.",
    prepare_panels,
    panels_table,
    draw_panels,
    method="Score minus that of the baseline, paired by seed, for all settings of the sweep.",
    if_any=True,
    of_store=True,
    shows=whole_sweep,
)
SYNTHESIS = Part(
    "across-synthesis",
    "Quality kept, of all sweeps",
    "Share of the layers frozen from the embeddings up, against quality as a share of full tuning.",
    prepare_synthesis,
    synthesis_table,
    draw_synthesis,
    method="Mean score of a setting divided by that of its baseline, each over its seeds.",
    if_any=True,
    of_store=True,
    shows=whole_sweep,
)
