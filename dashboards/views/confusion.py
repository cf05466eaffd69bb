"""Which labels are confused, and how freezing changes that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboards.data.predictions import CUT_OFF, confusion, predictions_of
from dashboards.data.selection import Selection
from dashboards.views.kit.axes import with_note
from dashboards.views.kit.compared import ComparedCells, compared_cells, first_seeds
from dashboards.views.kit.labels import name
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Figure, Look, axis, layout
from orchestrator.config.quantities import counted

SEEDS = 5  # of each cell
MAX_LABELS = 30
OTHERS = "(others)"
Matrix = npt.NDArray[np.float64]


class Confusion(NamedTuple):
    """Row-normalised confusion matrices of a cell and its baseline.

    Attributes:
        labels: Of the rows, the most frequent gold label first; the last may stand for all rarer ones.
        columns: Of the columns: `labels`, and `CUT_OFF` if any word has no prediction.
        counts, baseline: (labels, columns) counts of the cell and of the baseline, summed over seeds.
    """

    labels: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Matrix
    baseline: Matrix
    cells: ComparedCells
    note: str

    @property
    def shares(self) -> Matrix:
        """(labels, columns) share of each gold label; NaN if it does not occur."""
        return _normalised(self.counts)

    @property
    def difference(self) -> Matrix:
        """(labels, columns) shares minus the baseline's."""
        return _normalised(self.counts) - _normalised(self.baseline)


def _normalised(counts: Matrix) -> Matrix:
    total = counts.sum(axis=1, keepdims=True)
    shares: Matrix = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
    return shares


def prepare_confusion(selection: Selection) -> Confusion:
    """Pooled over at most `SEEDS` seeds of each cell that have stored predictions."""
    cells, split = compared_cells(selection), selection.query.split
    trials = first_seeds(cells.trials, SEEDS)
    predictions = predictions_of(selection.snapshot, trials, split)
    ids = {cell: set(rows["trial_id"]) for cell, rows in trials.groupby("cell")}
    sides = [[predictions[i] for i in predictions if i in ids.get(cell, ())] for cell in (cells.cell, cells.baseline)]
    named = zip((repr(cells.name), "the baseline"), sides, strict=True)
    if lacking := [who for who, side in named if not side]:
        raise EmptyPartError(
            f"No predictions on {split} are stored for {' and '.join(lacking)}. Set `predictions: all` in the sweep "
            "file and launch again to store them. Regression has none."
        )
    pooled = [_pooled([confusion(predicted) for predicted in side]) for side in sides]
    labels, columns, folded = _labels(pooled)
    ours, base = (_matrix(counts, labels, columns) for counts in pooled)
    rare = f"{counted(folded, 'rarer label')} combined as {OTHERS}." if folded else ""
    note = " ".join(filter(None, [cells.note, rare]))
    return Confusion(labels, columns, ours, base, cells, note)


def _pooled(counts: Sequence[pd.Series]) -> pd.Series:
    return reduce(lambda a, b: a.add(b, fill_value=0), counts)


def _labels(pooled: Sequence[pd.Series]) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """(labels of the rows, labels of the columns, number of labels combined into one)."""
    support = pd.concat([counts.groupby("gold").sum() for counts in pooled]).groupby(level=0).sum()
    guessed = {label for counts in pooled for label in counts.index.get_level_values("predicted")}
    order = sorted(support.index, key=lambda label: (-support[label], label))
    order += sorted(guessed - set(order) - {CUT_OFF})
    folded = max(0, len(order) - MAX_LABELS)
    labels = (*order[:MAX_LABELS], *([OTHERS] * bool(folded)))
    return labels, (*labels, *([CUT_OFF] * (CUT_OFF in guessed))), folded


def _matrix(counts: pd.Series, labels: Sequence[str], columns: Sequence[str]) -> Matrix:
    rows, cols = ({label: n for n, label in enumerate(names)} for names in (labels, columns))
    matrix = np.zeros((len(labels), len(columns)))
    for (gold, predicted), n in counts.items():
        matrix[rows.get(gold, len(labels) - 1), cols.get(predicted, len(labels) - 1)] += n
    return matrix


def draw_confusion(info: Confusion, look: Look) -> Figure:
    """Left: shares of each gold label; right: their change against the baseline."""
    rows, columns = ([name(label, 24) for label in names] for names in (info.labels, info.columns))
    widest = float(np.nanmax(np.abs(info.difference), initial=0.0)) or 0.01
    shares = {
        **_map(info.shares, rows, columns, "share of the gold label (%)", 0.45),
        "colorscale": look.scale(), "zmin": 0, "zmax": 100,
        "hovertemplate": "gold %{y}, predicted %{x}: %{z:.2f} %<extra></extra>",
    }  # fmt: skip
    change = {
        **_map(info.difference, rows, columns, "minus baseline (points)", 1.0),
        "xaxis": "x2", "yaxis": "y", "colorscale": look.diverging(),
        "zmin": -100 * widest, "zmax": 100 * widest, "zmid": 0,
        "hovertemplate": "gold %{y}, predicted %{x}: %{z:+.2f} points<extra></extra>",
    }  # fmt: skip
    across = axis("predicted", type="category", showgrid=False, tickangle=-60)
    down = axis("gold", type="category", autorange="reversed", showgrid=False)
    height = int(np.clip(220 + 20 * len(rows), 360, 900))
    right = {**across, "domain": [0.56, 1], "linecolor": look.muted}
    drawn = layout(look, x={**across, "domain": [0, 0.44]}, y=down, height=height, xaxis2=right)
    return with_note({"data": [shares, change], "layout": drawn}, look, info.cells.caption, info.note, width=48)


def _map(values: Matrix, rows: list[str], columns: list[str], title: str, at: float) -> dict[str, Any]:
    shown = [[None if np.isnan(v) else round(100 * float(v), 3) for v in row] for row in values]
    bar = {"title": {"text": title, "side": "right"}, "thickness": 10, "x": at}
    return {"type": "heatmap", "x": columns, "y": rows, "z": shown, "colorbar": bar}


def confusion_table(info: Confusion) -> pd.DataFrame:
    """One row per pair of labels that occurs in either cell, the largest change first."""
    at, to = np.nonzero((info.counts > 0) | (info.baseline > 0))
    table = pd.DataFrame(
        {
            "gold": [info.labels[row] for row in at],
            "predicted": [info.columns[column] for column in to],
            "words": info.counts[at, to].astype(np.int64),
            "share of gold (%)": (100 * info.shares[at, to]).round(4),
            "words, baseline": info.baseline[at, to].astype(np.int64),
            "minus baseline (points)": (100 * info.difference[at, to]).round(4),
        }
    )
    order = table["minus baseline (points)"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


CONFUSION = Part(
    "tags-confusion",
    "Confusion of labels",
    "Left: what each gold label is predicted as. Right: the change against the baseline.",
    prepare_confusion,
    confusion_table,
    draw_confusion,
    method=f"Predictions of at most {SEEDS} seeds are pooled. Rows are gold labels, the most frequent first, and add "
    f"up to 100 %. Words beyond the maximum input length have no prediction and count as {CUT_OFF}. The setting "
    "compared is the selected freeze (by default the deepest) at the largest train size selected.",
    detail=True,
)
