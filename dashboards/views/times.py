"""How long training takes: bars by cell, a panel a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import Places, places
from dashboards.views.marks import (
    axis_name,
    completed_of,
    few_cells,
    name,
    numbers,
    panels,
    ticks,
    with_note,
)
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.trial_frame import TRAINING_COST

MOST_DEVICES = 4
_PATTERNS = {"first_k": "/", "last_k": "\\", "alternating": "x", "all_encoder": ".", "layers": "-"}


class Times(NamedTuple):
    """Training times.

    Attributes:
        table: A row a cell and device: `device`, `marks.KEYS`, `n`, `mean`, `low`, `high` (s), `steps_s` (the mean
            without the states of frozen layers).
        devices: The panels, that with most trials first.
        places: Of the cells.
        note: What is left out, in words.
    """

    table: pd.DataFrame
    devices: tuple[str, ...]
    places: Places
    note: str


def prepare_times(selection: Selection) -> Times:
    """Compute time of the completed trials; a trial whose device is not known counts under that."""
    few = few_cells(selection.trials)
    done = completed_of(selection.trials, few.table)
    done = done.assign(device=done["device"].fillna("a device not recorded"))
    found = describe_cells(done, ["device", "cell"], TRAINING_COST)
    steps = done.groupby(["device", "cell"])["train_s"].mean().rename("steps_s").reset_index()
    ends = {end: found[end].where(~found["dots_only"]) for end in ("low", "high")}
    table = few.table.merge(found[["device", "cell", "n", "mean"]].assign(**ends), on="cell")
    table = table.merge(steps, on=["device", "cell"])
    devices = tuple(done["device"].value_counts().index[:MOST_DEVICES])
    others = done["device"].nunique() - len(devices)
    more = f"{others} more devices are in the table only." if others > 0 else ""
    spots = places(few.table.assign(n=few.table["cell"].map(done["cell"].value_counts()).fillna(0).astype(int)))
    return Times(table, devices, spots, " ".join(filter(None, [few.note, more])))


def no_times(info: Times) -> str:
    """In words."""
    return "" if info.table["mean"].notna().any() else "No completed trial has its training time recorded."


def draw_times(info: Times, look: Look) -> Figure:
    """Bars from zero."""
    data: list[dict[str, Any]] = []
    for panel, device in enumerate(info.devices):
        for strategy, rows in info.table[info.table["device"] == device].groupby("strategy", sort=False):
            seen = any(trace["legendgroup"] == strategy for trace in data)
            data.append(_bars(rows, str(strategy), panel, info.places, look, named=not seen))
    titles = [f"training time (s)<br>on {name(device, 40)}" for device in info.devices]
    drawn = panels(look, axis(info.places.title, showgrid=False, **ticks(info.places)), titles, rangemode="tozero")
    return with_note({"data": data, "layout": {**drawn, "bargap": 0.25}}, look, info.note)


def _bars(rows: pd.DataFrame, strategy: str, panel: int, spots: Places, look: Look, *, named: bool) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name(strategy.replace("_", " ")),
        "legendgroup": strategy,
        "showlegend": named,
        "yaxis": axis_name(panel),
        "x": [spots.at[cell] for cell in rows["cell"]],
        "y": numbers(rows["mean"]),
        "error_y": {
            "type": "data", "symmetric": False, "color": look.text, "thickness": 1.5, "width": 4,
            "array": numbers(rows["high"] - rows["mean"]), "arrayminus": numbers(rows["mean"] - rows["low"]),
        },
        "marker": {"color": look.strategy(strategy)[0], "pattern": {"shape": _PATTERNS.get(strategy, "")}},
        "customdata": [[name(row.freeze), row.n, row.train_size] for row in rows.itertuples()],
        "hovertemplate": "%{y:,.4~g} s<br>%{customdata[0]}, train size %{customdata[2]:,}, n=%{customdata[1]}"
        "<extra></extra>",
    }  # fmt: skip


def times_table(info: Times) -> pd.DataFrame:
    """A row a cell and device."""
    t = info.table
    return pd.DataFrame(
        {
            "device": t["device"],
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
            "n": t["n"],
            "training time (s)": t["mean"].round(4),
            "95 % from (s)": t["low"].round(4),
            "95 % to (s)": t["high"].round(4),
            "of it optimiser steps (s)": t["steps_s"].round(4),
        }
    )


TIMES = Part(
    "cost-time",
    "Training time",
    "Mean training time of a trial: optimiser steps and the states of frozen layers, without set-up, evaluation and "
    "waiting. A panel a device: their heights do not compare. 95 % intervals from three seeds on.",
    prepare_times,
    times_table,
    draw_times,
    no_times,
)
