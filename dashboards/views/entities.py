"""How entities go wrong: missed, spurious, of the wrong type, with a wrong boundary."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.predictions import EntityErrors, entity_errors, has_spans, predictions_of
from dashboards.data.selection import Selection
from dashboards.views.marks import name, numbers, with_note
from dashboards.views.part import Part
from dashboards.views.tag_cell import Beside, beside, first_seeds
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.describe import describe_cells

SEEDS = 5
KINDS = {"missed": "missed", "spurious": "spurious", "wrong_type": "wrong type", "wrong_boundary": "wrong boundary"}


class Entities(NamedTuple):
    """Errors of spans, counted.

    Attributes:
        trials: A row a trial: `cell`, `trial_id`, `seed` and the fields of `EntityErrors`.
        means: A row a cell and kind: `cell`, `kind`, `n`, `mean`, `low`, `high`, `dots_only`.
        beside: The cells.
        split: dev or test.
        why: Why there is nothing; else empty.
    """

    trials: pd.DataFrame
    means: pd.DataFrame
    beside: Beside
    split: str
    why: str


def prepare_entities(selection: Selection) -> Entities:
    """Of at most `SEEDS` seeds of each cell whose predictions were kept."""
    cells, split = beside(selection), selection.query.split
    trials = first_seeds(cells.trials, SEEDS)
    found = predictions_of(selection.snapshot, trials, split) if not cells.why else {}
    with_spans = {trial_id: one for trial_id, one in found.items() if has_spans(one)}
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
    columns = ["cell", "trial_id", "seed", *EntityErrors._fields]
    counted = pd.DataFrame(rows, columns=columns)
    return Entities(counted, _means(counted), cells, split, _why(cells, counted, bool(found), split))


def _why(cells: Beside, counted: pd.DataFrame, kept: bool, split: str) -> str:
    if cells.why:
        return cells.why
    if not kept:
        return f"No predictions on {split} were kept. Launch with `predictions: all` in the sweep's file to keep them."
    return "" if len(counted) else "The labels of this task are no entities (no B- and I- tags)."


def _means(counted: pd.DataFrame) -> pd.DataFrame:
    long = counted.melt(["cell"], list(KINDS), "kind", "count")
    return describe_cells(long, ["cell", "kind"], "count")[["cell", "kind", "n", "mean", "low", "high", "dots_only"]]


def no_entities(info: Entities) -> str:
    """In words."""
    return info.why


def draw_entities(info: Entities, look: Look) -> Figure:
    """Bars from zero beside each other, a dot a trial."""
    cells = ((info.beside.baseline, "baseline", look.text, ""), _own(info.beside, look))
    data: list[dict[str, Any]] = []
    for number, (cell, words, colour, pattern) in enumerate(cells):
        rows = info.means[info.means["cell"] == cell].set_index("kind").reindex(list(KINDS))
        data += [_bars(rows, words, colour, pattern, number, look), _dots(info, cell, words, number, look)]
    ticks = {"tickvals": list(range(len(KINDS))), "ticktext": list(KINDS.values())}
    y = axis(f"entities on {info.split}, mean of a trial", rangemode="tozero")
    drawn = layout(look, x=axis("", showgrid=False, **ticks), y=y, barmode="overlay")
    return with_note({"data": data, "layout": drawn}, look, info.beside.words, info.beside.note)


def _own(cells: Beside, look: Look) -> tuple[str, str, str, str]:
    return cells.cell, name(cells.freeze), look.depth(cells.depth, cells.n_layers), "/"


def _bars(rows: pd.DataFrame, words: str, colour: str, pattern: str, number: int, look: Look) -> dict[str, Any]:
    sure = rows["dots_only"].eq(False)
    return {
        "type": "bar",
        "name": words,
        "x": [n + _shift(number) for n in range(len(rows))],
        "y": numbers(rows["mean"]),
        "width": 0.36,
        "error_y": {
            "type": "data", "symmetric": False, "color": look.muted, "thickness": 1.5, "width": 4,
            "array": numbers((rows["high"] - rows["mean"]).where(sure)),
            "arrayminus": numbers((rows["mean"] - rows["low"]).where(sure)),
        },
        "marker": {"color": colour, "pattern": {"shape": pattern}},
        "hovertemplate": f"%{{y:,.1f}} entities<extra>{words}</extra>",
    }  # fmt: skip


def _shift(number: int) -> float:
    return -0.2 if number == 0 else 0.2


def _dots(info: Entities, cell: str, words: str, number: int, look: Look) -> dict[str, Any]:
    rows = info.trials[info.trials["cell"] == cell].sort_values("seed")
    step = 0.3 / max(len(rows), 1)
    at = [(place - (len(rows) - 1) / 2) * step for place in range(len(rows))]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": words,
        "showlegend": False,
        "x": [round(n + _shift(number) + place, 4) for n in range(len(KINDS)) for place in at],
        "y": [int(count) for kind in KINDS for count in rows[kind]],
        "customdata": [[row.trial_id, int(row.seed)] for _ in KINDS for row in rows.itertuples()],
        "marker": {"size": 6, "color": look.paper, "line": {"width": 1, "color": look.text}},
        "hovertemplate": "%{y:,} entities, seed %{customdata[1]}<br>trial %{customdata[0]}<extra></extra>",
    }


def entities_table(info: Entities) -> pd.DataFrame:
    """A row a trial."""
    t = info.trials
    who = t["cell"].map({info.beside.baseline: "none", info.beside.cell: info.beside.freeze})
    return pd.DataFrame(
        {
            "frozen": who,
            "trial": t["trial_id"],
            "seed": t["seed"],
            "correct": t["correct"],
            **{words: t[kind] for kind, words in KINDS.items()},
        }
    )


ENTITIES = Part(
    "tags-entities",
    "How entities go wrong",
    "Gold and predicted spans are matched one to one, in this order. Correct: type and both borders are those of a "
    "gold span. Wrong type: both borders, but another type. Wrong boundary: the type and at least one word of a gold "
    "span, but another border. A gold span that is left is missed, a predicted one spurious; so one that shares a "
    f"word with a gold span of another type and other borders counts as both. Means over at most {SEEDS} seeds whose "
    "predictions were kept, Student's 95 % interval from three on; a dot is a trial.",
    prepare_entities,
    entities_table,
    draw_entities,
    no_entities,
)
