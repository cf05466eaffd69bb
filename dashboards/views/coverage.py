"""Whether a sweep is complete and sane: the state of every planned trial, failures and their reasons, progress."""

from __future__ import annotations

from html import unescape
from typing import Any, NamedTuple

import dash_mantine_components as dmc
import numpy as np
import pandas as pd
from dash import html

from dashboards.data.selection import Selection, page_selection, state_of
from dashboards.views.kit.cards import resume_command
from dashboards.views.kit.components import copy_box
from dashboards.views.kit.drawing import STATES, Figure, Look, axis, cell_name, layout
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.config.quantities import amount
from orchestrator.forecast.pace import TRIAL_COLUMNS, RunningTrial, time_left
from trials.record import State
from trials.spec import Seeds

MAX_SQUARES = 5000  # trials; more squares are too small to be told apart, and slow to draw


class Coverage(NamedTuple):
    """The state of every planned trial.

    Attributes:
        rows: Labels of the cells, in order.
        seeds: In order.
        states: (cells, seeds) state of each trial; empty if it is not planned.
        ids: (cells, seeds) trial ids; empty if it is not planned.
        completed: Share of each cell's planned trials that have completed.
    """

    rows: list[str]
    seeds: list[int]
    states: np.ndarray
    ids: np.ndarray
    completed: list[float]
    planned: list[int]


def prepare_coverage(selection: Selection) -> Coverage:
    """Cells by train size and depth, with their trials by seed."""
    trials = selection.trials.sort_values(["train_size", "depth", "strategy", "embeddings", "cell"])
    cells = trials.drop_duplicates("cell")
    several = cells["train_size"].nunique() > 1
    labels = [cell_name(row, several=several) for row in cells.itertuples()]
    seeds = sorted(trials["seed"].unique().tolist())
    place = pd.Index(cells["cell"])
    cell = place.get_indexer(trials["cell"]), pd.Index(seeds).get_indexer(trials["seed"])
    states, ids = (np.full((len(cells), len(seeds)), "", dtype=object) for _ in range(2))
    states[cell], ids[cell] = trials["state"].to_numpy(dtype=object), trials["trial_id"].to_numpy(dtype=object)
    complete = (trials["state"] == State.COMPLETED.value).groupby(trials["cell"].to_numpy(), sort=False)
    shares, counts = complete.mean().reindex(place), complete.size().reindex(place)
    return Coverage(_distinct(labels), seeds, states, ids, shares.tolist(), counts.tolist())


def _distinct(labels: list[str]) -> list[str]:
    """The labels; equal ones are numbered, as a category axis would put them into one row."""
    seen: dict[str, int] = {}
    out = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        out.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return out


def draw_coverage(info: Coverage, look: Look) -> Figure:
    """A square per trial, coloured and marked by its state; above 5,000 the share of each cell that has completed."""
    if info.states.size > MAX_SQUARES:
        return _completed_shares(info, look)
    states = [state for state in STATES if (info.states == state).any()]
    code = {state: n for n, state in enumerate(states)}
    z = [[code.get(state) for state in row] for row in info.states]
    marks = [[STATES[state][2] if state else "" for state in row] for row in info.states]
    hover = [
        [f"{STATES[s][0]}, trial {i}" if s else "" for s, i in zip(*row, strict=True)]
        for row in zip(info.states, info.ids, strict=True)
    ]
    scale = [
        [edge, STATES[state][1]] for n, state in enumerate(states) for edge in (n / len(states), (n + 1) / len(states))
    ]
    squares = {
        "type": "heatmap",
        "x": [f"seed {Seeds.label_of(seed)}" for seed in info.seeds],
        "y": info.rows,
        "z": z,
        "zmin": -0.5,
        "zmax": len(states) - 0.5,
        "colorscale": scale,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "text": marks,
        "texttemplate": "%{text}",
        "textfont": {"color": "#FFFFFF"},
        "customdata": [
            [[trial_id, text] for trial_id, text in zip(*row, strict=True)] for row in zip(info.ids, hover, strict=True)
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
        for state in states
    ]  # fmt: skip
    height = int(np.clip(110 + 22 * len(info.rows), 200, 1600))
    x = {"type": "category", "showgrid": False, "automargin": True}
    y = {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False}
    return {"data": [squares, *keys], "layout": layout(look, x=x, y=y, height=height, showlegend=True)}


def _completed_shares(info: Coverage, look: Look) -> Figure:
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": info.rows,
        "x": [round(100 * share, 2) for share in info.completed],
        "marker": {"color": STATES["completed"][1]},
        "customdata": info.planned,
        "hovertemplate": "%{y}: %{x:.0f} % of %{customdata} trials completed<extra></extra>",
        "name": "completed",
    }
    y = {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False}
    return {"data": [bars], "layout": layout(look, x=axis("completed (% of planned)", range=[0, 100]), y=y, height=420)}


def coverage_table(info: Coverage) -> pd.DataFrame:
    """One row per cell: `planned`, and how many trials are in which state."""
    states = [state for state in STATES if (info.states == state).any()]
    counts = {STATES[state][0]: (info.states == state).sum(axis=1) for state in states}
    return pd.DataFrame({"frozen, train size": [unescape(row) for row in info.rows], "planned": info.planned, **counts})


def prepare_failures(selection: Selection) -> pd.DataFrame:
    """`trials` and `example` by `state` and the last line of the error, where neither completed nor pruned."""
    failed = selection.other_trials
    if not len(failed):
        raise EmptyPartError("No trial failed.")
    errors = failed["error"].fillna("").astype(str).str.strip().str.rsplit("\n", n=1).str[-1].str.slice(0, 300)
    rows = failed.assign(reason=errors).groupby(["state", "reason"], sort=False)
    table = rows.agg(trials=("trial_id", "size"), example=("trial_id", "first")).reset_index()
    table = table.sort_values("trials", ascending=False, kind="stable", ignore_index=True)
    return table.assign(state=table["state"].str.replace("_", " "))[["state", "trials", "reason", "example"]]


class Progress(NamedTuple):
    """How far a sweep is.

    Attributes:
        time_left: Estimated time to the end (`Pace.time_left`); None if no driver runs.
        drivers: A line about each driver that runs it.
    """

    counts: dict[str, int]
    time_left: str | None
    drivers: tuple[str, ...] = ()


def prepare_progress(selection: Selection) -> Progress:
    """The progress over all trials of the sweep, whatever is selected."""
    assert selection.sweep is not None
    by_state = selection.sweep.trials["state"].value_counts()
    counts = {state: int(by_state[state]) for state in STATES if state in by_state}
    return Progress(counts, _time_left(selection), selection.sweep.drivers)


def _time_left(selection: Selection) -> str | None:
    """The time left, by the trials that ended since the driver started and those that run, as in the terminal."""
    sweep = selection.sweep
    if sweep is None or sweep.running_since is None:
        return None
    since, specs = sweep.running_since, selection.snapshot.specs  # of a cell: of any seed, which does not matter here
    ahead = sweep.trials[~(sweep.trials["time"] < pd.Timestamp(since, unit="s", tz="UTC"))]
    rows = ahead.loc[ahead["time"].notna(), ["cell", *TRIAL_COLUMNS]].astype(object)
    ended = rows.where(rows.notna(), None).to_dict("records")
    newest = selection.snapshot.epochs(ahead[ahead["state"] == "running"]).groupby(["cell", "seed"], sort=False)
    sums = newest.agg({"epoch": "max", "train_s": "sum", "eval_s": "sum", "time": "max"}).itertuples()
    begun = [
        RunningTrial(selection.snapshot.spec(*s.Index), s.epoch, s.train_s + s.eval_s, s.time.timestamp()) for s in sums
    ]
    planned = (specs[cell] for cell in ahead["cell"])
    return time_left(since, sweep.likely, planned, ((specs[row["cell"]], row) for row in ended), begun)


def progress(selection: Selection) -> list[Any]:
    """The progress of an unfinished sweep, and the command that resumes it if it was stopped; else nothing."""
    sweep = selection.sweep
    assert sweep is not None
    if not sweep.is_running and state_of(sweep) == "finished":
        return []
    stopped = [] if sweep.is_running else [copy_box(resume_command(sweep, selection.snapshot.address), "the command")]
    shown = page_selection(selection)  # of which a notice above says how many have completed
    is_said = bool(shown.incomplete) and len(shown.trials) == len(sweep.trials)
    return [_progress(prepare_progress(selection), is_said=is_said), *stopped]


def _progress(info: Progress, *, is_said: bool) -> Any:
    """A bar of the trials by state, with their counts as text; `is_said`: without the count of completed ones."""
    total, done = sum(info.counts.values()), info.counts.get("completed", 0)
    others = [f"{n:,} {STATES[state][0]}" for state, n in info.counts.items() if state != "completed"]
    items = [f"time left: {info.time_left}"] if info.time_left else []
    completed = [] if is_said else [f"{done:,} of {amount(total, 'trial')} completed"]
    text = ", ".join([*completed, *others, *items])
    bar = html.Div(
        [
            html.Div(style={"width": f"{100 * n / total:.3f}%", "background": STATES[state][1]})
            for state, n in info.counts.items()
        ],
        className="states",
        **{"aria-hidden": "true"},
    )
    drivers = [dmc.Text(f"Driver {driver}", size="sm", c="dimmed") for driver in info.drivers]
    return html.Div([bar, dmc.Text(text, size="sm"), *drivers], className="progress")


COVERAGE = Part(
    "overview-coverage",
    "Coverage",
    "Each square is one planned trial; rows are settings, columns are seeds. Click a square to open its trial.",
    prepare_coverage,
    coverage_table,
    draw_coverage,
    any_state=True,
    on_demand="Every trial, by setting and seed",
    detail=True,
)
FAILURES = Part(
    "overview-failures",
    "Failures by reason",
    "Trials that ended neither completed nor pruned. Run the launch command again to retry them.",
    prepare_failures,
    method="Failed trials enter no mean. The reason is the last line of the error.",
    any_state=True,
    if_any=True,
)
