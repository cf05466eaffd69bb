"""Tags: which labels suffer? F1 beside the baseline's; confusion is in `confused`, spans in `entities`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views import confusion, entities
from dashboards.views.marks import name, numbers, with_note
from dashboards.views.part import Part
from dashboards.views.tag_cell import Beside, beside
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.paired import differences

LEVELS = {"span": "entity types", "class": "classes", "token": "tags"}  # the first that a task has is its default
MOST_TAGS = 40


class TagDifferences(NamedTuple):
    """F1 of each label, a cell's minus the baseline's.

    Attributes:
        table: A row a label, by support: `tag`, `support`, `n_pairs`, `f1`, `baseline_f1` (means of the completed
            trials), `mean`, `low`, `high`, `decided`, `verdict` (of the paired differences; Holm's family is all
            labels).
        level: A key of `LEVELS`; empty where there are no rows.
        beside: The cells.
        split: dev or test.
        note: What could not be shown as asked, in words.
    """

    table: pd.DataFrame
    level: str
    beside: Beside
    split: str
    note: str


def prepare_tags(selection: Selection) -> TagDifferences:
    """Paired by seed."""
    query, cells = selection.query, beside(selection)
    rows = selection.snapshot.tags(cells.trials, query.split)
    levels = [level for level in LEVELS if (rows["level"] == level).any()]
    level = query.level if query.level in levels else next(iter(levels), "")
    absent = f"There is no level {query.level!r} here." if query.level and query.level != level else ""
    note = " ".join(filter(None, [absent, cells.note]))
    return TagDifferences(_differences(rows[rows["level"] == level], cells), level, cells, query.split, note)


def _differences(rows: pd.DataFrame, cells: Beside) -> pd.DataFrame:
    """Each label is a cell of its own with a baseline of its own, so that seeds are paired label by label."""
    mine = rows["cell"] == cells.cell
    frame = pd.DataFrame(
        {
            "cell": mine.map({True: "cell ", False: "base "}).astype(str) + rows["tag"].astype(str),
            "baseline": "base " + rows["tag"].astype(str),
            "group": "labels",
            "seed": rows["seed"],
            "state": "completed",
            "f1": rows["f1"],
        }
    )
    found = differences(frame, "f1").assign(tag=lambda table: table["cell"].str.removeprefix("cell "))
    means = {side: rows[at].groupby("tag")["f1"].mean() for side, at in (("f1", mine), ("baseline_f1", ~mine))}
    table = found.assign(
        support=found["tag"].map(rows.groupby("tag")["support"].max()),
        **{side: found["tag"].map(values) for side, values in means.items()},
    ).sort_values(["support", "tag"], ascending=[False, True], ignore_index=True)
    columns = ["tag", "support", "n_pairs", "f1", "baseline_f1", "mean", "low", "high", "decided", "verdict"]
    return table[columns]


def no_tags(info: TagDifferences) -> str:
    """In words."""
    if info.beside.why:
        return info.beside.why
    if not info.level:
        return f"No scores by label were kept of the {info.split} split: a regression has none."
    if not (info.table["n_pairs"] > 0).any():
        return "No trial of the cell has a completed baseline of the same seed."
    return ""


def draw_tags(info: TagDifferences, look: Look) -> Figure:
    """A row a label, the most frequent at the top; hollow where the difference is not decided."""
    rows = info.table[info.table["n_pairs"] > 0].head(MOST_TAGS)
    half = rows["n_pairs"] >= 3  # below it dots only
    trace = {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "name": "difference",
        "x": numbers(rows["mean"], 100),
        "y": list(range(len(rows))),
        "error_x": {
            "type": "data", "symmetric": False, "color": look.muted, "thickness": 1.5, "width": 4,
            "array": numbers((rows["high"] - rows["mean"]).where(half), 100),
            "arrayminus": numbers((rows["mean"] - rows["low"]).where(half), 100),
        },
        "marker": {
            "symbol": ["diamond" if decided else "diamond-open" for decided in rows["decided"]],
            "size": 11, "color": look.depth(info.beside.depth, info.beside.n_layers),
            "line": {"width": 1.5, "color": look.text},
        },
        "customdata": _told(rows),
        "hovertemplate": "%{x:+.2f} points of F1 (%{customdata[1]:.2f} %, baseline %{customdata[2]:.2f} %)"
        "<br>%{customdata[3]}<extra>%{customdata[0]}</extra>",
    }  # fmt: skip
    left = len(info.table) - len(rows)
    more = f"{left} rarer labels are in the table only." if left else ""
    drawn = layout(look, x=axis(f"F1 on {info.split} minus the baseline's (points)"), y=_rows_axis(rows), shapes=[
        {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": look.text, "width": 1}}
    ], height=int(np.clip(110 + 22 * len(rows), 240, 1200)))  # fmt: skip
    return with_note({"data": [trace], "layout": drawn}, look, info.beside.words, info.note, more)


def _told(rows: pd.DataFrame) -> list[list[Any]]:
    figures = zip(numbers(rows["f1"], 100), numbers(rows["baseline_f1"], 100), strict=True)
    words: Sequence[tuple[str, str]] = list(zip(map(name, rows["tag"]), rows["verdict"], strict=True))
    return [[tag, *pair, verdict] for (tag, verdict), pair in zip(words, figures, strict=True)]


def _rows_axis(rows: pd.DataFrame) -> dict[str, Any]:
    words = [f"{name(row.tag, 30)} ({row.support:,})" for row in rows.itertuples()]
    place = {"tickvals": list(range(len(rows))), "ticktext": words, "range": [len(rows) - 0.5, -0.5]}
    return {**place, "automargin": True, "showgrid": False}


def tags_table(info: TagDifferences) -> pd.DataFrame:
    """A row a label."""
    t = info.table
    return pd.DataFrame(
        {
            LEVELS.get(info.level, "label"): t["tag"],
            "support": t["support"],
            "pairs": t["n_pairs"],
            "F1 (%)": (100 * t["f1"]).round(4),
            "baseline's F1 (%)": (100 * t["baseline_f1"]).round(4),
            "difference (points)": (100 * t["mean"]).round(4),
            "95 % from (points)": (100 * t["low"]).round(4),
            "95 % to (points)": (100 * t["high"]).round(4),
            "verdict": t["verdict"],
        }
    )


DIFFERENCE = Part(
    "tags-difference",
    "F1 by label, minus the baseline's",
    "Paired by seed, with Student's 95 % interval from three pairs on; the most frequent label first, with its count "
    "in the gold labels. Filled: decided at 5 % after Holm's correction over all labels. The cell is that of the "
    "freeze chosen (by default the deepest) and of the largest train size selected.",
    prepare_tags,
    tags_table,
    draw_tags,
    no_tags,
)
PARTS = (confusion.CONFUSION, DIFFERENCE, entities.ENTITIES)
