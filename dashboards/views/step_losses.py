"""The training loss of every optimiser step, drawn as in Brown's study."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboards.data.duckdb_mirror import SEEDS, lowest_seeds
from dashboards.data.selection import Selection
from dashboards.views.kit.axes import with_note
from dashboards.views.kit.cells import completed_of, setting_columns, shown_cells
from dashboards.views.kit.labels import cell_name, numbers
from dashboards.views.kit.marks import cell_colour
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Figure, Look, axis, layout
from orchestrator.config.quantities import counted

MAX_CELLS = 8
_MAX_POINTS = 600  # per line; SVG draws more slowly


class Steps(NamedTuple):
    """The training loss of every step of a few trials.

    Attributes:
        losses: One row per step, by trial and step: `cell`, `trial_id`, `seed`, `step`, `loss`, `smooth`.
        cells: Those drawn; `cells.KEYS`.
        window: Number of steps that a smoothed value averages.
    """

    losses: pd.DataFrame
    cells: pd.DataFrame
    window: int
    note: str


def prepare_steps(selection: Selection) -> Steps:
    """The baseline and as many selected cells of the largest train size as fit, the shallowest first."""
    shown = shown_cells(selection.trials, sizes=1)
    is_baseline = shown.table["cell"] == shown.table["baseline"]
    cells = pd.concat([shown.table[is_baseline], shown.table[~is_baseline]], ignore_index=True).head(MAX_CELLS)
    trials = lowest_seeds(completed_of(selection.trials, cells))
    losses = selection.snapshot.step_losses(trials).merge(trials[["trial_id", "cell", "seed"]], on="trial_id")
    losses = losses[np.isfinite(losses["loss"])].reset_index(drop=True)
    if not len(losses):
        raise EmptyPartError("The trials shown have no loss of single steps recorded.")
    longest = int(losses.groupby("trial_id").size().max())
    window = max(5, longest // 50) | 1  # odd, so that it is centred
    rolled = losses.groupby("trial_id", sort=False)["loss"].rolling(window, center=True, min_periods=1).mean()
    smooth = rolled.droplevel(0).reindex(losses.index)
    left = len(shown.table) - len(cells)
    more = f"Not drawn: {counted(left, 'more setting')}; select strategies to see others." if left else ""
    note = f"Strong lines: mean of {window} steps. Faint lines: single steps."
    return Steps(losses.assign(smooth=smooth), cells, window, " ".join(filter(None, [note, more, shown.note])))


def draw_steps(info: Steps, look: Look) -> Figure:
    """Two lines per trial: single steps (faint) and smoothed (strong); a colour and dash per cell."""
    data: list[dict[str, Any]] = []
    by_cell = dict(iter(info.losses.groupby("cell")))
    for row in info.cells.itertuples():
        if row.cell not in by_cell:
            continue
        for number, (seed, losses) in enumerate(by_cell[row.cell].groupby("seed")):
            data += _step_lines(losses, row, int(seed), look, first=number == 0)
    y = axis("training loss of a step", rangemode="tozero")
    drawn = layout(look, x=axis("optimiser steps", rangemode="tozero"), y=y, height=440)
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _step_lines(losses: pd.DataFrame, row: Any, seed: int, look: Look, *, first: bool) -> list[dict[str, Any]]:
    colour, label = cell_colour(look, row), cell_name(row, several=False)
    steps, raw = losses["step"].to_numpy(), losses["loss"].to_numpy()
    thin, few = _extremes(raw, _MAX_POINTS), np.unique(np.linspace(0, len(raw) - 1, _MAX_POINTS).astype(int))
    width = 1 if row.embeddings else 2.5  # as its symbol is hollow elsewhere
    shared = {"type": "scatter", "mode": "lines", "legendgroup": row.cell}
    return [
        {
            **shared, "name": f"{label}, each step", "showlegend": False, "hoverinfo": "skip",
            "x": steps[thin].tolist(), "y": numbers(raw[thin]), "line": {"color": colour, "width": 0.5},
            "opacity": 0.35,
        },
        {
            **shared, "name": label, "showlegend": first,
            "x": steps[few].tolist(), "y": numbers(losses["smooth"].to_numpy()[few]),
            "line": {"color": colour, "width": width, "dash": look.strategy(str(row.strategy))[2]},
            "hovertemplate": f"%{{y:.4f}} at step %{{x:,}}<br>seed {seed}<extra>{label}</extra>",
        },
    ]  # fmt: skip


def _extremes(values: npt.NDArray[np.float64], at_most: int) -> npt.NDArray[np.intp]:
    """Ascending indices of the minimum and maximum of each of `at_most` / 2 intervals: what a thin line shows."""
    if len(values) <= at_most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), at_most // 2 + 1).astype(int)
    parts = [(start, values[start:end]) for start, end in pairwise(edges.tolist())]
    return np.unique([start + at for start, part in parts for at in (int(part.argmin()), int(part.argmax()))])


def steps_table(info: Steps) -> pd.DataFrame:
    """One row per step."""
    both = info.losses.merge(info.cells[["cell", "freeze", "n_layers", "train_size"]], on="cell")
    return pd.DataFrame(
        {
            "trial": both["trial_id"],
            **setting_columns(both),
            "seed": both["seed"],
            "step": both["step"],
            "training loss": both["loss"].round(5),
            f"mean of {info.window} steps": both["smooth"].round(5),
        }
    )


STEPS = Part(
    "curves-steps",
    "Training loss by step",
    "Training loss of every optimiser step, smoothed (strong lines) and as measured (faint lines).",
    prepare_steps,
    steps_table,
    draw_steps,
    method=f"At most {MAX_CELLS} settings of the largest train size (the baseline first) and their {SEEDS} lowest "
    "completed seeds. The smoothed loss is a centred moving average, over fewer steps at both ends. Strong lines are "
    "thinner if the embeddings are frozen. Faint lines show the minimum and maximum of each interval of steps.",
    detail=True,
)
