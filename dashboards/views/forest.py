"""What each setting loses against its baseline: row by row, and a panel for every corpus and model of a sweep."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection, whole_sweep
from dashboards.views.kit.cells import (
    Shown,
    loss_columns,
    panel_titles,
    setting_columns,
    verdicts,
    with_cells,
)
from dashboards.views.kit.drawing import (
    Diamonds,
    Figure,
    Look,
    axis,
    cell_colour,
    cell_name,
    cell_symbol,
    forest_plot,
    freeze_column,
    grid,
    heading,
    interval_bars,
    name,
    numbers,
    panel_axes,
    row_axis,
    with_note,
)
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.analysis.decide import loss_table

MANY = 10  # settings: from here on a panel each train size
MAX_ROWS = 80  # of the figure
_MOST_BESIDE = 3  # panels
ONLY_BASELINE = "Only the baseline is here, so there is nothing to compare with it."
NO_PAIRS = "No trial has a completed baseline with the same seed. Run the baseline (freeze: none)."


def prepare_forest(selection: Selection) -> Shown:
    """Losses of every cell that has a baseline: the columns of `decide.loss_table` and `cells.KEYS`."""
    losses = loss_table(selection.of_questions.with_sentences, selection.column, selection.plan)
    table = with_cells(losses, selection.trials).sort_values("train_size", kind="stable", ignore_index=True)
    if not len(table):
        raise EmptyPartError(ONLY_BASELINE)
    if not (table["n_pairs"] > 0).any():
        raise EmptyPartError(NO_PAIRS)
    return Shown(table, value_name=selection.value_name)


def draw_forest(info: Shown, look: Look) -> Figure:
    """Points with intervals; filled if the interval that decides excludes zero."""
    paired = info.table[info.table["n_pairs"] > 0]
    if paired["freeze"].nunique() >= MANY and paired["train_size"].nunique() > 1:
        return _forest_panels(info, paired, look)
    table = paired[-MAX_ROWS:]
    several = info.table["train_size"].nunique() > 1
    labels = [f"{cell_name(row, several=several)} (n={row.n_pairs})" for row in table.itertuples()]
    marks = Diamonds(
        labels,
        table["difference"].isin(["worse", "better"]).tolist(),
        [look.depth(row.depth, row.n_layers) for row in table.itertuples()],
        [[label, verdict] for label, verdict in zip(labels, verdicts(table), strict=True)],
        "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    )
    left_out = f"The {MAX_ROWS} of {len(paired)} settings with the largest train sizes; the table has all."
    figure = forest_plot(table, marks, look, f"loss of {info.value_name} (points)")
    return with_note(figure, look, left_out if len(paired) > MAX_ROWS else "", _too_few(table))


def _too_few(table: pd.DataFrame) -> str:
    """A note on the marks without an interval."""
    reasons = "; ".join(dict.fromkeys(why for why in table["why_none"] if why))
    return f"Without an interval: too few seeds to decide ({reasons})." if reasons else ""


def _forest_panels(info: Shown, paired: pd.DataFrame, look: Look) -> Figure:
    """Many settings: a panel for each of the largest train sizes side by side, with a row for each freeze."""
    sizes = sorted(paired["train_size"].unique().tolist(), reverse=True)[:_MOST_BESIDE]
    settings = paired.drop_duplicates("freeze").sort_values(["depth", "strategy", "embeddings"])
    at = {freeze: n for n, freeze in enumerate(settings["freeze"])}
    labels = [cell_name(row, several=False) for row in settings.itertuples()]
    x = axis(f"loss of {info.value_name} (points)", zeroline=True)
    height = 40 + 20 * len(labels)
    titles = [f"{size:,} for training" for size in sizes]
    drawn = grid(look, x, row_axis(labels), titles, columns=len(sizes), panel_height=height)
    data = []
    for n, size in enumerate(sizes):
        rows = paired[paired["train_size"] == size]
        names = [f"{cell_name(row, several=False)} (n={row.n_pairs})" for row in rows.itertuples()]
        marks = Diamonds(
            names, rows["difference"].isin(["worse", "better"]).tolist(),
            [cell_colour(look, row) for row in rows.itertuples()],
            [[label, verdict] for label, verdict in zip(names, verdicts(rows), strict=True)],
            "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
        )  # fmt: skip
        figure = forest_plot(rows, marks, look, "")
        place = {**panel_axes(n), "y": [at[freeze] for freeze in rows["freeze"]]}
        data += [trace | place for trace in figure["data"]]
    left_out = paired["train_size"].nunique() - len(sizes)
    note = f"{left_out} smaller train sizes are in the table; select them above." if left_out else ""
    return with_note({"data": data, "layout": drawn}, look, note, _too_few(paired))


def forest_table(info: Shown) -> pd.DataFrame:
    """One row per setting with all tests."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            **loss_columns(t),
            "correction": t["method"],
            "median (points)": t["median"].astype("float64").round(4),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "verdict": verdicts(t),
        }
    )


FOREST = Part(
    "depth-forest",
    "Loss against the baseline",
    "What each setting loses against training everything; filled diamonds are shown to differ.",
    prepare_forest,
    forest_table,
    draw_forest,
    method="The baseline trial minus each trial with the same seed and train subset: positive is worse. The line is "
    "the interval over seeds and dev sentences (over seeds alone where the contributions of sentences were not "
    "recorded) that decides: each end holds with chance 95 %, for all settings of one train size together (max-t) "
    "and at every look from 3 seeds on. A difference is shown where it excludes zero.",
)


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
    note = f"{MOST_PANELS} of {len(titles)} panels are drawn; the table has all." if len(titles) > MOST_PANELS else ""
    return Panels(table, titles, note)


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
