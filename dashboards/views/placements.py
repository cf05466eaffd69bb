"""Which layers to freeze: the best set at each budget, with what it loses on what its selection did not see."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.contributions import trials_with_sentences
from dashboards.data.selection import Selection
from dashboards.views.drawing import freeze_column, interval_bars, name, numbers
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.best_placement import best_placements
from orchestrator.analysis.layer_curves import FROM_BELOW
from orchestrator.analysis.trial_frame import SAVED

LEAST_SETS = 4  # settings beside the first layers in a sweep about placement
_SYMBOLS = {"seen": "x-thin-open", "loss": "circle"}
_WORDS = {"seen": "on what it was selected by", "loss": "on what selection did not see"}


class Placements(NamedTuple):
    """The best sets of the selected trials.

    Attributes:
        table: As of `best_placement.best_placements`, with `train_size`, `freeze`, `n_layers`.
        cost: What is saved, in words.
    """

    table: pd.DataFrame
    cost: str
    value_name: str


def prepare_placements(selection: Selection) -> Placements:
    """For each train size over all settings that are selected, by the cost of the page."""
    trials, cost = trials_with_sentences(selection), selection.query.cost
    scored = trials.assign(score=trials[selection.column])
    tables = []
    for size, rows in scored.groupby("train_size", sort=False):
        if rows.loc[~rows["strategy"].isin(FROM_BELOW), "cell"].nunique() >= LEAST_SETS:
            tables.append(best_placements(rows, cost).assign(train_size=size))
    cost_name = SAVED.get(cost, cost)
    if not tables:
        return Placements(pd.DataFrame({"train_size": []}), cost_name, selection.value_name)
    cells = trials.drop_duplicates("cell")[["cell", "freeze", "n_layers"]]
    table = pd.concat(tables, ignore_index=True).merge(cells, on="cell")
    return Placements(table, cost_name, selection.value_name)


def draw_placements(info: Placements, look: Look) -> Figure:
    """A line a train size over the budgets; crosses where selection alone would have put it."""
    data: list[dict[str, Any]] = []
    for n, (size, rows) in enumerate(info.table.groupby("train_size", sort=False)):
        for curve, words in _WORDS.items():
            ends = rows.rename(columns={"loss": "mean"}) if curve == "loss" else None
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if curve == "loss" else "markers",
                    "name": name(f"{words}, train size {size:,}"),
                    "x": numbers(rows["saved"], 100),
                    "y": numbers(rows[curve], 100),
                    "customdata": rows["freeze"].map(name).tolist(),
                    "line": {"color": look.line(n)},
                    "marker": {"symbol": _SYMBOLS[curve], "color": look.line(n), "size": 9},
                    "hovertemplate": "%{customdata}: %{y:.2f} points<extra>%{fullData.name}</extra>",
                    **({"error_y": interval_bars(ends, look.line(n), scale=100)} if ends is not None else {}),
                }
            )
    x = axis(f"{info.cost} saved at least (%)")
    return {"data": data, "layout": layout(look, x=x, y=axis("loss (points)", zeroline=True), height=400)}


def placements_table(info: Placements) -> pd.DataFrame:
    """One row per train size and budget."""
    t = info.table
    return pd.DataFrame(
        {
            "train size (sentences)": t["train_size"],
            "saved at least (%)": (100 * t["saved"]).round(1),
            "sets": t["n_sets"],
            "best set": freeze_column(t["freeze"], t["n_layers"]),
            "selected in (% of folds)": (100 * t["agreement"]).round(0),
            "loss seen (points)": (100 * t["seen"]).round(2),
            "loss unseen (points)": (100 * t["loss"]).round(2),
            "from (points)": (100 * t["low"]).round(2),
            "to (points)": (100 * t["high"]).round(2),
            "seeds": t["n_seeds"],
        }
    )


PLACEMENTS = Part(
    "layers-placement",
    "The best set of layers at each budget",
    "Loss of the best setting that saves at least so much, on seeds and sentences that its selection did not see.",
    prepare_placements,
    placements_table,
    draw_placements,
    why_empty=lambda info: (
        ""
        if len(info.table)
        else "This needs a sweep with sets of layers, such as `search: {kind: placement, cells: 40}`, and two seeds."
    ),
    method="For each seed and each half of the dev sentences, the setting with the smallest loss is selected on the "
    "other seeds and the other half, and read on these. The interval is over seeds and sentences. Crosses: the loss "
    "of the best setting on all data, which is too good, as the best of many was also lucky.",
)
