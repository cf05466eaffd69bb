"""Depth: what does freezing cost? Every trial, means, and differences to the baseline."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.analysis.paired import differences
from dashboards.selection import Selection
from dashboards.theme import Figure, Look, axis, dodge, layout
from dashboards.views.cells import Cells, Places, cells_of, colour, percent, places
from dashboards.views.marks import name
from dashboards.views.part import Part
from dashboards.views.published import Overlay, overlay, published_traces

MOST_DOTS = 5000
_BINS = 60
_BOXES_FROM = 5


# --- Strip and box


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
        data = [_density(info, look), *_extremes(info, look)]
    else:
        data = [*_boxes(info, look), *_dots(info, look)]
    data += [*_means(table, info.places, look), *published_traces(info.published, info.places.at, look)]
    y = axis(f"{info.cells.value_name} (%)")
    return {"data": data, "layout": layout(look, x=_x(info.places), y=y, height=420, shapes=_baselines(info, look))}


def _x(spots: Places) -> dict[str, Any]:
    return axis(spots.title, tickvals=spots.ticks, ticktext=spots.words, showgrid=False)


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
                        "width": 2 if row.embeddings else 1,
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
            "error_y": _bars(shown, look),
            "marker": {"symbol": "line-ew-open", "size": 16, "color": look.text, "line": {"width": 2}},
            "customdata": shown[["freeze", "n"]].to_numpy().tolist(),
            "hovertemplate": "mean %{y:.2f} %<br>%{customdata[0]}, n=%{customdata[1]}<extra></extra>",
        }
    ]


def _bars(table: pd.DataFrame, look: Look) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": percent(table["high"] - table["mean"]),
        "arrayminus": percent(table["mean"] - table["low"]),
        "color": look.text,
        "thickness": 1.5,
        "width": 5,
    }


def _baselines(info: Strip, look: Look) -> list[dict[str, Any]]:
    """A line across each train size at its baseline's mean."""
    ends: dict[int, list[float]] = {}
    means: dict[int, float] = {}
    for row in info.cells.table.itertuples():
        ends.setdefault(row.train_size, []).append(info.places.at[row.cell])
        if row.depth == 0 and not row.embeddings and pd.notna(row.mean):
            means[row.train_size] = 100 * row.mean
    return [
        {
            "type": "line", "x0": min(ends[size]) - 0.5, "x1": max(ends[size]) + 0.5, "y0": mean, "y1": mean,
            "line": {"color": look.text, "width": 1, "dash": "dot"}, "layer": "below",
        }
        for size, mean in means.items()
    ]  # fmt: skip


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
    return table.assign(**_published_columns(info.published, dots["cell"]))


def _published_columns(found: Overlay, cells: pd.Series) -> dict[str, pd.Series]:
    """A column a study, in the order of `cells`; none where none may stand beside them."""
    return {
        f"published: {study} (%)": cells.map((100 * rows.set_index("cell")["value"]).round(4)).astype("float64")
        for study, rows in found.points.groupby("study", sort=False)
    }


# --- Bars


class Bars(NamedTuple):
    """What `Cells` has, and the numbers of studies that may stand beside it."""

    table: pd.DataFrame
    value_name: str
    incomplete: str
    published: Overlay


def prepare_bars(selection: Selection) -> Bars:
    """Means of the cells."""
    return Bars(*cells_of(selection), overlay(selection))


def draw_bars(info: Bars, look: Look) -> Figure:
    """Bars from zero: a cut axis would make small differences look large."""
    spots = places(info.table)
    data: list[dict[str, Any]] = []
    for strategy, rows in info.table.groupby("strategy", sort=False):
        bars = {
            "type": "bar",
            "name": name(str(strategy).replace("_", " ")),
            "x": [spots.at[cell] for cell in rows["cell"]],
            "y": percent(rows["mean"]),
            "error_y": _bars(rows.assign(**_hidden(rows)), look),
            "marker": {
                "color": look.strategy(str(strategy))[0],
                "pattern": {"shape": _PATTERNS.get(str(strategy), "")},
            },
            "customdata": rows.assign(freeze=rows["freeze"].map(name))[["freeze", "n", "train_size"]]
            .to_numpy()
            .tolist(),
            "hovertemplate": "%{y:.2f} %<br>%{customdata[0]}, n=%{customdata[1]}<extra></extra>",
        }
        data.append(bars)
    data += published_traces(info.published, spots.at, look)
    y = axis(f"mean {info.value_name} (%)", rangemode="tozero")
    return {"data": data, "layout": layout(look, x=_x(spots), y=y, bargap=0.25)}


_PATTERNS = {"first_k": "/", "last_k": "\\", "alternating": "x", "all_encoder": ".", "layers": "-"}


def _hidden(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """No interval below three seeds."""
    return {end: rows[end].where(~rows["dots_only"]) for end in ("low", "high")}


def bars_table(info: Bars) -> pd.DataFrame:
    """That of the cells, and what studies say of them."""
    cells = Cells(info.table, info.value_name, info.incomplete)
    return cells_table(cells).assign(**_published_columns(info.published, info.table["cell"]))


def cells_table(info: Cells) -> pd.DataFrame:
    """Mean, median (50 %), standard deviation, least and most of each cell, as the fourth study prints them."""
    table = info.table
    shares = {name: 100 * table[name] for name in ("mean", "median", "std", "min", "max", "low", "high")}
    names = {"median": "50% (%)", "low": "95 % from (%)", "high": "95 % to (%)"}
    return pd.DataFrame(
        {
            "train size (sentences)": table["train_size"],
            "frozen": table["freeze"],
            "depth (layers)": table["depth"],
            "n": table["n"],
            "planned": table["planned"],
            **{names.get(name, f"{name} (%)"): values.round(4) for name, values in shares.items()},
        }
    )


# --- Paired differences


class Forest(NamedTuple):
    """Each cell beside its baseline, paired by seed.

    Attributes:
        table: Rows of `analysis.paired.differences` with `freeze`, `train_size`, `depth`, `n_layers`, `strategy`.
    """

    table: pd.DataFrame
    value_name: str


MOST_EXACT = 60  # exact tests of more cells take seconds


def prepare_forest(selection: Selection) -> Forest:
    """Differences of every cell that has a baseline."""
    trials = selection.trials
    described = trials.drop_duplicates("cell")[
        ["cell", "freeze", "train_size", "depth", "n_layers", "strategy", "embeddings"]
    ]
    few = described["cell"].nunique() <= MOST_EXACT
    found = differences(trials, selection.column, exact="all" if few else ())
    table = found.merge(described, on="cell").sort_values(["train_size", "depth", "strategy", "embeddings"])
    return Forest(table.reset_index(drop=True), selection.value_name)


def why_no_forest(info: Forest) -> str:
    """In words."""
    if not len(info.table):
        return "Only the baseline is here, so there is nothing to compare with it."
    if not (info.table["n_pairs"] > 0).any():
        return "No trial has a completed baseline of the same seed: run the sweep's baseline (freeze: none)."
    return ""


def draw_forest(info: Forest, look: Look) -> Figure:
    """Points with intervals, zero drawn; hollow where the difference is not decided."""
    table = info.table[info.table["n_pairs"] > 0]
    words = [f"{r.freeze}, {r.train_size:,} (n={r.n_pairs})" for r in table.itertuples()]
    colours = [look.depth(r.depth, r.n_layers) for r in table.itertuples()]
    half = table["n_pairs"] >= 2
    data = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "name": "difference",
        "x": percent(table["mean"]),
        "y": words,
        "error_x": {
            "type": "data", "symmetric": False, "color": look.muted, "thickness": 1.5, "width": 4,
            "array": percent((table["high"] - table["mean"]).where(half)),
            "arrayminus": percent((table["mean"] - table["low"]).where(half)),
        },
        "marker": {
            "symbol": ["diamond" if decided else "diamond-open" for decided in table["decided"]],
            "size": 11, "color": colours, "line": {"width": 1.5, "color": look.text},
        },
        "customdata": [[verdict] for verdict in table["verdict"]],
        "hovertemplate": "%{x:+.2f} points<br>%{customdata[0]}<extra>%{y}</extra>",
    }  # fmt: skip
    zero = {
        "type": "line",
        "x0": 0,
        "x1": 0,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": look.text, "width": 1},
    }
    x = axis(f"{info.value_name} minus the baseline's (points)")
    y = {"autorange": "reversed", "automargin": True, "showgrid": False, "type": "category"}
    height = int(np.clip(90 + 24 * len(table), 220, 2000))
    return {"data": [data], "layout": layout(look, x=x, y=y, height=height, shapes=[zero])}


def forest_table(info: Forest) -> pd.DataFrame:
    """A row a cell with all tests."""
    t = info.table
    return pd.DataFrame(
        {
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
            "pairs": t["n_pairs"],
            "difference (points)": (100 * t["mean"]).round(4),
            "95 % from (points)": (100 * t["low"]).round(4),
            "95 % to (points)": (100 * t["high"]).round(4),
            "p (t)": t["p_t"].round(5),
            "p (Holm)": t["p_holm"].round(5),
            "p (permutation)": t["p_permutation"].round(5),
            "p (Wilcoxon)": t["p_wilcoxon"].round(5),
            "effect (d_z)": t["effect"].round(3),
            "further seeds": t["further_seeds"].astype(object).where(t["further_seeds"].notna(), None),
            "verdict": t["verdict"],
        }
    )


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
BARS = Part(
    "depth-bars",
    "Mean by strategy",
    "Bars from zero, with 95 % intervals from three seeds on. Hollow diamonds: published numbers of the same metric, "
    "split, corpus and train size.",
    prepare_bars,
    bars_table,
    draw_bars,
)
TABLE = Part(
    "depth-table",
    "Mean, median, spread and range",
    "Over the completed seeds of each cell; standard deviation with n-1.",
    cells_of,
    cells_table,
)
FOREST = Part(
    "depth-forest",
    "Difference to the baseline, paired by seed",
    "Each trial minus the baseline's of the same seed and train subset; Student's 95 % interval. Filled: decided at "
    "5 % after Holm's correction over the cells of a train size.",
    prepare_forest,
    forest_table,
    draw_forest,
    why_no_forest,
)
PARTS = (STRIP, FOREST, BARS, TABLE)
