"""Scores: what does freezing cost? The scores of all trials by what is frozen, and what each loses in numbers.

Where more than the freeze varies, how much each setting matters.
"""

from __future__ import annotations

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.depth_strip import STRIP
from dashboards.views.importance import IMPORTANCE
from dashboards.views.kit.cells import Shown, cells_of, hundredths, loss_columns, setting_columns, verdicts, with_cells
from dashboards.views.kit.part import NO_PAIRS, ONLY_BASELINE, SHARED_CONTROLS, EmptyPartError, Part, View
from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.summary import STATISTICS


def cells_table(info: Shown) -> pd.DataFrame:
    """One row per cell: `n` of `planned` seeds; mean, median, sd, extremes and interval of the mean, in percent."""
    table = info.table
    shares = {name: f"{name} (%)" for name in ("mean", "median", "std", "min", "max")}
    shares |= {"std": "sd (points)", "low": "95 % from (%)", "high": "95 % to (%)"}
    return pd.DataFrame(
        {
            **setting_columns(table),
            "depth (layers)": table["depth"],
            "n": table["n"],
            "planned": table["planned"],
            **hundredths(table, **shares),
            **{
                statistic.label: table[statistic.label] for statistic in STATISTICS.values() if statistic.label in table
            },
        }
    )


def prepare_losses(selection: Selection) -> pd.DataFrame:
    """One row per setting that has a baseline with all tests: `pairs`, the loss and its interval, `correction`."""
    losses = loss_table(selection.question_selection.with_sentences, selection.column, selection.plan)
    t = with_cells(losses, selection.trials).sort_values("train_size", kind="stable", ignore_index=True)
    if not len(t):
        raise EmptyPartError(ONLY_BASELINE)
    if not (t["n_pairs"] > 0).any():
        raise EmptyPartError(NO_PAIRS)
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            **loss_columns(t),
            "correction": t["method"],
            "median (points)": t["median"].astype("float64").round(4),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "verdict": verdicts(t),
        }
    )


LOSSES = Part(
    "depth-forest",
    "Loss against the baseline",
    "What each setting loses against training everything; an interval that excludes zero shows a difference.",
    prepare_losses,
    method="The baseline trial minus each trial with the same seed and train subset: positive is worse. From and to "
    "are the ends of the interval over seeds and dev sentences (over seeds alone where the contributions of sentences "
    "were not recorded) that decides: each end holds with chance 95 %, for all settings of one train size together "
    "(max-t) and at every look from 3 seeds on. A difference is shown where it excludes zero.",
    on_demand="Loss of each setting against the baseline, with its interval",
    detail=True,
)
TABLE = Part(
    "depth-table",
    "Mean, median, spread and range",
    "Scores on this dev set over the completed seeds of each setting; intervals are over seeds alone.",
    cells_of,
    cells_table,
    method="Standard deviations (sd) divide by n - 1. The 95 % interval of the mean is the wider of Student's t and "
    "the logit interval.",
    on_demand="Mean, median, spread and range of each setting",
    detail=True,
)


VIEW = View(
    "/scores",
    "Scores",
    "What does freezing cost?",
    (STRIP, LOSSES, TABLE, IMPORTANCE),
    SHARED_CONTROLS,
)
