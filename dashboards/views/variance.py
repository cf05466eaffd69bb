"""Variance by source: which of subset, initialisation, order and sentences makes the scores of a setting differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.predictions import predictions_of
from dashboards.data.selection import Selection
from dashboards.views.kit.axes import rows_layout, with_note
from dashboards.views.kit.cells import completed_of, setting_columns, shown_cells
from dashboards.views.kit.labels import cell_name, numbers
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Figure, Look, axis
from orchestrator.analysis.variance import (
    INITIALISATION,
    INTERACTIONS,
    ORDER,
    SENTENCES,
    SUBSET,
    VarianceSource,
    variance_sources,
)
from trials.settings import Seeds
from trials.tasks.task import head_of

_SEEDS = (SUBSET, INITIALISATION, ORDER)
# In the order of the bars: Okabe and Ito's colours, each with a pattern. Sources that go together have their own.
_STYLES = {
    SUBSET: ("#0072B2", ""),
    INITIALISATION: ("#D55E00", "/"),
    ORDER: ("#009E73", "x"),
    INTERACTIONS: ("#8A8678", "."),
    SENTENCES: ("#CC79A7", "-"),
}
_TOGETHER = ("#56B4E9", "\\")
_ESTIMATE = ("variance", "low", "high", "levels", "df")
_SQUARED = 100.0**2  # a variance of scores of 0 to 1 in squared points


class Variances(NamedTuple):
    """The variance of the selected score by source.

    Attributes:
        table: One row per cell and source: `cell`, `freeze`, `n_layers`, `train_size`, `source`, `variance`
            (0..1 squared; may be below 0), `low`, `high` (of its 95 % interval), `levels`, `df`, `runs`.
        cells: The cells that have rows, with `cells.KEYS`.
    """

    table: pd.DataFrame
    cells: pd.DataFrame
    value_name: str
    note: str


def prepare_variance(selection: Selection) -> Variances:
    """For each cell over its completed trials."""
    shown = shown_cells(selection.trials)
    done = completed_of(selection.with_sentences, shown.table)
    done = done[done[selection.column].notna()]
    rows, n_words = [], _words(selection, done)
    for cell in shown.table.itertuples():
        own = done[done["cell"] == cell.cell]
        same_subset = len(own) > 0 and selection.snapshot.specs[str(cell.cell)].subset_seed is not None
        for source in _sources(own, selection.column, n_words, same_subset=same_subset):
            key = {
                "cell": cell.cell,
                "freeze": cell.freeze,
                "n_layers": cell.n_layers,
                "train_size": cell.train_size,
                "source": source_label(source.names),
            }
            rows.append({**key, **{name: getattr(source, name) for name in _ESTIMATE}, "runs": len(own)})
    table = pd.DataFrame(rows, columns=["cell", "freeze", "n_layers", "train_size", "source", *_ESTIMATE, "runs"])
    if not rows:
        raise EmptyPartError("This needs a setting with two or more completed seeds.")
    cells = shown.table[shown.table["cell"].isin(table["cell"])].reset_index(drop=True)
    return Variances(table, cells, selection.value_name, " ".join(filter(None, [shown.note, _missing(table)])))


def _words(selection: Selection, trials: pd.DataFrame) -> np.ndarray | None:
    """(sentences,) words of each of the split where the score is their accuracy: empty if not stored, else None."""
    scored = trials[trials["sentences"].notna()]
    if not len(scored) or scored["metric"].iloc[0] != "accuracy" or head_of(scored["task"].iloc[0]) == "text":
        return None
    labels = next(iter(predictions_of(selection.snapshot, scored.head(1), selection.scored).values()), None)
    return np.empty(0) if labels is None else np.diff(labels.starts, append=len(labels.gold)).astype(np.float64)


def _sources(
    rows: pd.DataFrame, column: str, n_words: np.ndarray | None, *, same_subset: bool
) -> tuple[VarianceSource, ...]:
    scores = rows[column].to_numpy(dtype=np.float64)
    has_contributions = len(rows) > 0 and rows["sentences"].notna().all() and (n_words is None or len(n_words) > 0)
    contributions = np.stack(rows["sentences"].tolist()) if has_contributions else None
    seeds = [Seeds.from_key(int(key)) for key in rows["seed"]]
    return variance_sources(seeds, scores, contributions, words=n_words, same_subset=same_subset)


def _missing(table: pd.DataFrame) -> str:
    """What the sweep or the store lacks for a part of the figure."""
    names = set(table["source"])
    notes = []
    if names and not names & {INITIALISATION, ORDER}:
        notes.append(
            "Subset, initialisation and order change together here: a sweep whose `space` crosses `init_seed` and "
            "`order_seed` with its `seeds` separates them (configs/sweeps/seeds.yaml)."
        )
    if names and SENTENCES not in names:
        notes.append("What the sentences contribute to this score, or their numbers of words, is not stored.")
    return " ".join(notes)


def source_label(names: Sequence[str]) -> str:
    """The name of a source in legends and tables."""
    return "seeds (subset, initialisation and order)" if tuple(names) == _SEEDS else " and ".join(names)


def draw_variance(info: Variances, look: Look) -> Figure:
    """A bar per cell, stacked by source; an estimate below 0 has no width."""
    several = info.cells["train_size"].nunique() > 1
    labels = [cell_name(row, several=several) for row in info.cells.itertuples()]
    place = {cell: n for n, cell in enumerate(info.cells["cell"])}
    sources = list(_STYLES)
    order = sorted(set(info.table["source"]), key=lambda source: sources.index(source) if source in sources else -1)
    data = [_source_bars(info.table[info.table["source"] == source], source, place, look) for source in order]
    x = axis(f"variance of {info.value_name} (squared points)", rangemode="tozero")
    drawn = rows_layout(look, x, labels, row_height=28, barmode="stack")
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _source_bars(rows: pd.DataFrame, source: str, place: dict[Any, int], look: Look) -> dict[str, Any]:
    colour, pattern = _STYLES.get(source, _TOGETHER)
    spread, low, high = (numbers(np.sqrt(rows[name].clip(lower=0)), 100, 2) for name in ("variance", "low", "high"))
    return {
        "type": "bar",
        "orientation": "h",
        "name": source,
        "x": numbers(rows["variance"].clip(lower=0), _SQUARED),
        "y": [place[cell] for cell in rows["cell"]],
        "customdata": list(zip(spread, low, high, rows["levels"].tolist(), strict=True)),
        "marker": {
            "color": colour,
            "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": look.paper, "size": 6},
        },
        "hovertemplate": "standard deviation %{customdata[0]} points (%{customdata[1]} to %{customdata[2]})<br>"
        f"from %{{customdata[3]:,}} levels<extra>{source}</extra>",
    }


def variance_table(info: Variances) -> pd.DataFrame:
    """One row per cell and source."""
    t = info.table
    variance = t["variance"].clip(lower=0)
    total = variance.groupby(t["cell"]).transform("sum")
    return pd.DataFrame(
        {
            **setting_columns(t),
            "source": t["source"],
            "standard deviation (points)": (100 * np.sqrt(variance)).round(3),
            "95 % from (points)": (100 * np.sqrt(t["low"])).round(3),
            "95 % to (points)": (100 * np.sqrt(t["high"])).round(3),
            "share of the variance (%)": (100 * variance / total.where(total > 0)).round(1),
            "levels": t["levels"],
            "degrees of freedom": t["df"],
            "runs": t["runs"],
            "note": np.where(t["variance"] < 0, "estimated below 0", ""),
        }
    )


VARIANCE = Part(
    "factors-variance",
    "Variance by source",
    "What makes scores differ: train subset, initialisation, order of training, and the sentences of the dev set.",
    prepare_variance,
    variance_table,
    draw_variance,
    method="Variance components of the runs of one setting by the method of moments for crossed designs (Henderson's "
    "method 3; in a balanced design, the analysis of variance). Order includes dropout. Interactions: what no single "
    "source explains. Sentences: what another dev set of the same size would change, from the sentences' contributions "
    "to the score. The parts add up to the variance of one new run on a new dev set. Three levels of a source estimate "
    "its part only roughly, as its 95 % interval in the table shows.",
    detail=True,
)
