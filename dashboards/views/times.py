"""How long training takes, by setting and device."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import Places, completed_of, places_of, setting_columns, shown_cells
from dashboards.views.drawing import (
    axis_name,
    bar_marker,
    cell_name,
    freeze_name,
    interval_bars,
    name,
    numbers,
    panels,
    with_note,
    without_few,
)
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.trial_frame import TRAINING_COST
from orchestrator.config.quantities import counted

MAX_DEVICES = 4


class Times(NamedTuple):
    """Training times.

    Attributes:
        table: One row per cell and device: `device`, `cells.KEYS`, `n`, `mean`, `low`, `high` (s), `steps_s` (mean time
            in optimiser steps alone).
        devices: One per panel; the one with most trials first.
    """

    table: pd.DataFrame
    devices: tuple[str, ...]
    places: Places
    note: str


def prepare_times(selection: Selection) -> Times:
    """Training time of the completed trials, by device."""
    shown = shown_cells(selection.trials)
    done = completed_of(selection.trials, shown.table)
    done = done.assign(device=done["device"].fillna("unrecorded device"))
    found = describe_cells(done, ["device", "cell"], TRAINING_COST)
    steps = done.groupby(["device", "cell"])["train_s"].mean().rename("steps_s").reset_index()
    table = shown.table.merge(without_few(found)[["device", "cell", "n", "mean", "low", "high"]], on="cell")
    table = table.merge(steps, on=["device", "cell"])
    devices = tuple(done["device"].value_counts().index[:MAX_DEVICES])
    others = done["device"].nunique() - len(devices)
    more = f"{counted(others, 'more device')} in the table only." if others > 0 else ""
    return Times(table, devices, places_of(shown.table, done), " ".join(filter(None, [shown.note, more])))


def draw_times(info: Times, look: Look) -> Figure:
    """Bars from zero."""
    data: list[dict[str, Any]] = []
    for panel, device in enumerate(info.devices):
        for _, rows in info.table[info.table["device"] == device].groupby("freeze", sort=False):
            bars = _bars(rows, panel, info.places, look)
            seen = any(trace["legendgroup"] == bars["legendgroup"] for trace in data)
            data.append({**bars, "showlegend": not seen})
    titles = [f"training time (s)<br>on {name(device, 40)}" for device in info.devices]
    drawn = panels(look, info.places.axis(), titles, rangemode="tozero")
    return with_note({"data": data, "layout": {**drawn, "bargap": 0.25, "barmode": "overlay"}}, look, info.note)


def _bars(rows: pd.DataFrame, panel: int, spots: Places, look: Look) -> dict[str, Any]:
    first = next(rows.itertuples())
    words = cell_name(first, several=False)
    return {
        "type": "bar",
        "name": words,
        "legendgroup": words,
        "yaxis": axis_name(panel),
        "x": [spots.at[cell] for cell in rows["cell"]],
        "y": numbers(rows["mean"]),
        "error_y": interval_bars(rows, look.text),
        "marker": bar_marker(look, first),
        "customdata": [[name(freeze_name(row.freeze)), row.n, row.train_size] for row in rows.itertuples()],
        "hovertemplate": "%{y:,.4~g} s<br>%{customdata[0]}, train size %{customdata[2]:,}, n=%{customdata[1]}"
        "<extra></extra>",
    }


def times_table(info: Times) -> pd.DataFrame:
    """One row per cell and device."""
    t = info.table
    return pd.DataFrame(
        {
            "device": t["device"],
            **setting_columns(t),
            "n": t["n"],
            "training time (s)": t["mean"].round(4),
            "95 % from (s)": t["low"].round(4),
            "95 % to (s)": t["high"].round(4),
            "in optimiser steps (s)": t["steps_s"].round(4),
        }
    )


TIMES = Part(
    "cost-time",
    "Training time",
    "Mean training time of a trial, one panel per device.",
    prepare_times,
    times_table,
    draw_times,
    lambda info: "" if info.table["mean"].notna().any() else "No completed trial has its training time recorded.",
    method="Training time is optimiser steps and the pass through the frozen layers, without set-up, evaluation and "
    "waiting. Times compare only under the same conditions (device, threads, share of the GPU). 95 % intervals "
    "(Student's t on logarithms) from three seeds on.",
)
