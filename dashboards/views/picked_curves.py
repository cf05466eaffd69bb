"""The learning curves of the picked trials."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.axes import axis_name, panels
from dashboards.views.kit.labels import name, numbers, short
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import DASHES, SYMBOLS, Figure, Look, axis
from dashboards.views.picked import Picks, to_compare, words_of
from orchestrator.analysis.freeze_names import layer_strip
from trials.metrics.metric import metric_label


class PickedCurves(NamedTuple):
    """The evaluations of the picked trials.

    Attributes:
        epochs: One row per evaluation, with `number` of the trial.
    """

    picks: Picks
    words: list[str]
    epochs: pd.DataFrame


def prepare_curves(selection: Selection) -> PickedCurves:
    """Every evaluation that the store has."""
    picks = to_compare(selection)
    epochs = selection.snapshot.epochs(picks.trials)
    if not len(epochs):
        raise EmptyPartError("None of these trials has been evaluated yet.")
    numbered = epochs.merge(picks.trials[["trial_id", "number"]], on="trial_id")
    return PickedCurves(picks, words_of(picks), numbered.sort_values(["number", "step"], ignore_index=True))


def draw_curves(info: PickedCurves, look: Look) -> Figure:
    """Score above, loss below; each line is named at its end."""
    metrics = info.picks.trials["metric"].unique().tolist()
    title = f"dev {metric_label(metrics[0])} (%)" if len(metrics) == 1 else "dev score (%)"
    last = float(info.epochs["epoch"].max())
    drawn = panels(look, axis("epoch", range=[0, 1.03 * last]), [title, "dev loss"])  # the names lie beyond
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    labels = [_end_label(row) for row in info.picks.trials.to_dict("records")]
    for panel, (column, scale) in enumerate((("score", 100.0), ("dev_loss", 1.0))):
        ends: list[tuple[float, float, int]] = []
        for number, phrase in enumerate(info.words):
            rows = info.epochs[(info.epochs["number"] == number + 1) & info.epochs[column].notna()]
            if len(rows):
                data.append(_line(rows, numbers(rows[column], scale), number, f"{number + 1} {phrase}", panel, look))
                ends.append((float(rows["epoch"].iloc[-1]), scale * float(rows[column].iloc[-1]), number))
        if ends:
            notes += _labels(ends, labels, panel, look)
    del drawn["legend"]  # which would take room above
    drawn |= {"showlegend": False, "annotations": notes}
    drawn["margin"] = {**drawn["margin"], "r": 24 + 9 * max(map(len, labels))}
    return {"data": data, "layout": drawn}


def _end_label(row: dict[Hashable, Any]) -> str:
    """The number of a trial and what it freezes, as short as a phone needs it."""
    return f"{row['number']} {layer_strip(str(row['freeze']), int(row['n_layers'])) or short(row['freeze'], 12)}"


def _line(rows: pd.DataFrame, y: list[float | None], number: int, title: str, panel: int, look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name(title),
        "yaxis": axis_name(panel),
        "x": numbers(rows["epoch"]),
        "y": y,
        "customdata": [[trial_id] for trial_id in rows["trial_id"]],
        "line": {"color": look.line(number), "dash": DASHES[number], "width": 2},
        "marker": {"symbol": SYMBOLS[number], "size": 7, "color": look.line(number)},
        "hovertemplate": "%{y:.4~f} at epoch %{x:.3~f}<extra>%{fullData.name}</extra>",
    }


def _labels(ends: list[tuple[float, float, int]], labels: list[str], panel: int, look: Look) -> list[dict[str, Any]]:
    """The names at the ends of lines, apart from each other where the lines are not."""
    ordered = sorted(ends, key=lambda end: end[1])
    low, high = ordered[0][1], ordered[-1][1]
    gap = max(high - low, 0.02 * abs(high), 1e-6) / 6
    places: list[float] = []
    for _, y, _ in ordered:
        places.append(max(y, places[-1] + gap) if places else y)
    shift = (sum(places) - sum(y for _, y, _ in ordered)) / len(places)
    return [
        {"text": name(labels[number], 40), "xref": "x", "x": max(x for x, _, _ in ends), "xanchor": "left",
         "xshift": 8, "yref": axis_name(panel), "y": round(place - shift, 4), "yanchor": "middle", "showarrow": False,
         "font": {"color": look.line(number), "size": 12}}
        for place, (_, _, number) in zip(places, ordered, strict=True)
    ]  # fmt: skip


def curves_table(info: PickedCurves) -> pd.DataFrame:
    """One row per evaluation."""
    t = info.epochs
    return pd.DataFrame(
        {
            "number": t["number"],
            "trial": t["trial_id"],
            "epoch": t["epoch"].round(4),
            "dev score (%)": (100 * t["score"]).round(4),
            "dev loss": t["dev_loss"].round(4),
            "train loss": t["train_loss"].round(4),
        }
    )


CURVES = Part(
    "compare-curves",
    "Learning curves",
    "Dev score (top) and dev loss (bottom) of each picked trial after each evaluation.",
    prepare_curves,
    curves_table,
    draw_curves,
    of_store=True,
)
