"""Count confused labels and wrong entities in stored predictions, and show how freezing changes these counts.

The setting that the address names, or else the one that the answer is about, is compared with its baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from dashboards.views.kit.cards import answers_of_page
from dashboards.views.kit.drawing import (
    Figure,
    Look,
    axis,
    freeze_column,
    interval_bars,
    layout,
    name,
    numbers,
    short,
    with_note,
    without_few,
)
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.freeze_names import FreezeName
from orchestrator.config.quantities import amount
from trials.metrics.spans import PREFIXES, spans

CUT_OFF = "(cut off)"  # the label of words beyond the maximum input length, which have no prediction
Ids = npt.NDArray[np.int64]


class PredictedLabels(NamedTuple):
    """Gold and predicted labels of one split of one trial, per word (or one per text in classification).

    Attributes:
        gold, predicted: (words,) ids into `names`; -1 for no prediction.
        starts: (sentences,) index of each sentence's first word.
    """

    names: tuple[str, ...]
    gold: Ids
    predicted: Ids
    starts: Ids


class EntityErrors(NamedTuple):
    """Counts of spans; each gold and each predicted span is counted once.

    Attributes:
        correct: Same type and boundaries.
        wrong_type: Same boundaries, another type.
        wrong_boundary: Same type and a shared word, other boundaries.
        missed: Remaining gold spans.
        spurious: Remaining predicted spans.
    """

    correct: int
    wrong_type: int
    wrong_boundary: int
    missed: int
    spurious: int


def predictions_of(snapshot: Snapshot, trials: pd.DataFrame, split: str) -> dict[str, PredictedLabels]:
    """Stored `gold` and `predicted` labels of a split by `trial_id`, of trials that have them. Raises StoreError."""
    rows = snapshot.few["predictions"].rows(trials)
    rows = rows.filter(pc.equal(rows["split"], split))
    ids = rows["trial_id"].unique().to_pylist()
    return {trial_id: _read(rows.filter(pc.equal(rows["trial_id"], trial_id))) for trial_id in ids}


def _read(rows: pa.Table) -> PredictedLabels:
    rows = rows.sort_by("sentence")
    gold, predicted = (pc.list_flatten(rows[side].combine_chunks()) for side in ("gold", "predicted"))
    names = tuple(sorted(set(pc.unique(gold).to_pylist()) | set(pc.unique(predicted).to_pylist()) - {None}))
    name_array = pa.array(names, pa.string())
    lengths = pc.list_value_length(rows["gold"]).to_numpy().astype(np.int64)
    return PredictedLabels(names, _ids(gold, name_array), _ids(predicted, name_array), np.cumsum(lengths) - lengths)


def _ids(labels: pa.Array, names: pa.Array) -> Ids:
    ids: Ids = pc.fill_null(pc.index_in(labels, names), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return ids


def confusion(labels: PredictedLabels) -> pd.Series:
    """Number of words, indexed by `gold` and `predicted` label."""
    names = np.array([*labels.names, CUT_OFF], dtype=object)  # -1 indexes the last
    n = len(names)
    counts = np.bincount((labels.gold % n) * n + labels.predicted % n, minlength=n * n)
    pairs = np.flatnonzero(counts)
    index = pd.MultiIndex.from_arrays([names[pairs // n], names[pairs % n]], names=["gold", "predicted"])
    return pd.Series(counts[pairs], index=index, name="count")


def has_spans(labels: PredictedLabels) -> bool:
    """Whether the labels mark spans (B- and I- tags)."""
    return any(name[:2] in PREFIXES for name in labels.names)


def entity_errors(labels: PredictedLabels) -> EntityErrors:
    """Counts of entity errors; spans are read as strict IOB2, as they are for the scores.

    Spans are matched one to one in this order: same type and boundaries; same boundaries; same type and a shared word,
    from left to right. Spans that share only a word count as one missed and one spurious span.
    """
    gold_spans, predicted_spans = (spans(side, labels.starts, labels.names) for side in (labels.gold, labels.predicted))
    size = len(labels.gold) + 1
    ours, theirs = (
        side[:, 1] * size + side[:, 2] for side in (gold_spans, predicted_spans)
    )  # one integer for each pair of start and end
    _, ours_common, to = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    correct = int((gold_spans[ours_common, 0] == predicted_spans[to, 0]).sum())
    gold, predicted = np.delete(gold_spans, ours_common, axis=0), np.delete(predicted_spans, to, axis=0)
    moved = sum(_common(gold[gold[:, 0] == kind], predicted[predicted[:, 0] == kind]) for kind in np.unique(gold[:, 0]))
    return EntityErrors(correct, len(ours_common) - correct, moved, len(gold) - moved, len(predicted) - moved)


def _common(gold: Ids, predicted: Ids) -> int:
    """The number of one-to-one pairs of overlapping gold and predicted spans, given as (type, start, end) in order."""
    count = i = j = 0
    ours, theirs = gold[:, 1:].tolist(), predicted[:, 1:].tolist()
    while i < len(ours) and j < len(theirs):
        if ours[i][1] <= theirs[j][0]:
            i += 1
        elif theirs[j][1] <= ours[i][0]:
            j += 1
        else:
            count, i, j = count + 1, i + 1, j + 1
    return count


def select_answer(selection: Selection) -> Selection:
    """The selection; if it names no setting, with the one that is recommended, or else that the answer is about."""
    query, url_query = selection.query, selection.url_query
    if url_query.freeze or selection.sweep is None:
        return selection
    here = url_query.but(corpus=query.corpus, model=query.model, setup=query.setup)
    try:
        found = answers_of_page(replace(selection, url_query=here, query=query.but(split="dev")), 1).answers
    except EmptyPartError:
        return selection
    about = next((answer.about for answer in found if answer.about in selection.options.get("freeze", ())), None)
    return selection if about is None else replace(selection, query=query.but(freeze=about))


class ComparedCells(NamedTuple):
    """A cell and its baseline.

    Attributes:
        name: What the cell freezes, spelled out.
        depth, n_layers: How many layers the cell freezes, and how many the encoder has.
        trials: The completed trials of the cell and of its baseline.
    """

    cell: str
    baseline: str
    name: FreezeName
    depth: int
    n_layers: int
    train_size: int
    trials: pd.DataFrame
    note: str

    @property
    def caption(self) -> str:
        """Which two cells a figure compares."""
        return f"Frozen: {short(self.name)}, against the baseline; train size {self.train_size:,}."


def compared_cells(selection: Selection) -> ComparedCells:
    """The cell of the freeze that `select_answer` selects, or else of the deepest, at the largest train size it has.

    Raises EmptyPartError: the cell or its baseline has no completed trial.
    """
    selection = select_answer(selection)
    done = selection.completed
    cells = done[done["cell"] != done["baseline"]].drop_duplicates("cell")
    wanted = selection.query.freeze
    named = cells[cells["freeze"] == wanted]
    note = f"No trial with {short(wanted)!r} frozen has completed." if wanted and not len(named) else ""
    order = ["train_size", "depth", "embeddings", "freeze"]
    chosen = (named if len(named) else cells).sort_values(order, ascending=[False, False, False, True], kind="stable")
    if not len(chosen):
        raise EmptyPartError("Only the baseline has completed trials.")
    row = chosen.iloc[0]
    trials = done[done["cell"].isin([row["cell"], row["baseline"]])]
    if not (trials["cell"] == row["baseline"]).any():
        raise EmptyPartError("The baseline has no completed trial. Run it (freeze: none).")
    return ComparedCells(
        row["cell"], row["baseline"], FreezeName(row["freeze_spec"], int(row["n_layers"])), int(row["depth"]),
        int(row["n_layers"]), int(row["train_size"]), trials, note,
    )  # fmt: skip


def first_seeds(trials: pd.DataFrame, at_most: int) -> pd.DataFrame:
    """The trials of at most `at_most` values of `seed`: first those that both `cell` have, then the lowest."""
    cells = trials.groupby("seed")["cell"].nunique()
    order = cells.reset_index().sort_values(["cell", "seed"], ascending=[False, True])["seed"].head(at_most)
    return trials[trials["seed"].isin(order)]


SEEDS = 5  # of each cell are pooled
MAX_LABELS = 30  # rows of their own; the rarer labels share one more
OTHERS = "(others)"
Matrix = npt.NDArray[np.float64]


class Confusion(NamedTuple):
    """Row-normalised confusion matrices of a cell and its baseline.

    Attributes:
        labels: The rows, the most frequent gold label first; the last may stand for all rarer ones.
        columns: The columns: `labels`, then `CUT_OFF` if any word has no prediction.
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
        return _normalise(self.counts)

    @property
    def difference(self) -> Matrix:
        """(labels, columns) shares minus the baseline's."""
        return _normalise(self.counts) - _normalise(self.baseline)


def _normalise(counts: Matrix) -> Matrix:
    total = counts.sum(axis=1, keepdims=True)
    shares: Matrix = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
    return shares


def prepare_confusion(selection: Selection) -> Confusion:
    """Confusion counts, pooled over at most `SEEDS` seeds of each cell that have stored predictions."""
    cells, split = compared_cells(selection), selection.query.split
    trials = first_seeds(cells.trials, SEEDS)
    predictions = predictions_of(selection.snapshot, trials, split)
    ids = {cell: set(rows["trial_id"]) for cell, rows in trials.groupby("cell")}
    sides = [[predictions[i] for i in predictions if i in ids.get(cell, ())] for cell in (cells.cell, cells.baseline)]
    named = zip((repr(cells.name), "the baseline"), sides, strict=True)
    if lacking := [who for who, side in named if not side]:
        raise EmptyPartError(
            f'No predictions on {split} are stored for {" and ".join(lacking)}. Set "predictions: all" in the sweep '
            "file and launch again to store them. A regression has none."
        )
    pooled = [_pool([confusion(predicted) for predicted in side]) for side in sides]
    labels, columns, folded = _labels(pooled)
    ours, base = (_matrix(counts, labels, columns) for counts in pooled)
    rare = f"{amount(folded, 'rarer label')} combined as {OTHERS}." if folded else ""
    note = " ".join(filter(None, [cells.note, rare]))
    return Confusion(labels, columns, ours, base, cells, note)


def _pool(counts: Sequence[pd.Series]) -> pd.Series:
    return reduce(lambda a, b: a.add(b, fill_value=0), counts)


def _labels(pooled: Sequence[pd.Series]) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """The labels of the rows, the labels of the columns, and how many rare labels share one row."""
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
    """One row per pair of `gold` and `predicted` labels: `words` and `share of gold (%)` of the cell, the baseline's
    `words`, and `minus baseline (points)`, by whose size rows are sorted.
    """
    rows, to = np.nonzero((info.counts > 0) | (info.baseline > 0))
    table = pd.DataFrame(
        {
            "gold": [info.labels[row] for row in rows],
            "predicted": [info.columns[column] for column in to],
            "words": info.counts[rows, to].astype(np.int64),
            "share of gold (%)": (100 * info.shares[rows, to]).round(4),
            "words, baseline": info.baseline[rows, to].astype(np.int64),
            "minus baseline (points)": (100 * info.difference[rows, to]).round(4),
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
    """Entity errors of at most `SEEDS` seeds of each cell that have stored predictions."""
    cells, split = compared_cells(selection), selection.query.split
    trials = first_seeds(cells.trials, SEEDS)
    predictions = predictions_of(selection.snapshot, trials, split)
    if not predictions:
        raise EmptyPartError(
            f'No predictions on {split} are stored. Set "predictions: all" in the sweep file and launch again.'
        )
    with_spans = {trial_id: labels for trial_id, labels in predictions.items() if has_spans(labels)}
    rows = [
        {
            "cell": row.cell,
            "freeze_spec": row.freeze_spec,
            "n_layers": row.n_layers,
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
    offsets = [(place - (len(rows) - 1) / 2) * step for place in range(len(rows))]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label,
        "showlegend": False,
        "x": [round(n + _shift(number) + place, 4) for n in range(len(KINDS)) for place in offsets],
        "y": [int(count) for kind in KINDS for count in rows[kind]],
        "customdata": [[row.trial_id, int(row.seed)] for _ in KINDS for row in rows.itertuples()],
        "marker": {"size": 6, "color": look.paper, "line": {"width": 1, "color": look.text}},
        "hovertemplate": "%{y:,} entities, seed %{customdata[1]}<br>trial %{customdata[0]}<extra></extra>",
    }


def entities_table(info: Entities) -> pd.DataFrame:
    """One row per `trial`: `frozen`, `seed`, the number of `correct` entities, and of errors by `KINDS`."""
    t = info.trials
    return pd.DataFrame(
        {
            "frozen": freeze_column(t["freeze_spec"], t["n_layers"]),
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
