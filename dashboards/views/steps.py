"""Curves of the training loss, a value a step: what Brown's study draws of its two models."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.data.step_losses import SEEDS, lowest_seeds, step_losses
from dashboards.views.marks import cell_colour, cell_words, completed_of, few_cells, numbers, with_note
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout

Row = dict[str, Any]
MOST_STEP_CELLS = 8
_MOST_POINTS = 600  # of a line; an SVG of more is slow to draw


class Steps(NamedTuple):
    """The training loss of every step of a few trials.

    Attributes:
        losses: `cell`, `trial_id`, `seed`, `step`, `loss`, `smooth`; by trial and step.
        cells: Those drawn; `marks.KEYS`.
        window: Steps that a smoothed value is the mean of.
        note: What is left out and how it was smoothed, in words.
    """

    losses: pd.DataFrame
    cells: pd.DataFrame
    window: int
    note: str


def prepare_steps(selection: Selection) -> Steps:
    """The baseline and as many of the selected cells of the largest train size as fit, the shallowest first."""
    few = few_cells(selection.trials, sizes=1)
    cells = _baseline_first(few.table)
    trials = lowest_seeds(completed_of(selection.trials, cells))
    losses = step_losses(selection.snapshot, trials).merge(trials[["trial_id", "cell", "seed"]], on="trial_id")
    losses = losses[np.isfinite(losses["loss"])].reset_index(drop=True)
    longest = int(losses.groupby("trial_id").size().max()) if len(losses) else 0
    window = max(5, longest // 50) | 1  # odd, so that it has a middle
    rolled = losses.groupby("trial_id", sort=False)["loss"].rolling(window, center=True, min_periods=1).mean()
    smooth = rolled.droplevel(0).reindex(losses.index) if len(losses) else losses["loss"]
    left = len(few.table) - len(cells)
    more = f"{left} more cells are not drawn: choose strategies." if left else ""
    note = f"Thick: mean of {window} steps around each; thin: every step, the least and largest of a stretch."
    return Steps(losses.assign(smooth=smooth), cells, window, " ".join(filter(None, [note, more, few.note])))


def _baseline_first(cells: pd.DataFrame) -> pd.DataFrame:
    is_baseline = cells["cell"] == cells["baseline"]
    return pd.concat([cells[is_baseline], cells[~is_baseline]], ignore_index=True).head(MOST_STEP_CELLS)


def no_steps(info: Steps) -> str:
    """In words."""
    return "" if len(info.losses) else "The trials shown have kept no losses of single steps."


def draw_steps(info: Steps, look: Look) -> Figure:
    """Faint: as it was; strong: smoothed; one colour and dash a cell, a line a seed."""
    data: list[Row] = []
    by_cell = dict(iter(info.losses.groupby("cell")))
    for row in info.cells.itertuples():
        if row.cell not in by_cell:
            continue
        for number, (seed, losses) in enumerate(by_cell[row.cell].groupby("seed")):
            data += _step_lines(losses, row, int(seed), look, first=number == 0)
    y = axis("training loss of a step", rangemode="tozero")
    drawn = layout(look, x=axis("optimiser steps", rangemode="tozero"), y=y, height=440)
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _step_lines(losses: pd.DataFrame, row: Any, seed: int, look: Look, *, first: bool) -> list[Row]:
    colour, words = cell_colour(look, row), cell_words(row, several=False)
    steps, raw = losses["step"].to_numpy(), losses["loss"].to_numpy()
    thin, few = _extremes(raw, _MOST_POINTS), np.unique(np.linspace(0, len(raw) - 1, _MOST_POINTS).astype(int))
    width = 1 if row.embeddings else 2.5  # as a hollow symbol elsewhere
    shared = {"type": "scatter", "mode": "lines", "legendgroup": row.cell}
    return [
        {
            **shared, "name": f"{words}, each step", "showlegend": False, "hoverinfo": "skip",
            "x": steps[thin].tolist(), "y": numbers(raw[thin]), "line": {"color": colour, "width": 0.5},
            "opacity": 0.35,
        },
        {
            **shared, "name": words, "showlegend": first,
            "x": steps[few].tolist(), "y": numbers(losses["smooth"].to_numpy()[few]),
            "line": {"color": colour, "width": width, "dash": look.strategy(str(row.strategy))[2]},
            "hovertemplate": f"%{{y:.4f}} at step %{{x:,}}<br>seed {seed}<extra>{words}</extra>",
        },
    ]  # fmt: skip


def _extremes(values: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.intp]:
    """Indices of the least and the largest value of each of `most` / 2 stretches, ascending: what a thin line shows."""
    if len(values) <= most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), most // 2 + 1).astype(int)
    found = [start + at for start, end in pairwise(edges.tolist()) for at in _ends(values[start:end])]
    return np.unique(found)


def _ends(values: npt.NDArray[np.float64]) -> tuple[int, int]:
    return int(values.argmin()), int(values.argmax())


def steps_table(info: Steps) -> pd.DataFrame:
    """A row a step."""
    both = info.losses.merge(info.cells[["cell", "freeze", "train_size"]], on="cell")
    return pd.DataFrame(
        {
            "trial": both["trial_id"],
            "train size (sentences)": both["train_size"],
            "frozen": both["freeze"],
            "seed": both["seed"],
            "step": both["step"],
            "training loss": both["loss"].round(5),
            f"mean of {info.window} steps": both["smooth"].round(5),
        }
    )


STEPS = Part(
    "curves-steps",
    "Training loss by step",
    f"Each step's loss of at most {MOST_STEP_CELLS} cells (the baseline first) and their {SEEDS} lowest completed "
    "seeds, and a mean over the steps around each, whose width the note tells; it is "
    "shorter at both ends, and its line is thin where the embeddings are frozen.",
    prepare_steps,
    steps_table,
    draw_steps,
    no_steps,
)
PARTS = (STEPS,)
