"""Training: how fast does it converge? Mean scores and losses of each setting after each evaluation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import AXES, Selection
from dashboards.views.kit.cells import completed_in_cells, one_device, setting_columns, shown_cells
from dashboards.views.kit.drawing import (
    Figure,
    Look,
    axis,
    axis_name,
    cell_colour,
    cell_name,
    cell_symbol,
    epoch_axis,
    layout,
    numbers,
    panels,
    rgba,
    with_note,
)
from dashboards.views.kit.part import SHARED_CONTROLS, EmptyPartError, Part, View
from orchestrator.analysis.describe import LEAST_FOR_INTERVAL, Moments, score_ends, t_ends
from orchestrator.store.schema import METRICS
from trials.metrics.metric import metric_label

_MAX_MARKERS = 12  # per line; points without a marker still show their value on hover
_MOST_PANELS = 6  # two rows of three
MOST_NAMED = 8  # entries of a legend

Row = dict[str, Any]


class Curves(NamedTuple):
    """Means over the completed seeds of each cell, by evaluation.

    Attributes:
        lines: One row per point, by cell and epoch: `panel`, `cell`, `epoch`, `x`, `n`, `mean`, `low`, `high`.
        cells: Those drawn; `cells.KEYS`.
        x_title: With its unit.
        panels: The y axis of each panel, from the top.
        scale: Factor from `mean` to what is drawn: 100 for shares.
    """

    lines: pd.DataFrame
    cells: pd.DataFrame
    x_title: str
    panels: tuple[str, ...]
    scale: float
    note: str


def prepare_quality(selection: Selection) -> Curves:
    """The selected metric on dev."""
    trials = selection.trials
    own = str(trials["metric"].iloc[0])
    metric = selection.query.metric or own
    metric = metric if metric in METRICS else own  # of a plug-in's, the store holds the best epoch's value only
    return _curves(selection, {f"dev {metric_label(metric)} (%)": "score" if metric == own else metric}, 100.0)


def prepare_loss(selection: Selection) -> Curves:
    """Training and dev loss."""
    return _curves(selection, {"training loss": "train_loss", "dev loss": "dev_loss"}, 1.0)


def _curves(selection: Selection, columns: dict[str, str], scale: float) -> Curves:
    shown = shown_cells(selection.trials)
    done = completed_in_cells(selection.trials, shown.table)
    in_seconds = selection.query.axis == "train_s"
    alone = one_device(done, "train_s" if in_seconds else "trainable_params")
    epochs = selection.snapshot.epochs(alone.table)
    epochs["cell"] = pd.Categorical(epochs["cell"], alone.table["cell"].unique())  # in the order of the trials
    parts = [_moments(epochs, column).assign(panel=n) for n, column in enumerate(columns.values())]
    lines = _with_interval(pd.concat(parts, ignore_index=True), are_scores=scale == 100)
    if lines["mean"].isna().all():
        raise EmptyPartError(f"No evaluation has recorded {' or '.join(columns)}.")
    lines["x"] = lines["epoch"]
    if in_seconds:
        epochs["seconds"] = epochs.groupby("t")["train_s"].cumsum()  # up to an evaluation
        means = epochs.groupby(["cell", "epoch"], as_index=False, observed=True)["seconds"].mean()
        lines["x"] = lines.merge(means, on=["cell", "epoch"], how="left")["seconds"].to_numpy()
    title = "mean time in optimiser steps (s)" if in_seconds else AXES["epoch"]
    return Curves(lines, shown.table, title, tuple(columns), scale, " ".join(filter(None, [shown.note, alone.note])))


def _moments(epochs: pd.DataFrame, column: str) -> pd.DataFrame:
    """A column of evaluations over the seeds of a cell: `cell`, `epoch`, `n`, `mean`, `std` (n - 1), `min`, `max`."""
    values = epochs.reindex(columns=["cell", "epoch", column]).dropna()  # a metric that no trial has is no column
    grouped = values.groupby(["cell", "epoch"], observed=True)[column].agg(["count", "mean", "std", "min", "max"])
    return grouped.rename(columns={"count": "n"}).reset_index().astype({"cell": object})


def _with_interval(moments: pd.DataFrame, *, are_scores: bool) -> pd.DataFrame:
    """Adds the ends of the 95 % interval that `describe_cells` gives such values, NaN below three seeds."""
    n, mean, std = (moments[name].to_numpy(dtype=np.float64) for name in ("n", "mean", "std"))
    in_range = are_scores and bool(moments["min"].ge(0).all() and moments["max"].le(1).all())
    low, high = (score_ends if in_range else t_ends)(Moments(n, mean, std), 0.95)
    enough = n >= LEAST_FOR_INTERVAL
    columns = ["panel", "cell", "epoch", "n", "mean"]
    return moments[columns].assign(low=np.where(enough, low, np.nan), high=np.where(enough, high, np.nan))


def draw_curves(info: Curves, look: Look) -> Figure:
    """A line per cell, with a band for its interval; a panel per measure and, if they are few, per train size."""
    sizes = sorted(info.cells["train_size"].unique().tolist(), reverse=True)
    apart = 1 < len(sizes) * len(info.panels) <= _MOST_PANELS  # else names tell the sizes apart
    data: list[Row] = []
    named = set[str]()
    points = dict(iter(info.lines.groupby(["cell", "panel"], sort=False)))
    for row in info.cells.itertuples():
        label = cell_name(row, several=len(sizes) > 1 and not apart)
        for measure in range(len(info.panels)):
            if (row.cell, measure) in points:
                panel = measure * len(sizes) + sizes.index(row.train_size) if apart else measure
                *band, line = _line(points[row.cell, measure], row, look, info.scale, label)
                line["showlegend"] = label not in named
                data += [trace | {"legendgroup": label, "yaxis": axis_name(panel)} for trace in (*band, line)]
                named.add(label)
    in_epochs = info.x_title == AXES["epoch"]
    x = epoch_axis(info.x_title, info.lines["x"].max()) if in_epochs else axis(info.x_title, rangemode="tozero")
    several = [f"{measure}, {size:,}" for measure in info.panels for size in sizes] if len(sizes) > 1 else info.panels
    titles = list(several if apart else info.panels)
    drawn = panels(look, x, titles) if len(titles) > 1 else layout(look, x=x, y=axis(titles[0]), height=440)
    drawn["showlegend"] = len(named) <= MOST_NAMED  # hovering names and lights up the others
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _line(points: pd.DataFrame, row: Any, look: Look, scale: float, label: str) -> list[Row]:
    """A line, after the band of its interval if it has one."""
    colour = cell_colour(look, row)
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label,
        "x": numbers(points["x"]),
        "y": numbers(points["mean"], scale),
        "customdata": list(zip(points["n"].tolist(), points["epoch"].tolist(), strict=True)),
        "line": {"color": colour, "dash": look.strategy(str(row.strategy))[2], "width": 2},
        "marker": {"symbol": cell_symbol(look, row), "size": 6, "color": colour, "maxdisplayed": _MAX_MARKERS},
        "hovertemplate": "%{y:.4~f} after %{customdata[1]:.3~f} epochs<br>mean of n=%{customdata[0]}"
        f"<extra>{label}</extra>",
    }
    xs, low, high = (points[name].to_numpy(dtype=np.float64) for name in ("x", "low", "high"))
    banded = np.isfinite(xs) & np.isfinite(low)
    if banded.sum() < 2:
        return [line]
    band = {
        "type": "scatter",
        "mode": "lines",
        "name": f"{label}, 95 % interval",
        "showlegend": False,
        "x": numbers(np.concatenate([xs[banded], xs[banded][::-1]])),
        "y": numbers(np.concatenate([high[banded], low[banded][::-1]]), scale),
        "fill": "toself",
        "fillcolor": translucent(colour),
        "line": {"width": 0, "color": colour},
        "hoverinfo": "skip",
    }
    return [band, line]


def translucent(colour: str) -> str:
    """The colour `#RRGGBB`, made translucent for a band."""
    return f"{rgba(colour)},0.15)"


def curves_table(info: Curves) -> pd.DataFrame:
    """One row per point of a curve: `measure`, `setting_columns`, `epoch`, `n` seeds, `mean` and its interval."""
    both = info.lines.merge(info.cells[["cell", "freeze_spec", "n_layers", "train_size"]], on="cell", how="left")
    figures = {name: (info.scale * both[name]).round(4) for name in ("mean", "low", "high")}
    names = {"mean": "mean", "low": "95 % from", "high": "95 % to"}
    return pd.DataFrame(
        {
            "measure": both["panel"].map(dict(enumerate(info.panels))),
            **setting_columns(both),
            "epoch": both["epoch"].round(4),
            **({} if info.x_title == AXES["epoch"] else {info.x_title: both["x"].round(3)}),
            "n": both["n"],
            **{names[key]: values for key, values in figures.items()},
        }
    )


QUALITY = Part(
    "curves-quality",
    "Score by epoch",
    "Mean dev score of each setting over its seeds, after each evaluation; 95 % intervals over seeds, from three on.",
    prepare_quality,
    curves_table,
    draw_curves,
    method="Means over completed trials; the interval is the wider of Student's t and the logit interval. A curve ends "
    "where its last trial stopped, so its end may be the mean of fewer seeds (hover over a point to see n).",
)
LOSS = Part(
    "curves-loss",
    "Loss by epoch",
    "Mean training loss (top) and dev loss (bottom) of each setting, over its seeds.",
    prepare_loss,
    curves_table,
    draw_curves,
    method="Training loss is the mean over the steps since the previous evaluation. Bands are Student's 95 % interval "
    "from three seeds on.",
    detail=True,
)


VIEW = View(
    "/training",
    "Training",
    "How fast does it converge?",
    (QUALITY, LOSS),
    (*(each for each in SHARED_CONTROLS if each != "split"), "axis"),  # test is scored once and has no curve
)
