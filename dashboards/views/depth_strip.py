"""The score of every trial by what is frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.forest import MANY
from dashboards.views.kit.cells import Places, Shown, beside_each_other, cells_of, places, setting_columns
from dashboards.views.kit.drawing import (
    Figure,
    Look,
    axis,
    cell_colour,
    cell_name,
    cell_symbol,
    dodge,
    freeze_column,
    grid,
    layout,
    mean_marks,
    name,
    numbers,
    panel_axes,
    with_note,
)
from dashboards.views.kit.part import Part
from orchestrator.analysis.freeze_names import layer_strip

MAX_DOTS = 5000
_BINS = 60  # of the density, over the range of the scores
_TOLERANCES, _LEAST_TOLERANCE = 3.0, 1 / 3  # below the baseline so many are shown, of at least so many points each
MOST_NAMED, MOST_PANELS, _WIDE_FROM = 9, 6, 16  # names of a legend; train sizes; settings
_BOXES_FROM = 5  # seeds; quartiles of fewer say no more than their dots
_MAX_OUTLINED = 1000  # an outline takes a third of the drawing time; symbols still tell strategies apart


class Strip(NamedTuple):
    """Every completed trial at the place of its cell.

    Attributes:
        cells: Mean and interval of each.
        dots: `trial_id`, `cell`, `seed`, `freeze`, `n_layers`, `train_size`, `x`, `y` (percent).
        picked: Ids of the trials that the address picks.
        tolerance: In points.
    """

    cells: Shown
    places: Places
    dots: pd.DataFrame
    picked: tuple[str, ...]
    tolerance: float


def prepare_strip(selection: Selection) -> Strip:
    """Dots of a cell stand next to each other in the order of their seeds, which is the same in every cell."""
    cells = cells_of(selection)
    spots = places(cells.table)
    done = selection.completed
    dots = done[["trial_id", "cell", "seed", "freeze", "n_layers", "train_size"]]
    dots = dots.assign(x=beside_each_other(done, spots), y=100 * done[selection.column])
    return Strip(cells, spots, dots.reset_index(drop=True), selection.query.trials, selection.plan.tolerance)


def draw_strip(info: Strip, look: Look) -> Figure:
    """Dots, boxes from five seeds on, mean and interval from three seeds on; a heatmap above 5,000 dots.

    A circle stands around each picked trial. The axis of a train size shows what is near its baseline; a setting that
    lies beyond is an arrow with its loss.
    """
    table = info.cells.table
    if table["freeze"].nunique() >= MANY and len(info.dots) <= MAX_DOTS:
        return _small_multiples(info, look)
    if len(info.dots) > MAX_DOTS:
        data = [_density(info, look), _baselines(info, look), *_extremes(info, look)]
    else:
        data = [_baselines(info, look), *_boxes(info, look), *_dots(info, look)]
    data += [_means(table, info.places, look), *_picked(info.dots, info.picked, look)]
    ends = _near_baseline(table, info.tolerance) if table["train_size"].nunique() == 1 else None
    data += _beyond(table, info.places.positions, ends, look)
    y = axis(f"{info.cells.value_name} (%)", **({"range": [*ends]} if ends else {}))
    named = sum(trace.get("showlegend", True) for trace in data) <= MOST_NAMED
    return {"data": data, "layout": layout(look, x=info.places.axis(), y=y, height=420, showlegend=named)}


def _small_multiples(info: Strip, look: Look) -> Figure:
    """Many settings: a panel for each train size, in it a place for each freeze, named by its layer strip alone."""
    table = info.cells.table
    sizes = sorted(table["train_size"].unique().tolist(), reverse=True)[:MOST_PANELS]
    settings = table.drop_duplicates("freeze").sort_values(["depth", "strategy", "embeddings"])
    rank = {freeze: float(n) for n, freeze in enumerate(settings["freeze"])}
    named = map(name, freeze_column(settings["freeze"], settings["n_layers"]))
    strips = [
        layer_strip(row.freeze, int(row.n_layers)) or text
        for row, text in zip(settings.itertuples(), named, strict=True)
    ]
    x = axis("", tickvals=list(rank.values()), ticktext=strips, tickangle=-90, showgrid=False, range=[-1, len(rank)])
    columns = 1 if len(sizes) == 1 else 2 if len(rank) > _WIDE_FROM else 3
    by_size = {size: table[table["train_size"] == size] for size in sizes}
    titles = [f"{size:,} for training, {_n_each(cells)}" for size, cells in by_size.items()]
    ends = {size: _near_baseline(cells, info.tolerance) for size, cells in by_size.items()}
    title = f"{info.cells.value_name} (%)"
    ys = [axis(title, **({"range": [*near]} if (near := ends[size]) else {})) for size in sizes]
    drawn = grid(look, x, ys, titles, columns=columns, panel_height=300)
    rows, seeds = dict(iter(info.dots.groupby("train_size"))), sorted(info.dots["seed"].unique())
    data: list[dict[str, Any]] = []
    for n, size in enumerate(sizes):
        place = {**panel_axes(n), "showlegend": False}
        cells = by_size[size]
        spots = {cell: rank[freeze] for cell, freeze in cells[["cell", "freeze"]].to_numpy()}
        data += _panel_of(cells, rows.get(size), (spots, seeds), info.picked, place, look)
        data += [trace | place for trace in _beyond(cells, spots, ends[size], look)]
    drawn["margin"] |= {"b": 30 + 10 * max(map(len, strips))}
    drawn["height"] += 10 * max(map(len, strips))
    drawn["showlegend"] = False
    left_out = len(set(table["train_size"])) - len(sizes)
    note = f"{left_out} smaller train sizes are in the table; select them above." if left_out else ""
    return with_note({"data": data, "layout": drawn}, look, note)


def _near_baseline(cells: pd.DataFrame, tolerance: float) -> tuple[float, float] | None:
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
            "type": "scatter", "mode": "markers+text", "name": "beyond", "showlegend": False,
            "x": [spots[cell] for cell in away["cell"]], "y": [ends[0] + 0.03 * (ends[1] - ends[0])] * len(away),
            "text": [f"-{loss:.1f}" for loss in away["loss"]], "textposition": "top center",
            "marker": {
                "symbol": "triangle-down", "size": 11, "color": [cell_colour(look, row) for row in away.itertuples()],
            },
            "hovertemplate": "%{text} points; outside the axis<extra></extra>",
        }
    ]  # fmt: skip


def _panel_of(
    cells: pd.DataFrame,
    dots: pd.DataFrame | None,
    where: tuple[dict[str, float], list[int]],
    picked: Sequence[str],
    place: Figure,
    look: Look,
) -> list[Figure]:
    """The dots of one train size, each coloured as its setting, the means, and the baseline's as a line."""
    spots, seeds = where
    traces = [_across(cells, spots, place, look)]
    if dots is not None and len(dots):
        row_of = {row.cell: row for row in cells.itertuples()}
        frozen = list(map(name, freeze_column(dots["freeze"], dots["n_layers"])))
        offsets = np.array(dodge([seeds.index(seed) for seed in dots["seed"]], len(seeds)))
        marker = {
            "size": 6,
            "opacity": 0.75,
            "color": [cell_colour(look, row_of[cell]) for cell in dots["cell"]],
            "symbol": [cell_symbol(look, row_of[cell]) for cell in dots["cell"]],
        }
        shown = dots.assign(x=dots["cell"].map(spots).to_numpy(dtype=np.float64) + offsets, what=frozen)
        traces.append(_trials("trials", shown, marker, "%{customdata[3]}, seed %{customdata[1]}", "what") | place)
        traces += [trace | place for trace in _picked(shown, picked, look)]
    return [*traces, _means(cells, Places(spots, [], [], ""), look) | place]


def _across(cells: pd.DataFrame, spots: dict[str, float], place: Figure, look: Look) -> Figure:
    mean = cells.loc[cells["cell"] == cells["baseline"], "mean"].mean()
    ends = [min(spots.values(), default=0) - 0.5, max(spots.values(), default=0) + 0.5]
    return _baseline_line(ends, numbers([100 * mean] * 2), look) | place


def _baseline_line(x: Sequence[float | None], y: Sequence[float | None], look: Look) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "baseline mean",
        "x": list(x),
        "y": list(y),
        "line": {"color": look.text, "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _dots(info: Strip, look: Look) -> list[dict[str, Any]]:
    first = info.cells.table.drop_duplicates("freeze").sort_values(["depth", "strategy", "embeddings"])
    traces, by_freeze = [], dict(iter(info.dots.groupby("freeze", sort=False)))
    for row in first.itertuples():
        dots = by_freeze.get(row.freeze, info.dots.iloc[:0])
        colour = cell_colour(look, row)
        outline = {
            "width": 2 if row.embeddings else int(len(info.dots) <= _MAX_OUTLINED),
            "color": colour if row.embeddings else look.strategy(row.strategy)[0],
        }
        marker = {"symbol": cell_symbol(look, row), "size": 8, "opacity": 0.75, "color": colour, "line": outline}
        hover = "%{fullData.name}, seed %{customdata[1]}, train size %{customdata[2]:,}"
        traces.append(_trials(cell_name(row, several=False), dots, marker, hover))
    return traces


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


def _boxes(info: Strip, look: Look) -> list[dict[str, Any]]:
    grouped = info.dots.groupby("cell")["y"]
    shown = info.cells.table[info.cells.table["n"] >= _BOXES_FROM]
    if not len(shown):
        return []
    quartiles = grouped.quantile([0, 0.25, 0.5, 0.75, 1]).unstack().loc[shown["cell"]]
    return [
        {
            "type": "box",
            "x": [info.places.positions[cell] for cell in shown["cell"]],
            "lowerfence": quartiles[0].tolist(),
            "q1": quartiles[0.25].tolist(),
            "median": quartiles[0.5].tolist(),
            "q3": quartiles[0.75].tolist(),
            "upperfence": quartiles[1].tolist(),
            "width": 0.8,
            "line": {"width": 1, "color": look.muted},
            "fillcolor": "rgba(128,128,128,0.10)",
            "hoverinfo": "skip",
            "showlegend": False,
            "name": "quartiles",
        }
    ]


def _density(info: Strip, look: Look) -> dict[str, Any]:
    """The number of trials by score: a column per place."""
    positions = info.dots["cell"].map(info.places.positions).to_numpy(dtype=np.float64)
    xs = np.array(sorted(set(info.places.positions.values())))
    edges = np.linspace(info.dots["y"].min(), info.dots["y"].max() + 1e-9, _BINS + 1)
    counts, _, _ = np.histogram2d(info.dots["y"], positions, bins=(edges, np.append(xs - 0.5, xs[-1] + 0.5)))
    return {
        "type": "heatmap",
        "x": xs.tolist(),
        "y": ((edges[:-1] + edges[1:]) / 2).round(4).tolist(),
        "z": [[int(count) or None for count in row] for row in counts],
        "colorscale": look.scale(),
        "colorbar": {"title": {"text": "trials"}, "thickness": 12},
        "hovertemplate": "about %{y:.2f} %<br>trials: %{z}<extra></extra>",
        "name": "trials",
    }


def _extremes(info: Strip, look: Look) -> list[dict[str, Any]]:
    """The best and the worst trial, which the heatmap would hide."""
    ends = (("best", "triangle-up", info.dots["y"].idxmax()), ("worst", "triangle-down", info.dots["y"].idxmin()))
    return [
        _trials(name, info.dots.loc[[rows]], {"symbol": symbol, "size": 10, "color": look.text}, name)
        for name, symbol, rows in ends
    ]


def _n_each(cells: pd.DataFrame) -> str:
    """How many trials of a setting have completed: `n=5`, or `n=3 to 5`."""
    least, most = int(cells["n"].min()), int(cells["n"].max())
    return f"n={most}" if least == most else f"n={least} to {most}"


def _picked(dots: pd.DataFrame, ids: Sequence[str], look: Look) -> list[dict[str, Any]]:
    """The picked trials, which the heatmap would hide and dots do not tell apart."""
    picked = dots[dots["trial_id"].isin(ids)]
    if not len(picked):
        return []
    marker = {"symbol": "circle-open", "size": 15, "color": look.text, "line": {"width": 2.5}}
    return [_trials("picked", picked, marker, "picked, seed %{customdata[1]}, train size %{customdata[2]:,}")]


def _means(table: pd.DataFrame, spots: Places, look: Look) -> dict[str, Any]:
    shown = table[~table["dots_only"] & table["mean"].notna()]
    frozen = map(name, freeze_column(shown["freeze"], shown["n_layers"]))
    return mean_marks(
        [spots.positions[cell] for cell in shown["cell"]],
        shown,
        look,
        scale=100,
        customdata=[[text, n] for text, n in zip(frozen, shown["n"].tolist(), strict=True)],
        hovertemplate="mean %{y:.2f} %<br>%{customdata[0]}, n=%{customdata[1]}<extra></extra>",
    )


def _baselines(info: Strip, look: Look) -> dict[str, Any]:
    """A line across each train size at its baseline's mean: one trace with gaps, as separate shapes draw far slower."""
    ends: dict[int, list[float]] = {}
    means: dict[int, float] = {}
    table = info.cells.table
    for size, cell, baseline, mean in zip(
        table["train_size"], table["cell"], table["baseline"], table["mean"], strict=True
    ):
        ends.setdefault(size, []).append(info.places.positions[cell])
        if cell == baseline and pd.notna(mean):
            means[size] = 100 * mean
    x = [x for size in means for x in (min(ends[size]) - 0.5, max(ends[size]) + 0.5, None)]
    y = [y for mean in means.values() for y in (round(mean, 4), round(mean, 4), None)]
    return _baseline_line(x, y, look)


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
    method="The axis ends at three tolerances below the baseline; an arrow is a setting beyond, with what it loses. "
    "Trials with the same seed stand at the same side of each setting. Horizontal marks: mean with 95 % "
    "interval (the wider of Student's t and the logit interval), from three seeds on. Boxes: quartiles, from five "
    "seeds on. Dotted line: mean of the baseline. Circles: the trials picked on the page Trials.",
)
