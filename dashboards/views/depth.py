"""Depth answers what freezing costs: every trial by what is frozen; means and paired differences stand beside."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views import forest, means
from dashboards.views.cells import Cells, Places, cells_of, colour, freeze_axis, interval_bars, percent, places
from dashboards.views.marks import name
from dashboards.views.part import Part
from dashboards.views.published import Overlay, overlay, published_columns, published_traces
from dashboards.views.theme import Figure, Look, axis, dodge, layout

MOST_DOTS = 5000
_BINS = 60
_BOXES_FROM = 5
_OUTLINED = 1000  # more dots have no outline, which takes a third of their drawing; their symbols tell strategies apart


class Strip(NamedTuple):
    """Every completed trial at its cell's place.

    Attributes:
        dots: `trial_id`, `cell`, `seed`, `freeze`, `train_size`, `x`, `y` (percent).
        published: Numbers of studies that may stand beside them.
    """

    cells: Cells
    places: Places
    dots: pd.DataFrame
    published: Overlay


def prepare_strip(selection: Selection) -> Strip:
    """Dots stand beside each other in the order of their seeds, the same in every cell."""
    cells = cells_of(selection)
    spots = places(cells.table)
    done = selection.completed
    seeds = sorted(done["seed"].unique().tolist())
    index = done["seed"].map({seed: n for n, seed in enumerate(seeds)})
    dots = pd.DataFrame(
        {
            "trial_id": done["trial_id"],
            "cell": done["cell"],
            "seed": done["seed"],
            "freeze": done["freeze"],
            "train_size": done["train_size"],
            "x": done["cell"].map(spots.at) + np.array(dodge(index.tolist(), len(seeds))),
            "y": 100 * done[selection.column],
        }
    )
    return Strip(cells, spots, dots.reset_index(drop=True), overlay(selection))


def draw_strip(info: Strip, look: Look) -> Figure:
    """Dots, boxes from five seeds on, mean and interval from three on; a heatmap above 5,000 dots."""
    table = info.cells.table
    if len(info.dots) > MOST_DOTS:
        data = [_density(info, look), _baselines(info, look), *_extremes(info, look)]
    else:
        data = [_baselines(info, look), *_boxes(info, look), *_dots(info, look)]
    data += [*_means(table, info.places, look), *published_traces(info.published, info.places.at, look)]
    y = axis(f"{info.cells.value_name} (%)")
    return {
        "data": data,
        "layout": layout(look, x=freeze_axis(info.places), y=y, height=420),
    }


def _dots(info: Strip, look: Look) -> list[dict[str, Any]]:
    first = info.cells.table.drop_duplicates("freeze").sort_values(["depth", "strategy", "embeddings"])
    traces = []
    for row in first.itertuples():
        dots = info.dots[info.dots["freeze"] == row.freeze]
        colour_, symbol, _ = look.strategy(row.strategy)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name(row.freeze),
                "x": dots["x"].round(4).tolist(),
                "y": dots["y"].round(4).tolist(),
                "customdata": dots[["trial_id", "seed", "train_size"]].to_numpy().tolist(),
                "marker": {
                    "symbol": f"{symbol}-open" if row.embeddings else symbol,
                    "size": 8,
                    "opacity": 0.75,
                    "color": colour(look, row.depth, row.n_layers),
                    "line": {
                        "width": 2 if row.embeddings else int(len(info.dots) <= _OUTLINED),
                        "color": colour_ if not row.embeddings else colour(look, row.depth, row.n_layers),
                    },
                },
                "hovertemplate": "%{y:.2f} %<br>%{fullData.name}, seed %{customdata[1]}, train size %{customdata[2]:,}"
                "<br>trial %{customdata[0]}<extra></extra>",
            }
        )
    return traces


def _boxes(info: Strip, look: Look) -> list[dict[str, Any]]:
    grouped = info.dots.groupby("cell")["y"]
    shown = info.cells.table[info.cells.table["n"] >= _BOXES_FROM]
    if not len(shown):
        return []
    quartiles = grouped.quantile([0, 0.25, 0.5, 0.75, 1]).unstack().loc[shown["cell"]]
    return [
        {
            "type": "box",
            "x": [info.places.at[cell] for cell in shown["cell"]],
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
    """How many trials lie where: a column a place, over all of the range."""
    at = info.dots["cell"].map(info.places.at).to_numpy(dtype=np.float64)
    xs = np.array(sorted(set(info.places.at.values())))
    edges = np.linspace(info.dots["y"].min(), info.dots["y"].max() + 1e-9, _BINS + 1)
    counts, _, _ = np.histogram2d(info.dots["y"], at, bins=(edges, np.append(xs - 0.5, xs[-1] + 0.5)))
    return {
        "type": "heatmap",
        "x": xs.tolist(),
        "y": ((edges[:-1] + edges[1:]) / 2).round(4).tolist(),
        "z": [[int(count) or None for count in row] for row in counts],
        "colorscale": look.scale(),
        "colorbar": {"title": {"text": "trials"}, "thickness": 12},
        "hovertemplate": "%{z} trials about %{y:.2f} %<extra></extra>",
        "name": "trials",
    }


def _extremes(info: Strip, look: Look) -> list[dict[str, Any]]:
    """The best and the worst trial, which a heatmap would hide."""
    found = info.dots.loc[[info.dots["y"].idxmax(), info.dots["y"].idxmin()]]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [row.x],
            "y": [row.y],
            "customdata": [[row.trial_id, row.seed, row.train_size]],
            "marker": {"symbol": symbol, "size": 10, "color": look.text},
            "hovertemplate": "%{y:.2f} %<br>trial %{customdata[0]}<extra>" + name + "</extra>",
        }
        for name, symbol, row in zip(
            ("best", "worst"), ("triangle-up", "triangle-down"), found.itertuples(), strict=True
        )
    ]


def _means(table: pd.DataFrame, spots: Places, look: Look) -> list[dict[str, Any]]:
    shown = table[~table["dots_only"] & table["mean"].notna()]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "mean, 95 %",
            "x": [spots.at[cell] for cell in shown["cell"]],
            "y": percent(shown["mean"]),
            "error_y": interval_bars(shown, look),
            "marker": {"symbol": "line-ew-open", "size": 16, "color": look.text, "line": {"width": 2}},
            "customdata": shown[["freeze", "n"]].to_numpy().tolist(),
            "hovertemplate": "mean %{y:.2f} %<br>%{customdata[0]}, n=%{customdata[1]}<extra></extra>",
        }
    ]


def _baselines(info: Strip, look: Look) -> dict[str, Any]:
    """A line across each train size at its baseline's mean: one trace with gaps, as a shape each takes far longer."""
    ends: dict[int, list[float]] = {}
    means: dict[int, float] = {}
    for row in info.cells.table.itertuples():
        ends.setdefault(row.train_size, []).append(info.places.at[row.cell])
        if row.depth == 0 and not row.embeddings and pd.notna(row.mean):
            means[row.train_size] = 100 * row.mean
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "the baseline's mean",
        "x": [x for size in means for x in (min(ends[size]) - 0.5, max(ends[size]) + 0.5, None)],
        "y": [y for mean in means.values() for y in (round(mean, 4), round(mean, 4), None)],
        "line": {"color": look.text, "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def strip_table(info: Strip) -> pd.DataFrame:
    """A row a dot."""
    dots = info.dots.sort_values(["train_size", "freeze", "seed"])
    columns = {
        "trial_id": "trial",
        "freeze": "frozen",
        "train_size": "train size (sentences)",
        "y": f"{info.cells.value_name} (%)",
    }
    table = dots[["trial_id", "freeze", "train_size", "seed", "y"]].rename(columns=columns).round(4)
    return table.assign(**published_columns(info.published, dots["cell"]))


STRIP = Part(
    "depth-strip",
    "Every trial by what is frozen",
    "A dot is a completed trial; those of one seed stand at the same side of their cells. Lines with bars: mean and "
    "95 % interval (the wider of t and logit), from three seeds on; boxes: quartiles, from five on. Dotted: the "
    "baseline's mean. Hollow diamonds: published numbers of the same metric, split, corpus and train size. Click a "
    "dot to open its trial.",
    prepare_strip,
    strip_table,
    draw_strip,
)
PARTS = (STRIP, forest.FOREST, means.BARS, means.TABLE)
