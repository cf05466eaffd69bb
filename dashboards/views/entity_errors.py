"""Entity errors of a setting and its baseline: missed, spurious, wrong type, wrong boundary."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.predictions import entity_errors, has_spans, predictions_of
from dashboards.data.selection import Selection
from dashboards.views.kit.axes import with_note
from dashboards.views.kit.compared import ComparedCells, compared_cells, first_seeds
from dashboards.views.kit.labels import freeze_column, name, numbers
from dashboards.views.kit.marks import interval_bars, without_few
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Figure, Look, axis, layout
from orchestrator.analysis.describe import describe_cells

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
        (own.cell, name(own.name), look.depth(own.depth, own.n_layers), "/"),
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
