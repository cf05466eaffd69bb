"""The score of every trial by what is frozen: a panel for each train size, near the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.cells import Shown, cells_of, setting_columns
from dashboards.views.kit.drawing import (
    Figure,
    Look,
    axis,
    cell_colour,
    cell_symbol,
    dodge,
    freeze_column,
    grid,
    mean_marks,
    name,
    numbers,
    panel_axes,
    with_note,
)
from dashboards.views.kit.part import Part

MAX_DOTS = 5000  # trials; more are drawn as a density
_BINS = 60  # bins of the density, over the range of the scores
_TOLERANCES, _LEAST_TOLERANCE = 3.0, 1 / 3  # shown below the baseline, each counted as at least these points
MOST_PANELS, _WIDE_FROM = 6, 16  # train sizes; settings of a panel that is half as wide as a page
_ALONE_HIGH, _HIGH, _LINE = 380, 300, 17  # pixels of a panel, and of a line of a label
# Pixels of a panel on the narrowest screen, by how many stand beside each other: labels that fit there fit on any.
_ROOM, _PHONE = {1: 850, 2: 380, 3: 240}, 250


class Strip(NamedTuple):
    """Every completed trial.

    Attributes:
        cells: Mean and interval of each.
        dots: `trial_id`, `cell`, `seed`, `freeze`, `freeze_spec`, `n_layers`, `train_size`, `y` (percent).
        picked: Ids of the trials that the address picks.
        tolerance: In points.
    """

    cells: Shown
    dots: pd.DataFrame
    picked: tuple[str, ...]
    tolerance: float


def prepare_strip(selection: Selection) -> Strip:
    """The trials of all cells."""
    done = selection.completed
    dots = done[["trial_id", "cell", "seed", "freeze", "freeze_spec", "n_layers", "train_size"]]
    dots = dots.assign(y=100 * done[selection.column]).reset_index(drop=True)
    return Strip(cells_of(selection), dots, selection.query.trials, selection.plan.tolerance)


def draw_strip(info: Strip, look: Look) -> Figure:
    """A panel for each train size, in it a place for each freeze: dots, and from three seeds on the mean with its
    interval; a heatmap above 5,000 dots.

    A circle stands around each picked trial. A panel shows what is near its baseline; a setting that lies beyond is an
    arrow with its loss.
    """
    table = info.cells.table
    every = sorted(table["train_size"].unique().tolist(), reverse=True)
    sizes = every[:MOST_PANELS]
    settings = table.drop_duplicates("freeze").sort_values(["depth", "strategy", "embeddings"])
    rank = {freeze: float(n) for n, freeze in enumerate(settings["freeze"])}
    widest = 2 if len(rank) > _WIDE_FROM or len(sizes) in (2, 4) else 3
    columns = 1 if look.narrow else min(len(sizes), widest)
    x = _axis_of(settings, _PHONE if look.narrow else _ROOM[columns])
    is_map = len(info.dots) > MAX_DOTS
    by_size = {size: table[table["train_size"] == size] for size in sizes}
    ends = {size: None if is_map else _zoom_ends(cells, info.tolerance) for size, cells in by_size.items()}
    title = f"{info.cells.value_name} (%)"
    ys = [axis(title, **_autorange(ends[size])) for size in sizes]
    titles = [f"{size:,} for training, {_n_each(cells)}" for size, cells in by_size.items()]
    drawn = grid(look, x, ys, titles, columns=columns, panel_height=_ALONE_HIGH if len(sizes) == 1 else _HIGH)
    seeds = {seed: n for n, seed in enumerate(sorted(info.dots["seed"].unique()))}
    data: list[dict[str, Any]] = []
    for n, (size, cells) in enumerate(by_size.items()):
        spots = {cell: rank[freeze] for cell, freeze in cells[["cell", "freeze"]].to_numpy()}
        dots = info.dots[info.dots["train_size"] == size]
        # Dots of a setting stand beside each other in the order of their seeds, which is the same in every setting.
        beside = np.array(dodge(dots["seed"].map(seeds).tolist(), len(seeds)), dtype=np.float64)
        dots = dots.assign(x=dots["cell"].map(spots).to_numpy(dtype=np.float64) + beside)
        traces = [_baseline(cells, spots, look)]
        if len(dots):
            traces += [_density(dots, spots), *_extremes(dots, look)] if is_map else [_dots(dots, cells, look)]
        traces += [
            _means(cells, spots, look),
            *_picked_marks(dots, info.picked, look),
            *_beyond(cells, spots, ends[size], look),
        ]
        data += [{**trace, **panel_axes(n), "showlegend": False} for trace in traces]
    if is_map:
        bar = {"title": {"text": "trials"}, "thickness": 12}
        drawn["coloraxis"] = {"colorscale": look.scale(), "colorbar": bar}
    left_out = len(every) - len(sizes)
    note = f"{left_out} smaller train sizes are in the table; select them above." if left_out else ""
    return with_note({"data": data, "layout": drawn}, look, note, width=60)


def _axis_of(settings: pd.DataFrame, room: int) -> dict[str, Any]:
    """The axis with a place for each setting, named by its layer strip and, where there is room, in words."""
    frozen = freeze_column(settings["freeze_spec"], settings["n_layers"])
    words, strips = [*map(name, frozen)], [each.squares for each in frozen]
    if _LINE * 2 * len(words) > room:
        labels = [strip or text for strip, text in zip(strips, words, strict=True)]
    else:
        between = "<br>+ " if _LINE * 3 * len(words) <= room else " + "
        labels = ["<br>".join(filter(None, [s, t.replace(" + ", between)])) for s, t in zip(strips, words, strict=True)]
    ticks = {"tickvals": [*range(len(labels))], "ticktext": labels, "autotickangles": [0, -90]}
    return axis("", **ticks, showgrid=False, range=[-0.7, len(labels) - 0.3])


def _autorange(ends: tuple[float, float] | None) -> dict[str, Any]:
    """What an axis ends at by itself: no `range`, which would undo a visitor's zoom when new rows move it."""
    return {} if ends is None else {"autorangeoptions": {"minallowed": ends[0], "maxallowed": ends[1]}}


def _zoom_ends(cells: pd.DataFrame, tolerance: float) -> tuple[float, float] | None:
    """The ends of the axis of one train size, in percent; None where every setting is near its baseline."""
    loss = _losses(cells)
    near = cells[~(loss > _TOLERANCES * max(tolerance, _LEAST_TOLERANCE))]
    base = 100 * cells.loc[cells["cell"] == cells["baseline"], "mean"].mean()
    if len(near) == len(cells) or not np.isfinite(base):
        return None
    low, high = min(100 * near["min"].min(), base - 1.3 * tolerance), max(100 * near["max"].max(), base)
    air = 0.06 * (high - low)
    return low - 3 * air, high + air  # arrows stand below all else


def _losses(cells: pd.DataFrame) -> pd.Series:
    """(cells,) points below the mean of each one's baseline."""
    means = cells.set_index("cell")["mean"].astype("float64")
    return 100 * (cells["baseline"].map(means) - cells["mean"].astype("float64"))


def _beyond(
    cells: pd.DataFrame, spots: Mapping[str, float], ends: tuple[float, float] | None, look: Look
) -> list[Figure]:
    """An arrow at the edge for each setting that the axis leaves out, with its loss."""
    if ends is None:
        return []
    away = cells.assign(loss=_losses(cells))[100 * cells["mean"] < ends[0]]
    return [
        {
            "type": "scatter", "mode": "markers+text", "name": "beyond",
            "x": [spots[cell] for cell in away["cell"]], "y": [ends[0] + 0.03 * (ends[1] - ends[0])] * len(away),
            "text": [f"-{loss:.1f}" for loss in away["loss"]], "textposition": "top center",
            "marker": {
                "symbol": "triangle-down", "size": 11, "color": [cell_colour(look, row) for row in away.itertuples()],
            },
            "hovertemplate": "%{text} points; outside the axis<extra></extra>",
        }
    ]  # fmt: skip


def _baseline(cells: pd.DataFrame, spots: Mapping[str, float], look: Look) -> Figure:
    """A line across a panel at the mean of its baseline."""
    mean = 100 * cells.loc[cells["cell"] == cells["baseline"], "mean"].mean()
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "baseline mean",
        "x": [min(spots.values(), default=0.0) - 0.5, max(spots.values(), default=0.0) + 0.5],
        "y": numbers([mean, mean]),
        "line": {"color": look.text, "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _dots(dots: pd.DataFrame, cells: pd.DataFrame, look: Look) -> Figure:
    """A mark for each trial, coloured as its setting."""
    row_of = {row.cell: row for row in cells.itertuples()}
    marker = {
        "size": 8,
        "opacity": 0.75,
        "color": [cell_colour(look, row_of[cell]) for cell in dots["cell"]],
        "symbol": [cell_symbol(look, row_of[cell]) for cell in dots["cell"]],
    }
    frozen = dots.assign(what=[*map(name, freeze_column(dots["freeze_spec"], dots["n_layers"]))])
    return _trials("trials", frozen, marker, "%{customdata[3]}, seed %{customdata[1]}", "what")


def _trials(name: str, dots: pd.DataFrame, marker: dict[str, Any], hover: str, *more: str) -> dict[str, Any]:
    """A mark per trial, which opens its page and says its score, `hover` and its id when it is touched."""
    columns = [dots[column].tolist() for column in ("trial_id", "seed", "train_size", *more)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": numbers(dots["x"]),
        "y": numbers(dots["y"]),
        "customdata": [list(row) for row in zip(*columns, strict=True)],
        "marker": marker,
        "hovertemplate": f"%{{y:.2f}} %<br>{hover}<br>trial %{{customdata[0]}}<extra></extra>",
    }


def _density(dots: pd.DataFrame, spots: Mapping[str, float]) -> Figure:
    """The number of trials by score: a column for each place."""
    positions = dots["cell"].map(spots).to_numpy(dtype=np.float64)
    places = np.array(sorted(set(spots.values())))
    edges = np.linspace(dots["y"].min(), dots["y"].max() + 1e-9, _BINS + 1)
    counts, _, _ = np.histogram2d(dots["y"], positions, bins=(edges, np.append(places - 0.5, places[-1] + 0.5)))
    return {
        "type": "heatmap",
        "x": places.tolist(),
        "y": ((edges[:-1] + edges[1:]) / 2).round(4).tolist(),
        "z": [[int(count) or None for count in row] for row in counts],
        "coloraxis": "coloraxis",
        "hovertemplate": "about %{y:.2f} %<br>trials: %{z}<extra></extra>",
        "name": "trials",
    }


def _extremes(dots: pd.DataFrame, look: Look) -> list[Figure]:
    """The best and the worst trial, which the heatmap would hide."""
    ends = (("best", "triangle-up", dots["y"].idxmax()), ("worst", "triangle-down", dots["y"].idxmin()))
    return [
        _trials(name, dots.loc[[row]], {"symbol": symbol, "size": 10, "color": look.text}, name)
        for name, symbol, row in ends
    ]


def _n_each(cells: pd.DataFrame) -> str:
    """How many trials of a setting have completed: `n=5`, or `n=3 to 5`."""
    least, most = int(cells["n"].min()), int(cells["n"].max())
    return f"n={most}" if least == most else f"n={least} to {most}"


def _picked_marks(dots: pd.DataFrame, ids: Sequence[str], look: Look) -> list[dict[str, Any]]:
    """The picked trials, which the heatmap would hide and dots do not tell apart."""
    picked = dots[dots["trial_id"].isin(ids)]
    if not len(picked):
        return []
    marker = {"symbol": "circle-open", "size": 15, "color": look.text, "line": {"width": 2.5}}
    return [_trials("picked", picked, marker, "picked, seed %{customdata[1]}, train size %{customdata[2]:,}")]


def _means(table: pd.DataFrame, spots: Mapping[str, float], look: Look) -> dict[str, Any]:
    shown = table[~table["dots_only"] & table["mean"].notna()]
    frozen = map(name, freeze_column(shown["freeze_spec"], shown["n_layers"]))
    return mean_marks(
        [spots[cell] for cell in shown["cell"]],
        shown,
        look,
        scale=100,
        customdata=[[text, n] for text, n in zip(frozen, shown["n"].tolist(), strict=True)],
        hovertemplate="mean %{y:.2f} %<br>%{customdata[0]}, n=%{customdata[1]}<extra></extra>",
    )


def strip_table(info: Strip) -> pd.DataFrame:
    """One row per trial: `trial`, the columns of its setting, `seed` and its score in percent."""
    dots = info.dots.sort_values(["train_size", "freeze", "seed"])
    score = {f"{info.cells.value_name} (%)": dots["y"].round(4)}
    return pd.DataFrame({"trial": dots["trial_id"], **setting_columns(dots), "seed": dots["seed"], **score})


STRIP = Part(
    "depth-strip",
    "Scores by what is frozen",
    "Each dot is one completed trial. Click a dot to open its trial.",
    prepare_strip,
    strip_table,
    draw_strip,
    method="Each panel ends at three tolerances below its baseline; an arrow is a setting beyond, with what it loses. "
    "Trials with the same seed stand at the same side of each setting. Horizontal marks: mean with 95 % "
    "interval (the wider of Student's t and the logit interval), from three seeds on. "
    "Dotted line: mean of the baseline. Circles: the trials picked on the page Trials.",
)
