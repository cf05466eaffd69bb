"""The loss of each setting against the tolerance: tests of non-inferiority."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection
from dashboards.views.kit.answers import answers_of, candidates
from dashboards.views.kit.cells import setting_columns
from dashboards.views.kit.drawing import Diamonds, cell_name, forest_plot, name, with_note
from dashboards.views.kit.part import Part
from dashboards.views.kit.theme import Figure, Look
from dashboards.views.scores import NO_PAIRS
from orchestrator.analysis.decision_plan import PlannedLooks
from orchestrator.config.quantities import counted

MAX_SIZES = 2
MAX_ROWS = 60


class NonInferiority(NamedTuple):
    """The loss of each cell against the tolerance.

    Attributes:
        table: One row per cell but the baseline: the columns of `recommendation.candidates`.
        tolerance: In points.
        cost: A key of `page_query.COSTS`.
        looks: When the sweep is looked at; None without an answer.
    """

    table: pd.DataFrame
    tolerance: float
    value_name: str
    cost: str
    looks: PlannedLooks | None
    note: str


def prepare_non_inferiority(selection: Selection) -> NonInferiority:
    """The candidates of each answer, with the interval that each was tested by."""
    sizes = sorted(selection.trials["train_size"].unique().tolist(), reverse=True)
    note = f"The {MAX_SIZES} largest of {len(sizes)} train sizes." if len(sizes) > MAX_SIZES else ""
    try:
        found = answers_of(selection, sizes[:MAX_SIZES])
    except ValueError as error:
        found, note = [], f"No answer: {error}."
    looks = found[0].decided_by.looks if found else None
    table = candidates(found, selection.trials)
    return NonInferiority(table, selection.plan.tolerance, selection.value_name, selection.cost, looks, note)


def why_no_non_inferiority(info: NonInferiority) -> str:
    """Why there is nothing to show; empty if there is something."""
    if not len(info.table):
        return info.note or "Only the baseline is here, so there is nothing to choose from."
    return "" if (info.table["n_pairs"] > 0).any() else NO_PAIRS


def draw_non_inferiority(info: NonInferiority, look: Look) -> Figure:
    """Losses with their intervals; the tolerance is a band, and filled marks are shown to stay inside."""
    paired = info.table[info.table["n_pairs"] > 0]
    rows = paired[:MAX_ROWS]
    several = rows["train_size"].nunique() > 1
    names = [cell_name(row, several=several) for row in rows.itertuples()]
    marks = Diamonds(
        [f"{words} (n={n})" for words, n in zip(names, rows["n_pairs"], strict=True)],
        rows["qualifies"].tolist(),
        [look.depth(row.depth, row.n_layers) for row in rows.itertuples()],
        [[words, _verdict(row, info)] for words, row in zip(names, rows.itertuples(), strict=True)],
        "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    )
    title = f"loss of {name(info.value_name)} (points)"
    left_out = f"{MAX_ROWS} of {len(paired)} settings; the table has all." if len(paired) > MAX_ROWS else ""
    figure = forest_plot(rows, marks, look, title, shapes=_band(info.tolerance))
    return with_note(figure, look, _rests_on(rows, info), left_out, info.note)


def _rests_on(rows: pd.DataFrame, info: NonInferiority) -> str:
    """What the intervals take for a sample, and at which look it is."""
    if info.looks is None or not len(rows):
        return ""
    over = "over seeds and dev sentences" if rows["n_sentences"].notna().all() else "over seeds, on this dev set"
    look = f"look at {counted(int(rows['n_run'].max()), 'seed')} of up to {info.looks.most}"
    return f"The interval {over} decides; each end holds with chance 95 %, at every look ({look})."


def _band(tolerance: float) -> list[dict[str, Any]]:
    across = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    band = {"type": "rect", "x0": 0, "x1": tolerance, "fillcolor": "rgba(0,158,115,0.15)", "line": {"width": 0}}
    line = {"color": "#009E73", "width": 2, "dash": "dash"}
    return [{**across, **band}, {**across, "type": "line", "x0": tolerance, "x1": tolerance, "line": line}]


def _verdict(row: Any, info: NonInferiority) -> str:
    limit = counted(info.tolerance, "point")
    words = {
        "shown to lose at most the tolerance": f"shown to lose at most {limit}",
        "shown to lose more": f"shown to lose more than {limit}",
    }
    verdict = row.why_none or row.barred or words.get(row.verdict, f"not shown to lose at most {limit}")
    seeds = 0 if row.qualifies or pd.isna(row.further_seeds) else int(row.further_seeds)
    more = f"; about {counted(seeds, 'more seed')} needed" if seeds else ""
    saved = "" if pd.isna(row.saved) else f"<br>saves {100 * row.saved:.0f} % of the {COSTS[info.cost]}"
    collapses = f"<br>{row.collapses}"
    return verdict + more + saved + ("" if row.in_budget else "<br>above the maximum cost") + collapses


def non_inferiority_table(info: NonInferiority) -> pd.DataFrame:
    """One row per cell."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            "loss (points)": (100 * t["loss"]).round(4),
            "median (points)": (100 * t["median"]).round(4),
            "from (points)": _finite(100 * t["low"]),
            "to (points)": _finite(100 * t["high"]),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "passes": t["qualifies"],
            "verdict": t["verdict"],
            "collapses": t["collapses"],
            f"{COSTS[info.cost]} saved (%)": (100 * t["saved"]).round(2),
            "within maximum cost": t["in_budget"],
            "further seeds": t["further_seeds"].astype(object).where(t["further_seeds"].notna(), None),
        }
    )


def _finite(values: pd.Series) -> pd.Series:
    return values.where(np.isfinite(values)).round(4)


FOREST = Part(
    "choose-forest",
    "Loss against the tolerance",
    "Filled diamonds are settings shown to lose no more than the tolerance (the shaded band).",
    prepare_non_inferiority,
    non_inferiority_table,
    draw_non_inferiority,
    why_no_non_inferiority,
    method="The baseline's score minus the setting's, paired by seed: positive is worse. The line is the interval that "
    "decides, over seeds and dev sentences, both of which are samples (over seeds alone where the contributions of "
    "sentences were not recorded: then it holds on this dev set). Each end holds with chance 95 %, for all settings "
    "worth having of one train size together and at every look from 3 seeds on. A filled diamond has its line within "
    "the tolerance, saves enough to be worth having, and does not collapse.",
)
