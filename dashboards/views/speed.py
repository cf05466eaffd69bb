"""How many epochs a trial takes to come near the best score, its own or the baseline's."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.cells import Places, places
from dashboards.views.marks import (
    axis_name,
    cell_colour,
    cell_symbol,
    cell_words,
    completed_of,
    few_cells,
    numbers,
    panels,
    ticks,
    with_note,
)
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, dodge
from orchestrator.analysis.convergence import baseline_best, epochs_to
from orchestrator.analysis.describe import describe_cells
from orchestrator.store.schema import METRICS

SHARE = 0.95
MOST_DOTS = 5000
TARGETS = ("own best", "baseline's best")
Row = dict[str, Any]


class Speed(NamedTuple):
    """Epochs to a share of a best score.

    Attributes:
        dots: A row a trial and target: `panel`, `trial_id`, `cell`, `seed`, `epoch` (NaN where never reached), `x`.
        means: A row a cell and target: `panel`, `KEYS`, `n` (trials that reach it), `trials`, `mean`, `low`, `high`.
        places: Of the cells.
        note: What is left out, in words.
    """

    dots: pd.DataFrame
    means: pd.DataFrame
    places: Places
    note: str


def prepare_speed(selection: Selection) -> Speed:
    """Of completed trials, by the metric chosen, on dev."""
    few = few_cells(selection.trials)
    trials = completed_of(selection.trials, few.table)
    scored = _scored(selection, trials)
    best = baseline_best(scored, trials.assign(trial_id=trials["t"]))
    found = [epochs_to(scored, SHARE), epochs_to(scored, SHARE, best=best)]
    dots = pd.concat([frame.assign(panel=panel) for panel, frame in enumerate(found)], ignore_index=True)
    dots = dots.assign(trial_id=dots["trial_id"].map(trials.set_index("t")["trial_id"]))
    dots = dots[["panel", "trial_id", "cell", "seed", "epoch"]]
    by_panel = [dots[dots["panel"] == panel] for panel in range(len(TARGETS))]
    means = pd.concat([describe_cells(own, ["panel", "cell"], "epoch") for own in by_panel])
    means["trials"] = dots.groupby(["panel", "cell"], sort=False).size().to_numpy()
    means = few.table.merge(means, on="cell").sort_values("panel", kind="stable", ignore_index=True)
    spots = places(few.table.assign(n=few.table["cell"].map(trials["cell"].value_counts()).fillna(0).astype(int)))
    seeds = sorted(dots["seed"].unique().tolist())
    index = dots["seed"].map({seed: n for n, seed in enumerate(seeds)})
    dots["x"] = dots["cell"].map(spots.at) + pd.Series(dodge(index.tolist(), len(seeds)), index=dots.index, dtype=float)
    return Speed(dots, means, spots, few.note)


def _scored(selection: Selection, trials: pd.DataFrame) -> pd.DataFrame:
    """The evaluations with the chosen metric as `score`; numbers stand for ids, as texts of many rows take long."""
    metric = selection.query.metric
    own = metric in ("", str(selection.trials["metric"].iloc[0]))
    column = "score" if own else metric
    assert column in {"score", *METRICS}, column
    sql = f"SELECT t, step, epoch, {column} AS score FROM epochs JOIN chosen USING (t, attempt) ORDER BY t, step"  # noqa: S608
    rows = selection.snapshot.query.ask(sql, chosen=trials[["t", "attempt"]].astype("int32"))
    at = pd.Index(trials["t"]).get_indexer(rows["t"])
    same = {name: trials[name].to_numpy()[at] for name in ("cell", "seed")}
    return rows.rename(columns={"t": "trial_id"}).assign(**same)


def no_speed(info: Speed) -> str:
    """In words."""
    return "" if info.dots["epoch"].notna().any() else "No trial has an evaluation with that metric above 0."


def draw_speed(info: Speed, look: Look) -> Figure:
    """Dots are trials, bars across them means of those that come so far."""
    data: list[Row] = []
    several = info.means["train_size"].nunique() > 1
    shown = info.dots[info.dots["epoch"].notna()]
    dots = dict(iter(shown.groupby(["panel", "cell"], sort=False))) if len(shown) <= MOST_DOTS else {}
    for row in info.means.itertuples():
        if (row.panel, row.cell) in dots:
            words = cell_words(row, several=several)
            data.append(_dots(dots[row.panel, row.cell], row, row.panel, look, words))
    data += [_means(info, panel, look) for panel in range(len(TARGETS))]
    titles = [f"epochs to {100 * SHARE:.0f} % of<br>{target}" for target in TARGETS]
    x = axis(info.places.title, showgrid=False, **ticks(info.places))
    return with_note(
        {"data": data, "layout": panels(look, x, titles, rangemode="tozero")}, look, info.note, _lost(info)
    )


def _lost(info: Speed) -> str:
    lost = info.dots["epoch"].isna()
    told = [f"{int(lost[info.dots['panel'] == n].sum())} trials never come near {t}" for n, t in enumerate(TARGETS)]
    told = [words for words in told if not words.startswith("0 ")]
    return f"{' and '.join(told)}; they are in no mean." if told else ""


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
        "hovertemplate": "%{y:.3~f} epochs, seed %{customdata[1]}<br>trial %{customdata[0]}"
        f"<extra>{words}</extra>",
    }


def _means(info: Speed, panel: int, look: Look) -> Row:
    rows = info.means[(info.means["panel"] == panel) & (info.means["n"] > 0)]
    sure = ~rows["dots_only"]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "mean, 95 %",
        "showlegend": panel == 0,
        "yaxis": axis_name(panel),
        "x": [info.places.at[cell] for cell in rows["cell"]],
        "y": numbers(rows["mean"]),
        "error_y": {
            "type": "data", "symmetric": False, "color": look.text, "thickness": 1.5, "width": 5,
            "array": numbers((rows["high"] - rows["mean"]).where(sure)),
            "arrayminus": numbers((rows["mean"] - rows["low"]).where(sure)),
        },
        "marker": {"symbol": "line-ew-open", "size": 16, "color": look.text, "line": {"width": 2}},
        "customdata": rows[["n", "trials"]].to_numpy(dtype=object).tolist(),
        "hovertemplate": "mean %{y:.3~f} epochs<br>%{customdata[0]} of %{customdata[1]} trials come so "
        "far<extra></extra>",
    }  # fmt: skip


def speed_table(info: Speed) -> pd.DataFrame:
    """A row a cell and target."""
    t = info.means
    return pd.DataFrame(
        {
            f"{100 * SHARE:.0f} % of": t["panel"].map(dict(enumerate(TARGETS))),
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
            "trials": t["trials"],
            "reach it": t["n"],
            "mean (epochs)": t["mean"].round(4),
            "median (epochs)": t["median"].round(4),
            "95 % from (epochs)": t["low"].round(4),
            "95 % to (epochs)": t["high"].round(4),
        }
    )


SPEED = Part(
    "curves-speed",
    "Epochs to nearly the best",
    f"The first evaluation whose score reaches {100 * SHARE:.0f} % of a best score. Above: the trial's own best; "
    "below: that of the baseline's trial of the same seed. Dots are trials; a bar across them is their mean, with "
    "Student's 95 % interval from three on, over those that come so far: the others are counted in the table.",
    prepare_speed,
    speed_table,
    draw_speed,
    no_speed,
)
PARTS = (SPEED,)
