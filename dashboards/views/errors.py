"""Errors: which labels suffer? F1 of each label and errors of entities against the baseline."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.predictions import entity_errors, has_spans, predictions_of
from dashboards.data.selection import Selection
from dashboards.views import confusion
from dashboards.views.forest import NO_PAIRS
from dashboards.views.kit.cells import hundredths, loss_columns, verdicts
from dashboards.views.kit.compared import ComparedCells, at_answer, compared_cells, first_seeds
from dashboards.views.kit.drawing import (
    Diamonds,
    forest_plot,
    freeze_column,
    freeze_name,
    interval_bars,
    name,
    numbers,
    with_note,
    without_few,
)
from dashboards.views.kit.part import SHARED_CONTROLS, EmptyPartError, Part, View
from dashboards.views.kit.theme import Figure, Look, axis, layout
from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.decision_plan import ERROR, DecisionPlan
from orchestrator.analysis.describe import describe_cells
from orchestrator.config.quantities import counted

# Entity errors: missed, spurious, wrong type, wrong boundary.

SEEDS = 5
KINDS = {"missed": "missed", "spurious": "spurious", "wrong_type": "wrong type", "wrong_boundary": "wrong boundary"}


class Entities(NamedTuple):
    """Counts of entity errors.

    Attributes:
        trials: One row per trial: `cell`, `trial_id`, `seed` and the fields of `EntityErrors`.
        means: One row per cell and kind of error: `cell`, `kind`, `n`, `mean`, `low`, `high` (NaN below three seeds).
    """

    trials: pd.DataFrame
    means: pd.DataFrame
    cells: ComparedCells
    split: str


def prepare_entities(selection: Selection) -> Entities:
    """Over at most `SEEDS` seeds of each cell that have stored predictions."""
    cells, split = compared_cells(selection), selection.query.split
    trials = first_seeds(cells.trials, SEEDS)
    predictions = predictions_of(selection.snapshot, trials, split)
    if not predictions:
        raise EmptyPartError(
            f"No predictions on {split} are stored. Set `predictions: all` in the sweep file and launch again."
        )
    with_spans = {trial_id: labels for trial_id, labels in predictions.items() if has_spans(labels)}
    rows = [
        {
            "cell": row.cell,
            "trial_id": row.trial_id,
            "seed": row.seed,
            **entity_errors(with_spans[row.trial_id])._asdict(),
        }
        for row in trials.itertuples()
        if row.trial_id in with_spans
    ]
    if not rows:
        raise EmptyPartError("This task has no entities (no B- and I- tags).")
    counted = pd.DataFrame(rows)
    long = counted.melt(["cell"], list(KINDS), "kind", "count")
    means = without_few(describe_cells(long, ["cell", "kind"], "count"))[["cell", "kind", "n", "mean", "low", "high"]]
    return Entities(counted, means, cells, split)


def draw_entities(info: Entities, look: Look) -> Figure:
    """A bar per cell and kind of error, and a dot per trial."""
    own = info.cells
    cells = (
        (own.baseline, "baseline", look.text, ""),
        (own.cell, name(freeze_name(own.freeze)), look.depth(own.depth, own.n_layers), "/"),
    )
    data: list[dict[str, Any]] = []
    for number, (cell, label, colour, pattern) in enumerate(cells):
        rows = info.means[info.means["cell"] == cell].set_index("kind").reindex(list(KINDS))
        data += [_bars(rows, label, colour, pattern, number, look), _dots(info, cell, label, number, look)]
    ticks = {"tickvals": list(range(len(KINDS))), "ticktext": list(KINDS.values())}
    y = axis(f"entities per trial ({info.split}, mean)", rangemode="tozero")
    drawn = layout(look, x=axis("", showgrid=False, **ticks), y=y, barmode="overlay")
    return with_note({"data": data, "layout": drawn}, look, info.cells.caption, info.cells.note)


def _bars(rows: pd.DataFrame, label: str, colour: str, pattern: str, number: int, look: Look) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": label,
        "x": [n + _shift(number) for n in range(len(rows))],
        "y": numbers(rows["mean"]),
        "width": 0.36,
        "error_y": interval_bars(rows, look.muted),
        "marker": {"color": colour, "pattern": {"shape": pattern}},
        "hovertemplate": f"%{{y:,.1f}} entities<extra>{label}</extra>",
    }


def _shift(number: int) -> float:
    return -0.2 if number == 0 else 0.2


def _dots(info: Entities, cell: str, label: str, number: int, look: Look) -> dict[str, Any]:
    rows = info.trials[info.trials["cell"] == cell].sort_values("seed")
    step = 0.3 / max(len(rows), 1)
    at = [(place - (len(rows) - 1) / 2) * step for place in range(len(rows))]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label,
        "showlegend": False,
        "x": [round(n + _shift(number) + place, 4) for n in range(len(KINDS)) for place in at],
        "y": [int(count) for kind in KINDS for count in rows[kind]],
        "customdata": [[row.trial_id, int(row.seed)] for _ in KINDS for row in rows.itertuples()],
        "marker": {"size": 6, "color": look.paper, "line": {"width": 1, "color": look.text}},
        "hovertemplate": "%{y:,} entities, seed %{customdata[1]}<br>trial %{customdata[0]}<extra></extra>",
    }


def entities_table(info: Entities) -> pd.DataFrame:
    """One row per trial."""
    t = info.trials
    who = t["cell"].map({info.cells.baseline: "none", info.cells.cell: info.cells.freeze})
    return pd.DataFrame(
        {
            "frozen": freeze_column(who, pd.Series(info.cells.n_layers, index=t.index)),
            "trial": t["trial_id"],
            "seed": t["seed"],
            "correct": t["correct"],
            **{label: t[kind] for kind, label in KINDS.items()},
        }
    )


ENTITIES = Part(
    "tags-entities",
    "Entity errors",
    "Mean number of entities that a trial misses, invents, or gives a wrong type or boundary.",
    prepare_entities,
    entities_table,
    draw_entities,
    method="Gold and predicted spans are matched one to one, in this order. Correct: same type and boundaries. Wrong "
    "type: same boundaries, another type. Wrong boundary: same type and at least one shared word, other boundaries. "
    "Remaining gold spans are missed, remaining predicted spans spurious; a prediction that shares only a word with a "
    f"gold span of another type counts as both. Means over at most {SEEDS} seeds with stored predictions; Student's "
    "95 % interval from three on; dots are trials.",
    if_any=True,
    detail=True,
)


# Tags: which labels suffer? F1 of each label against the baseline.

LEVELS = {"span": "entity type", "class": "class", "token": "tag"}  # the first that a task has is its default
MAX_TAGS = 40


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
        raise EmptyPartError(f"No scores by label are stored for the {query.split} split. Regression has none.")
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
    means = {side: rows[at].groupby("tag")["f1"].mean() for side, at in (("f1", mine), ("baseline_f1", ~mine))}
    table = losses.assign(
        support=losses["tag"].map(rows.groupby("tag")["support"].max()),
        **{side: losses["tag"].map(values) for side, values in means.items()},
    ).sort_values(["support", "tag"], ascending=[False, True], ignore_index=True)
    columns = ["tag", "support", "n_pairs", "f1", "baseline_f1", "loss", "low", "high", "difference", "why_none"]
    return table[columns]


def draw_tags(info: TagDifferences, look: Look) -> Figure:
    """A row per label, the most frequent at the top; hollow if the difference is not significant."""
    rows = info.table[info.table["n_pairs"] > 0].head(MAX_TAGS)
    scores = zip(numbers(rows["f1"], 100), numbers(rows["baseline_f1"], 100), strict=True)
    marks = Diamonds(
        [f"{name(row.tag, 30)} ({row.support:,})" for row in rows.itertuples()],
        rows["difference"].isin(["worse", "better"]).tolist(),
        look.depth(info.cells.depth, info.cells.n_layers),
        [[name(tag), *pair, verdict] for tag, pair, verdict in zip(rows["tag"], scores, verdicts(rows), strict=True)],
        "%{x:+.2f} points of F1 (%{customdata[1]:.2f} %, baseline %{customdata[2]:.2f} %)"
        "<br>%{customdata[3]}<extra>%{customdata[0]}</extra>",
    )
    left = len(info.table) - len(rows)
    more = f"{counted(left, 'rarer label')} in the table only." if left else ""
    figure = forest_plot(rows, marks, look, f"loss of F1 on {info.split} (points)")
    return with_note(figure, look, info.cells.caption, info.note, more)


def tags_table(info: TagDifferences) -> pd.DataFrame:
    """One row per label."""
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
    "What each label loses of its F1; filled diamonds are shown to differ from the baseline.",
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
    (DIFFERENCE, confusion.CONFUSION, ENTITIES),
    (*SHARED_CONTROLS, "freeze", "level"),
    resolved=at_answer,
    takes_in=("/tags",),
)
