"""Training: how fast does it converge? Mean scores and losses after each evaluation, and epochs to near the best."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import AXES
from dashboards.data.selection import Selection
from dashboards.views import steps
from dashboards.views.kit.cells import (
    Places,
    beside_each_other,
    completed_of,
    one_device,
    places_of,
    setting_columns,
    shown_cells,
)
from dashboards.views.kit.drawing import (
    axis_name,
    cell_colour,
    cell_name,
    cell_symbol,
    mean_marks,
    numbers,
    panels,
    with_note,
    without_few,
)
from dashboards.views.kit.part import SHARED_CONTROLS, Part, View
from dashboards.views.kit.theme import Figure, Look, axis, layout, rgba
from orchestrator.analysis.describe import (
    LEAST_FOR_INTERVAL,
    Moments,
    baseline_best,
    describe_cells,
    epochs_to,
    score_ends,
    t_ends,
)
from orchestrator.config.quantities import counted
from orchestrator.store.schema import METRICS
from trials.metrics.metric import metric_label

# How many epochs a trial takes to reach 95 % of the best score, its own or the baseline's.

SHARE = 0.95
LEAST_EVALUATIONS = 10  # of a trial: fewer tell too roughly when a score was reached
MAX_DOTS = 5000
TARGETS = ("its own best", "the baseline's best")
Row = dict[str, Any]


class Speed(NamedTuple):
    """Epochs to a share of a best score.

    Attributes:
        dots: One row per trial and target: `panel`, `trial_id`, `cell`, `seed`, `epoch` (NaN if never reached), `x`.
        means: One row per cell and target: `panel`, `KEYS`, `n` (trials that reach it), `trials`, `mean`, `low`,
            `high`.
        evaluations: The most that a trial has.
    """

    dots: pd.DataFrame
    means: pd.DataFrame
    places: Places
    note: str
    evaluations: int


def prepare_speed(selection: Selection) -> Speed:
    """Over completed trials, by the selected metric on dev."""
    shown = shown_cells(selection.trials)
    trials = completed_of(selection.trials, shown.table)
    scored = _scored(selection, trials)
    best = baseline_best(scored, trials.assign(trial_id=trials["t"]))
    found = [epochs_to(scored, SHARE), epochs_to(scored, SHARE, best=best)]
    dots = pd.concat([frame.assign(panel=panel) for panel, frame in enumerate(found)], ignore_index=True)
    dots = dots.assign(trial_id=dots["trial_id"].map(trials.set_index("t")["trial_id"]))
    dots = dots[["panel", "trial_id", "cell", "seed", "epoch"]]
    by_panel = [dots[dots["panel"] == panel] for panel in range(len(TARGETS))]
    means = pd.concat([describe_cells(own, ["panel", "cell"], "epoch") for own in by_panel])
    means["trials"] = dots.groupby(["panel", "cell"], sort=False).size().to_numpy()
    means = shown.table.merge(means, on="cell").sort_values("panel", kind="stable", ignore_index=True)
    spots = places_of(shown.table, trials)
    most = int(scored.groupby("trial_id").size().max()) if len(scored) else 0
    return Speed(dots.assign(x=beside_each_other(dots, spots)), means, spots, shown.note, most)


def _scored(selection: Selection, trials: pd.DataFrame) -> pd.DataFrame:
    """The evaluations with the selected metric as `score`; `trial_id` is a number, which is faster than text."""
    metric = selection.query.metric
    own = metric not in METRICS or metric == str(selection.trials["metric"].iloc[0])
    column = "score" if own else metric
    assert column in {"score", *METRICS}, column
    sql = f"SELECT t, step, epoch, {column} AS score FROM epochs JOIN chosen USING (t, attempt) ORDER BY t, step"  # noqa: S608
    rows = selection.snapshot.database.ask(sql, chosen=trials[["t", "attempt"]].astype("int32"))
    at = pd.Index(trials["t"]).get_indexer(rows["t"])
    same = {name: trials[name].to_numpy()[at] for name in ("cell", "seed")}
    return rows.rename(columns={"t": "trial_id"}).assign(**same)


def why_no_speed(info: Speed) -> str:
    """Why there is nothing to show; empty if there is something."""
    if info.evaluations < LEAST_EVALUATIONS:
        return f"Trials have {info.evaluations} evaluations; {LEAST_EVALUATIONS} say when a score is reached."
    return "" if info.dots["epoch"].notna().any() else "No evaluation has a score above 0 by this metric."


def draw_speed(info: Speed, look: Look) -> Figure:
    """A dot per trial, and the mean of those that reach the target."""
    data: list[Row] = []
    several = info.means["train_size"].nunique() > 1
    reached = info.dots[info.dots["epoch"].notna()]
    dots = dict(iter(reached.groupby(["panel", "cell"], sort=False))) if len(reached) <= MAX_DOTS else {}
    for row in info.means.itertuples():
        if (row.panel, row.cell) in dots:
            words = cell_name(row, several=several)
            data.append(_dots(dots[row.panel, row.cell], row, row.panel, look, words))
    data += [_means(info, panel, look) for panel in range(len(TARGETS))]
    titles = [f"epochs to {100 * SHARE:.0f} % of<br>{target}" for target in TARGETS]
    drawn = panels(look, info.places.axis(), titles, rangemode="tozero")
    return with_note({"data": data, "layout": drawn}, look, info.note, _unreached(info))


def _unreached(info: Speed) -> str:
    counts = info.dots["epoch"].isna().groupby(info.dots["panel"]).sum().to_dict()
    share = f"{100 * SHARE:.0f} %"
    words = [f"{counted(int(n), 'trial')} never reach {share} of {TARGETS[k]}" for k, n in counts.items() if n]
    return f"{' and '.join(words)}; they are in no mean." if words else ""


def _dots(dots: pd.DataFrame, row: Any, panel: int, look: Look, words: str) -> Row:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": words,
        "showlegend": False,
        "yaxis": axis_name(panel),
        "x": numbers(dots["x"]),
        "y": numbers(dots["epoch"]),
        "customdata": list(zip(dots["trial_id"].tolist(), dots["seed"].tolist(), strict=True)),
        "marker": {"symbol": cell_symbol(look, row), "size": 7, "opacity": 0.75, "color": cell_colour(look, row)},
        "hovertemplate": "epochs: %{y:.3~f}, seed %{customdata[1]}<br>trial %{customdata[0]}"
        f"<extra>{words}</extra>",
    }


def _means(info: Speed, panel: int, look: Look) -> Row:
    rows = without_few(info.means[(info.means["panel"] == panel) & (info.means["n"] > 0)])
    return mean_marks(
        [info.places.at[cell] for cell in rows["cell"]],
        rows,
        look,
        showlegend=panel == 0,
        yaxis=axis_name(panel),
        customdata=rows[["n", "trials"]].to_numpy(dtype=object).tolist(),
        hovertemplate="epochs: %{y:.3~f} on average<br>trials: %{customdata[0]} of %{customdata[1]}<extra></extra>",
    )


def speed_table(info: Speed) -> pd.DataFrame:
    """One row per cell and target."""
    t = info.means
    return pd.DataFrame(
        {
            f"epochs to {100 * SHARE:.0f} % of": t["panel"].map(dict(enumerate(TARGETS))),
            **setting_columns(t),
            "trials": t["trials"],
            "trials that reach it": t["n"],
            "mean (epochs)": t["mean"].round(4),
            "median (epochs)": t["median"].round(4),
            "95 % from (epochs)": t["low"].round(4),
            "95 % to (epochs)": t["high"].round(4),
        }
    )


SPEED = Part(
    "curves-speed",
    f"Epochs to {100 * SHARE:.0f} % of the best score",
    f"When a trial first reaches {100 * SHARE:.0f} % of its own best score (top) and of the baseline's (bottom).",
    prepare_speed,
    speed_table,
    draw_speed,
    why_no_speed,
    if_any=True,
    method="The baseline is the trial with the same seed. Dots are trials; horizontal marks are means over the trials "
    "that reach the target, with Student's 95 % interval from three on. The table counts the others.",
    detail=True,
)


# Curves: how fast does it converge? Mean scores and losses after each evaluation.

_MAX_MARKERS = 12  # per line; points without a marker still show their value on hover
_MOST_PANELS = 6
MOST_NAMED = 8  # entries of a legend


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
    """The selected metric on dev; test is scored once and has no curve."""
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
    done = completed_of(selection.trials, shown.table)
    in_seconds = selection.query.axis == "train_s"
    alone = one_device(done, "train_s" if in_seconds else "trainable_params")
    parts = [
        selection.snapshot.moments(alone.trials, column).assign(panel=n) for n, column in enumerate(columns.values())
    ]
    lines = _with_interval(pd.concat(parts, ignore_index=True), are_scores=scale == 100)
    seconds = _seconds(selection, alone.trials) if in_seconds else None
    lines["x"] = lines["epoch"] if seconds is None else _looked_up(lines, seconds)
    title = "mean time in optimiser steps (s)" if in_seconds else AXES["epoch"]
    return Curves(lines, shown.table, title, tuple(columns), scale, " ".join(filter(None, [shown.note, alone.note])))


def _with_interval(found: pd.DataFrame, *, are_scores: bool) -> pd.DataFrame:
    """Adds the ends of the 95 % interval that `describe_cells` gives such values, NaN below three seeds."""
    n, mean, std = (found[name].to_numpy(dtype=np.float64) for name in ("n", "mean", "std"))
    in_range = are_scores and bool(found["min"].ge(0).all() and found["max"].le(1).all())
    low, high = (score_ends if in_range else t_ends)(Moments(n, mean, std), 0.95)
    enough = n >= LEAST_FOR_INTERVAL
    columns = ["panel", "cell", "epoch", "n", "mean"]
    return found[columns].assign(low=np.where(enough, low, np.nan), high=np.where(enough, high, np.nan))


def _seconds(selection: Selection, trials: pd.DataFrame) -> pd.Series:
    """Mean training time in seconds up to an evaluation, by (cell, epoch)."""
    sql = """
        WITH summed AS (
            SELECT cell, epoch, sum(train_s) OVER (PARTITION BY t ORDER BY step) AS seconds
            FROM epochs JOIN chosen USING (t, attempt)
        )
        SELECT cell, epoch, avg(seconds) AS seconds FROM summed GROUP BY ALL
    """
    chosen = trials[["t", "attempt"]].astype("int32").assign(cell=trials["cell"].astype(object))
    found = selection.snapshot.database.ask(sql, chosen=chosen)
    return found.set_index(["cell", "epoch"])["seconds"]


def _looked_up(lines: pd.DataFrame, seconds: pd.Series) -> pd.Series:
    keys = pd.MultiIndex.from_frame(lines[["cell", "epoch"]])
    return pd.Series(seconds.reindex(keys).to_numpy(), index=lines.index)


def why_no_curves(info: Curves) -> str:
    """Why there is no curve to show; empty if there is one."""
    return "" if info.lines["mean"].notna().any() else f"No evaluation has recorded {' or '.join(info.panels)}."


def draw_curves(info: Curves, look: Look) -> Figure:
    """A line per cell, with a band for its interval; a panel per measure and, if they are few, per train size."""
    sizes = sorted(info.cells["train_size"].unique().tolist(), reverse=True)
    apart = 1 < len(sizes) * len(info.panels) <= _MOST_PANELS  # else names tell the sizes apart
    data: list[Row] = []
    named = set[str]()
    points = dict(iter(info.lines.groupby(["cell", "panel"], sort=False)))
    for row in info.cells.itertuples():
        words = cell_name(row, several=len(sizes) > 1 and not apart)
        for measure in range(len(info.panels)):
            if (row.cell, measure) in points:
                panel = measure * len(sizes) + sizes.index(row.train_size) if apart else measure
                drawn_as = _Drawn(words, panel, is_named=words not in named)
                data += _line(points[row.cell, measure], row, look, info.scale, drawn_as)
                named.add(words)
    x = axis(info.x_title, rangemode="tozero")
    several = [f"{measure}, {size:,}" for measure in info.panels for size in sizes] if len(sizes) > 1 else info.panels
    titles = list(several if apart else info.panels)
    drawn = panels(look, x, titles) if len(titles) > 1 else layout(look, x=x, y=axis(titles[0]), height=440)
    drawn["showlegend"] = len(named) <= MOST_NAMED  # hovering names and lights up the others
    return with_note({"data": data, "layout": drawn}, look, info.note)


class _Drawn(NamedTuple):
    """How a line is named, and the number of its panel."""

    words: str
    panel: int
    is_named: bool


def _line(points: pd.DataFrame, row: Any, look: Look, scale: float, drawn_as: _Drawn) -> list[Row]:
    colour, words = cell_colour(look, row), drawn_as.words
    shared = {"type": "scatter", "legendgroup": words, "yaxis": axis_name(drawn_as.panel)}
    line = {
        **shared,
        "mode": "lines+markers",
        "name": words,
        "showlegend": drawn_as.is_named,
        "x": numbers(points["x"]),
        "y": numbers(points["mean"], scale),
        "customdata": list(zip(points["n"].tolist(), points["epoch"].tolist(), strict=True)),
        "line": {"color": colour, "dash": look.strategy(str(row.strategy))[2], "width": 2},
        "marker": {"symbol": cell_symbol(look, row), "size": 6, "color": colour, "maxdisplayed": _MAX_MARKERS},
        "hovertemplate": "%{y:.4~f} after %{customdata[1]:.3~f} epochs<br>mean of n=%{customdata[0]}"
        f"<extra>{words}</extra>",
    }
    xs, low, high = (points[name].to_numpy(dtype=np.float64) for name in ("x", "low", "high"))
    banded = np.isfinite(xs) & np.isfinite(low)
    if banded.sum() < 2:
        return [line]
    band = {
        **shared,
        "mode": "lines",
        "name": f"{words}, 95 % interval",
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
    """A colour `#RRGGBB` as that of a band."""
    return f"{rgba(colour)},0.15)"


def curves_table(info: Curves) -> pd.DataFrame:
    """One row per point."""
    both = info.lines.merge(info.cells[["cell", "freeze", "n_layers", "train_size"]], on="cell", how="left")
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
    why_no_curves,
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
    why_no_curves,
    method="Training loss is the mean over the steps since the previous evaluation. Bands are Student's 95 % interval "
    "from three seeds on.",
    detail=True,
)
VIEW = View(
    "/training",
    "Training",
    "How fast does it converge?",
    (QUALITY, LOSS, steps.STEPS, SPEED),
    (*SHARED_CONTROLS, "axis"),
    takes_in=("/curves",),
)
