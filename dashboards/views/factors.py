"""Which factor explains the scores, which cells go wrong, and what the best of n trials is expected to be."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.marks import cell_colour, cell_symbol, cell_words, completed_of, few_cells, numbers, one_device
from dashboards.views.marks import with_note as noted
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, layout
from orchestrator.analysis.convergence import BIAS_NOTE, expected_best
from orchestrator.analysis.stability import instability, majority_share
from orchestrator.analysis.trial_frame import TRAINING_COST
from orchestrator.analysis.variance import Anova, anova

FACTORS = {
    "depth": "frozen layers",
    "strategy": "strategy",
    "embeddings": "embeddings frozen",
    "train_size": "train size",
    "seed": "seed",
}
MOST_ROWS = 400  # of an analysis of variance: it inverts a matrix of rows by levels
MOST_BUDGETS = 40


# --- Analysis of variance


class Factors(NamedTuple):
    """An analysis of variance of the chosen metric.

    Attributes:
        found: Of `analysis.variance`, with the factors' columns.
        value_name: What was analysed.
        note: What was left out, in words.
    """

    found: Anova
    value_name: str
    note: str


def prepare_factors(selection: Selection) -> Factors:
    """Of two factors that say the same, as depth and strategy often do, the analysis keeps the first."""
    done = selection.completed
    sizes = done["train_size"].value_counts().sort_index(ascending=False)
    shown = sizes.index[: max(1, int((sizes.cumsum() <= MOST_ROWS).sum()))]
    rows = done[done["train_size"].isin(shown)]
    seeds = np.sort(rows["seed"].unique())
    most = max(2, MOST_ROWS // max(1, rows["cell"].nunique()))
    rows = rows[rows["seed"].isin(seeds[:most])]
    note = (
        "" if len(rows) == len(done) else f"Over {len(rows):,} of {len(done):,} completed trials (largest train sizes)."
    )
    return Factors(anova(rows, list(FACTORS), selection.column), selection.value_name, note)


def no_factors(info: Factors) -> str:
    """In words."""
    if len(info.found.table):
        return ""
    told = "; ".join(f"{FACTORS[factor]}: {why}" for factor, why in info.found.dropped.items())
    return f"Nothing to analyse in {info.found.n} completed trials ({told})."


def factors_table(info: Factors) -> pd.DataFrame:
    """A row a factor, then the residual, then the factors that could not be told apart."""
    t = info.found.table
    table = pd.DataFrame(
        {
            "factor": t["factor"].map(lambda factor: FACTORS.get(factor, factor)),
            "df": t["df"],
            "share of the variance (eta squared, %)": (100 * t["eta_sq"]).round(3),
            "partial eta squared (%)": (100 * t["partial_eta_sq"].astype("float64")).round(3),
            "F": t["f"].astype("float64").round(3),
            "p": t["p"].astype("float64").round(6),
            "trials": t["n"],
            "note": info.note,
        }
    )
    dropped = [
        {"factor": FACTORS[factor], "trials": info.found.n, "note": f"left out: {why}"}
        for factor, why in info.found.dropped.items()
    ]
    return pd.concat([table, pd.DataFrame(dropped)], ignore_index=True) if dropped else table


# --- Stability


class Stability(NamedTuple):
    """How often cells go wrong.

    Attributes:
        table: Rows of `analysis.stability.instability` with `freeze`, `train_size`; by train size and depth.
    """

    table: pd.DataFrame


def prepare_stability(selection: Selection) -> Stability:
    """All trials that have ended; the majority class is judged where the metric is accuracy."""
    trials = selection.trials
    judged = trials["metric"].eq("accuracy").any()
    share = majority_share(selection.snapshot.tags(trials, "dev")) if judged else None
    keys = ["cell", "freeze", "train_size", "depth", "strategy", "embeddings"]
    order = ["train_size", "depth", "strategy", "embeddings"]
    table = instability(trials, share).merge(trials.drop_duplicates("cell")[keys], on="cell").sort_values(order)
    return Stability(table.reset_index(drop=True))


def stability_table(info: Stability) -> pd.DataFrame:
    """A row a cell."""
    t = info.table
    return pd.DataFrame(
        {
            "train size (sentences)": t["train_size"],
            "frozen": t["freeze"],
            "ended": t["n"],
            "broken": t["broken"],
            "majority class": t["majority"].where(t["judged"] > 0).astype("Int64"),
            "unstable (%)": (100 * t["share"]).round(2),
            "95 % from (%)": (100 * t["low"]).round(2),
            "95 % to (%)": (100 * t["high"]).round(2),
            "no evidence": t["excluded"],
        }
    )


# --- Expected best


class Expected(NamedTuple):
    """The best score to be expected of so many trials.

    Attributes:
        table: A row a cell and budget: `cell`, `budget` (trials), `x`, `expected`, `unbiased` (0..1).
        cells: `marks.KEYS` and `n`.
        x_title: With its unit.
        value_name: Of the score.
        note: What is left out, in words.
    """

    table: pd.DataFrame
    cells: pd.DataFrame
    x_title: str
    value_name: str
    note: str


def prepare_expected(selection: Selection) -> Expected:
    """For each cell over its completed seeds; with the axis `train_s` a trial costs the cell's mean training time."""
    few = few_cells(selection.trials)
    done = completed_of(selection.trials, few.table)
    done = done[done[selection.column].notna()]
    timed = selection.query.axis == "train_s"
    alone = one_device(done, TRAINING_COST if timed else "trainable_params")
    rows = alone.trials
    parts = [_expected(cell, own, selection.column, timed=timed) for cell, own in rows.groupby("cell", sort=False)]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"cell": []})
    cells = few.table.assign(n=few.table["cell"].map(rows["cell"].value_counts()).fillna(0).astype(int))
    title = "training time of all trials (s)" if timed else "trials"
    note = " ".join(filter(None, [few.note, alone.note]))
    return Expected(table, cells[cells["n"] > 0].reset_index(drop=True), title, selection.value_name, note)


def _expected(cell: object, rows: pd.DataFrame, column: str, *, timed: bool) -> pd.DataFrame:
    n = len(rows)
    budgets = np.unique(np.linspace(1, n, min(n, MOST_BUDGETS)).round().astype(int)).tolist()
    found = expected_best(rows[column].to_numpy(dtype=np.float64), budgets)
    each = float(rows[TRAINING_COST].mean()) if timed else 1.0
    return found.assign(cell=cell, x=found["budget"] * each)


def no_expected(info: Expected) -> str:
    """In words."""
    if not len(info.table):
        return f"No completed trial can be shown. {info.note}".strip()
    return "" if (info.cells["n"] > 1).any() else "Every cell has one completed seed: the best of one is that one."


def draw_expected(info: Expected, look: Look) -> Figure:
    """A line a cell."""
    several = info.cells["train_size"].nunique() > 1
    lines = dict(iter(info.table.groupby("cell", sort=False)))
    data = [_line(lines[row.cell], row, look, cell_words(row, several=several)) for row in info.cells.itertuples()]
    x, y = axis(info.x_title, rangemode="tozero"), axis(f"expected best {info.value_name} (%)")
    return noted({"data": data, "layout": layout(look, x=x, y=y, height=420)}, look, info.note)


def _line(rows: pd.DataFrame, row: Any, look: Look, words: str) -> dict[str, Any]:
    colour = cell_colour(look, row)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": words,
        "x": numbers(rows["x"]),
        "y": numbers(rows["unbiased"], 100),
        "customdata": numbers(rows["budget"]),
        "line": {"color": colour, "dash": look.strategy(str(row.strategy))[2], "width": 2},
        "marker": {"symbol": cell_symbol(look, row), "size": 6, "color": colour},
        "hovertemplate": f"%{{y:.3f}} % from %{{customdata}} of {row.n} trials<extra>{words}</extra>",
    }


def expected_table(info: Expected) -> pd.DataFrame:
    """A row a cell and budget."""
    both = info.table.merge(info.cells[["cell", "freeze", "train_size"]], on="cell")
    return pd.DataFrame(
        {
            "train size (sentences)": both["train_size"],
            "frozen": both["freeze"],
            "budget (trials)": both["budget"],
            **({} if info.x_title == "trials" else {info.x_title: both["x"].round(3)}),
            "expected best, without putting back (%)": (100 * both["unbiased"]).round(4),
            "expected best, with putting back (%)": (100 * both["expected"]).round(4),
        }
    )


ANOVA = Part(
    "depth-anova",
    "What explains the scores",
    "Analysis of variance of main effects, type II: how much of the spread each factor explains beyond the others. "
    "In sweeps with gaps the shares need not add to 100 %.",
    prepare_factors,
    factors_table,
    empty=no_factors,
)
STABILITY = Part(
    "depth-stability",
    "Instability",
    "Of the trials that completed or broke (diverged, out of memory, failed), the share that broke or completed with "
    "the accuracy of always answering the most frequent label; exact 95 % interval (Clopper and Pearson). Lost, "
    "unavailable and pruned trials are no evidence. The majority class is judged for accuracy only.",
    prepare_stability,
    stability_table,
)
EXPECTED = Part(
    "factors-expected",
    "Expected best score against budget",
    "The best of n trials that differ in their seed, drawn without putting back; the table has the estimate with "
    f"putting back as well (Dodge et al. 2019). {BIAS_NOTE}",
    prepare_expected,
    expected_table,
    draw_expected,
    no_expected,
)
PARTS = (ANOVA, STABILITY, EXPECTED)
