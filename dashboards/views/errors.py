"""Errors: which labels suffer? F1 of each label and errors of entities against the baseline."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.error_counts import CONFUSION, ENTITIES, ComparedCells, compared_cells, select_answer
from dashboards.views.kit.cells import hundredths, loss_columns, verdicts
from dashboards.views.kit.drawing import Diamonds, Figure, Look, forest_plot, name, numbers, with_note
from dashboards.views.kit.part import NO_PAIRS, SHARED_CONTROLS, EmptyPartError, Part, View
from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.decision_plan import ERROR, DecisionPlan
from orchestrator.config.quantities import amount

LEVELS = {"span": "entity type", "class": "class", "token": "tag"}  # the first that a task has is its default
MAX_TAGS = 40  # labels that the figure has room for; the table has all


class TagDifferences(NamedTuple):
    """Loss of F1 of each label: its baseline's minus a cell's.

    Attributes:
        table: One row per label, by support: `tag`, `support`, `n_pairs`, `f1`, `baseline_f1` (means over completed
            trials), `loss`, `low`, `high`, `difference`, `why_none` (the intervals of all labels hold together).
        level: A key of `LEVELS`.
    """

    table: pd.DataFrame
    level: str
    cells: ComparedCells
    split: str
    note: str


def prepare_tags(selection: Selection) -> TagDifferences:
    """Differences paired by seed."""
    query, cells = selection.query, compared_cells(selection)
    rows = selection.snapshot.tags(cells.trials, query.split)
    levels = [level for level in LEVELS if (rows["level"] == level).any()]
    if not levels:
        raise EmptyPartError(f"No scores by label are stored for the {query.split} split. A regression has none.")
    level = query.level if query.level in levels else levels[0]
    absent = f"There are no scores at the level {query.level!r}." if query.level and query.level != level else ""
    note = " ".join(filter(None, [absent, cells.note]))
    table = _differences(rows[rows["level"] == level], cells)
    if not (table["n_pairs"] > 0).any():
        raise EmptyPartError(NO_PAIRS)
    return TagDifferences(table, level, cells, query.split, note)


def _differences(rows: pd.DataFrame, cells: ComparedCells) -> pd.DataFrame:
    """Each label counts as a cell with a baseline of its own, so that seeds are paired label by label."""
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
    plan = DecisionPlan(error=ERROR / max(1, rows["tag"].nunique()))
    losses = loss_table(frame, "f1", plan).assign(tag=lambda table: table["cell"].str.removeprefix("cell "))
    means = {side: rows[mask].groupby("tag")["f1"].mean() for side, mask in (("f1", mine), ("baseline_f1", ~mine))}
    table = losses.assign(
        support=losses["tag"].map(rows.groupby("tag")["support"].max()),
        **{side: losses["tag"].map(values) for side, values in means.items()},
    ).sort_values(["support", "tag"], ascending=[False, True], ignore_index=True)
    columns = ["tag", "support", "n_pairs", "f1", "baseline_f1", "loss", "low", "high", "difference", "why_none"]
    return table[columns]


def draw_tags(info: TagDifferences, look: Look) -> Figure:
    """A row per label, the most frequent at the top."""
    rows = info.table[info.table["n_pairs"] > 0].head(MAX_TAGS)
    scores = zip(numbers(rows["f1"], 100), numbers(rows["baseline_f1"], 100), strict=True)
    marks = Diamonds(
        [f"{name(row.tag, 30)} ({row.support:,})" for row in rows.itertuples()],
        look.depth(info.cells.depth, info.cells.n_layers),
        [[name(tag), *pair, verdict] for tag, pair, verdict in zip(rows["tag"], scores, verdicts(rows), strict=True)],
        "%{x:+.2f} points of F1 (%{customdata[1]:.2f} %, baseline %{customdata[2]:.2f} %)"
        "<br>%{customdata[3]}<extra>%{customdata[0]}</extra>",
    )
    n_more = len(info.table) - len(rows)
    more = f"{amount(n_more, 'rarer label')} in the table only." if n_more else ""
    figure = forest_plot(rows, marks, look, f"loss of F1 on {info.split} (points)")
    return with_note(figure, look, info.cells.caption, info.note, more)


def tags_table(info: TagDifferences) -> pd.DataFrame:
    """One row per label: `support`, `pairs`, both F1 in percent, the loss with its interval, the `verdict`."""
    t = info.table
    return pd.DataFrame(
        {
            LEVELS[info.level]: t["tag"],
            "support": t["support"],
            "pairs": t["n_pairs"],
            **hundredths(t, f1="F1 (%)", baseline_f1="baseline F1 (%)"),
            **loss_columns(t),
            "verdict": verdicts(t),
        }
    )


DIFFERENCE = Part(
    "tags-difference",
    "F1 by label",
    "What each label loses of its F1; an interval that excludes zero shows a difference.",
    prepare_tags,
    tags_table,
    draw_tags,
    method="Losses are paired by seed: the baseline's F1 minus the setting's. Each end holds with chance 95 % "
    "for all labels together, at every look from three seeds on. Labels are ordered by frequency, with "
    "their count in the gold labels. The setting compared is the selected freeze (by default the one that is "
    "recommended) at the largest train size selected.",
)
VIEW = View(
    "/errors",
    "Errors",
    "Which labels suffer?",
    (DIFFERENCE, CONFUSION, ENTITIES),
    (*SHARED_CONTROLS, "freeze", "level"),
    resolved=select_answer,
)
