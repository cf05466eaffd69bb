"""Does it hold for other corpora and models? A panel for every corpus and model of a sweep."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection, whole_sweep
from dashboards.views.kit.axes import grid, heading, panel_axes
from dashboards.views.kit.cells import drawn_of, loss_columns, panel_titles, verdicts, with_cells
from dashboards.views.kit.labels import cell_name, freeze_column, name, numbers
from dashboards.views.kit.marks import cell_colour, cell_symbol, interval_bars
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Figure, Look, axis
from orchestrator.analysis.decide import loss_table

MOST_PANELS, MOST_NAMED = 24, 9
_EACH, _COLUMNS = 250, 3  # height of a panel in pixels, panels in a row


class Panels(NamedTuple):
    """Cells in panels.

    Attributes:
        table: One row per cell: `cells.KEYS`, `panel`, `share` (% of the layers that are frozen), and the columns of
            `loss_table`.
        titles: Of the panels.
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
    table = table.assign(panel=table.groupby(where, sort=False).ngroup(), share=share_of_layers(table))
    titles = panel_titles(table, where)
    return Panels(table, titles, drawn_of(MOST_PANELS, len(titles), "panels"))


def share_of_layers(table: pd.DataFrame) -> pd.Series:
    """(cells,) how much of the encoder each freezes, in percent of its layers."""
    return 100 * table["depth"] / table["n_layers"].clip(lower=1)


def draw_panels(info: Panels, look: Look) -> Figure:
    """Small multiples on the same axes: the loss against the share of layers frozen."""
    shown = info.titles[:MOST_PANELS]
    columns = min(_COLUMNS, len(shown))
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
            "x": numbers(table["share"]), "y": numbers(table["loss"]),
            "error_y": interval_bars(ends, look.muted),
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
