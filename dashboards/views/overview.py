"""Overview answers: is the sweep complete and sane, and how far is it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.part import Part
from dashboards.views.theme import STATES, Figure, Look, axis, layout
from orchestrator.store.schema import State

MOST_MARKS = 5000
_LEFT = ("running", "planned", "missing")


# --- Coverage


class Coverage(NamedTuple):
    """The state of every planned trial.

    Attributes:
        rows: Labels of the cells, in order.
        seeds: In order.
        states: (cells, seeds) the state of each trial; empty where the plan has none.
        ids: Its trial ids, likewise.
        done: Share of each cell's planned trials that are completed.
        n_seeds: Planned trials of each cell.
    """

    rows: list[str]
    seeds: list[int]
    states: np.ndarray
    ids: np.ndarray
    done: list[float]
    n_seeds: list[int]


def prepare_coverage(selection: Selection) -> Coverage:
    """Cells by train size and depth, their trials by seed."""
    trials = selection.trials.sort_values(["train_size", "depth", "strategy", "embeddings", "cell"])
    cells = trials.drop_duplicates("cell")
    several = cells["train_size"].nunique() > 1
    labels = [f"{row.freeze}, {row.train_size:,}" if several else str(row.freeze) for row in cells.itertuples()]
    seeds = sorted(trials["seed"].unique().tolist())
    place = pd.Index(cells["cell"])
    at = place.get_indexer(trials["cell"]), pd.Index(seeds).get_indexer(trials["seed"])
    states, ids = (
        np.full((len(cells), len(seeds)), "", dtype=object),
        np.full((len(cells), len(seeds)), "", dtype=object),
    )
    states[at], ids[at] = trials["state"].to_numpy(dtype=object), trials["trial_id"].to_numpy(dtype=object)
    complete = (trials["state"] == State.COMPLETED.value).groupby(trials["cell"].to_numpy(), sort=False)
    shares, counts = complete.mean().reindex(place), complete.size().reindex(place)
    return Coverage(_distinct(labels), seeds, states, ids, shares.tolist(), counts.tolist())


def _distinct(labels: list[str]) -> list[str]:
    """A category axis would put equal labels in one row."""
    seen: dict[str, int] = {}
    out = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        out.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return out


def draw_coverage(info: Coverage, look: Look) -> Figure:
    """A field a trial, coloured and marked by its state; above 5,000 the share of each cell that is done."""
    if info.states.size > MOST_MARKS:
        return _shares(info, look)
    known = [state for state in STATES if (info.states == state).any()]
    code = {state: n for n, state in enumerate(known)}
    z = [[code.get(state) for state in row] for row in info.states]
    marks = [[STATES[state][2] if state else "" for state in row] for row in info.states]
    said = [
        [f"{STATES[s][0]}, trial {i}" if s else "" for s, i in zip(*row, strict=True)]
        for row in zip(info.states, info.ids, strict=True)
    ]
    scale = [
        [edge, STATES[state][1]] for n, state in enumerate(known) for edge in (n / len(known), (n + 1) / len(known))
    ]
    field = {
        "type": "heatmap",
        "x": [f"seed {seed}" for seed in info.seeds],
        "y": info.rows,
        "z": z,
        "zmin": -0.5,
        "zmax": len(known) - 0.5,
        "colorscale": scale,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "text": marks,
        "texttemplate": "%{text}",
        "textfont": {"color": "#FFFFFF"},
        "customdata": [
            [[trial_id, words] for trial_id, words in zip(*row, strict=True)]
            for row in zip(info.ids, said, strict=True)
        ],
        "hovertemplate": "%{y}, %{x}<br>%{customdata[1]}<extra></extra>",
        "name": "trials",
    }
    keys = [
        {
            "type": "scatter", "mode": "markers", "x": [None], "y": [None], "hoverinfo": "skip",
            "name": f"{STATES[state][2]} {STATES[state][0]}",
            "marker": {"symbol": "square", "size": 11, "color": STATES[state][1]},
        }
        for state in known
    ]  # fmt: skip
    height = int(np.clip(110 + 22 * len(info.rows), 200, 1600))
    x = {"type": "category", "showgrid": False, "automargin": True}
    y = {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False}
    return {"data": [field, *keys], "layout": layout(look, x=x, y=y, height=height, showlegend=True)}


def _shares(info: Coverage, look: Look) -> Figure:
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": info.rows,
        "x": [round(100 * share, 2) for share in info.done],
        "marker": {"color": STATES["completed"][1]},
        "customdata": info.n_seeds,
        "hovertemplate": "%{y}: %{x:.0f} % of %{customdata} trials done<extra></extra>",
        "name": "done",
    }
    y = {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False}
    return {"data": [bars], "layout": layout(look, x=axis("completed (% of planned)", range=[0, 100]), y=y, height=420)}


def coverage_table(info: Coverage) -> pd.DataFrame:
    """A row a cell: how many trials are in which state."""
    known = [state for state in STATES if (info.states == state).any()]
    counts = {STATES[state][0]: (info.states == state).sum(axis=1) for state in known}
    return pd.DataFrame({"frozen, train size": info.rows, "planned": info.n_seeds, **counts})


# --- Failures


class Failures(NamedTuple):
    """Trials that ended neither completed nor pruned, grouped by what was said last."""

    table: pd.DataFrame


def prepare_failures(selection: Selection) -> Failures:
    """The most frequent reason first."""
    failed = selection.others
    said = failed["error"].fillna("").astype(str).str.strip().str.rsplit("\n", n=1).str[-1].str.slice(0, 300)
    rows = failed.assign(reason=said).groupby(["state", "reason"], sort=False)
    table = rows.agg(trials=("trial_id", "size"), example=("trial_id", "first")).reset_index()
    table = table.sort_values("trials", ascending=False, kind="stable", ignore_index=True)
    return Failures(table.assign(state=table["state"].str.replace("_", " "))[["state", "trials", "reason", "example"]])


COVERAGE = Part(
    "overview-coverage",
    "Coverage",
    "A field a planned trial: rows are cells, columns seeds. Click a field to open its trial.",
    prepare_coverage,
    coverage_table,
    draw_coverage,
    about_states=True,
)
FAILURES = Part(
    "overview-failures",
    "Failures by reason",
    "Trials that ended neither completed nor pruned; they are in no mean. The launch command tries them again.",
    prepare_failures,
    lambda info: info.table,
    empty=lambda info: "" if len(info.table) else "No trial failed.",
    about_states=True,
)
PARTS = (COVERAGE, FAILURES)


class Progress(NamedTuple):
    """What the cards show.

    Attributes:
        counts: Trials in each state that there are.
        left_s: Expected seconds to the end, from the trials that ended last; None where it cannot be told.
        best, baseline, cheapest: In words: the best cell, the baseline, the cheapest within the tolerance.
    """

    counts: dict[str, int]
    left_s: float | None
    best: str
    baseline: str
    cheapest: str


def prepare_progress(selection: Selection) -> Progress:
    """Over the selected trials."""
    trials = selection.trials
    found = trials["state"].value_counts()
    counts = {state: int(found[state]) for state in STATES if state in found}
    return Progress(counts, _left_s(selection, counts), *_landmarks(selection))


def _left_s(selection: Selection, counts: dict[str, int]) -> float | None:
    """From the pace of the last trials that ended, while a driver runs the sweep."""
    left = sum(counts.get(state, 0) for state in _LEFT)
    if selection.sweep is None or not selection.sweep.is_running or not left:
        return None
    ended = selection.trials["time"].dropna().sort_values().tail(20)
    if len(ended) < 3:
        return None
    return float((ended.iloc[-1] - ended.iloc[0]).total_seconds() / (len(ended) - 1) * left)


def _landmarks(selection: Selection) -> tuple[str, str, str]:
    """Of the largest train size, whose scores alone can be compared."""
    done = selection.completed
    if not len(done):
        return "", "", ""
    done = done[done["train_size"] == done["train_size"].max()]
    cells = done.groupby("cell", sort=False).agg(
        freeze=("freeze", "first"),
        score=(selection.column, "mean"),
        cost=("train_s", "mean"),
        baseline=("baseline", "first"),
        n=("seed", "size"),
    )
    best = cells.loc[cells["score"].idxmax()]
    base = cells[cells.index == cells["baseline"]]
    if not len(base):
        return _word(best), "no baseline", "needs a baseline"
    within = cells[cells["score"] >= base["score"].iloc[0] - selection.query.tolerance / 100]
    return _word(best), _word(base.iloc[0]), _word(within.loc[within["cost"].idxmin()]) if len(within) else "none"


def _word(row: pd.Series) -> str:
    return f"{row['freeze']}: {100 * row['score']:.2f} % (n={row['n']}), {row['cost']:.1f} s"
