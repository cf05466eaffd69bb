"""The settings of each question with their losses and savings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.page_query import COSTS, PageQuery
from dashboards.data.selection import Selection
from dashboards.views.kit.cards import answers_of_page, left_out, settings_of, settings_table
from dashboards.views.kit.cells import with_cells
from dashboards.views.kit.part import EmptyPartError
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.wording import NO_CANDIDATES


class LossPanel(NamedTuple):
    """The settings of one question.

    Attributes:
        table: One row per setting with a loss and a saving: `cells.KEYS` and the columns of `cards.settings_of`.
        baseline: Mean score without freezing, 0..1; NaN if unknown.
        without: How many settings have no loss or no saving.
        trials: Address of the page that lists its trials, without a filter.
    """

    answer: Answer
    table: pd.DataFrame
    baseline: float
    without: int
    trials: PageQuery


class LossPanels(NamedTuple):
    """Loss against saving.

    Attributes:
        tolerance: In points.
        cost: A key of `page_query.COSTS`.
    """

    panels: tuple[LossPanel, ...]
    tolerance: float
    cost: str
    note: str


def prepare_losses(selection: Selection) -> LossPanels:
    """A panel for each corpus, model and train size that the address selects; of the selected set-up, if several."""
    page, cost = answers_of_page(selection), selection.query.cost
    if not page.answers:
        raise EmptyPartError(NO_CANDIDATES)
    trials = page.trials
    done = trials[(trials["state"] == "completed") & (trials["cell"] == trials["baseline"])]
    means = done.groupby("cell")["score"].mean()
    panels = [_panel(answer, trials, means, selection.asked) for answer in page.answers]
    if not any(len(panel.table) for panel in panels):
        neither = any(panel.without for panel in panels)
        reason = f"No setting has both a loss and its {COSTS[cost]} yet. " * neither
        raise EmptyPartError(f"{reason}{panels[0].answer.sentence}")
    return LossPanels(tuple(panels), selection.plan.tolerance, cost, left_out(page))


def _panel(answer: Answer, trials: pd.DataFrame, means: pd.Series, asked: PageQuery) -> LossPanel:
    table = with_cells(settings_of(answer), trials)
    complete = table[np.isfinite(table["loss"]) & np.isfinite(table["saved"].astype("float64"))].reset_index(drop=True)
    baseline = means.reindex(table["baseline"].unique()).mean() if len(table) else np.nan
    here = asked.but(
        corpus=f"{answer.task} {answer.corpus}", model=answer.model, setup=answer.setup, size=(answer.train_size,)
    )
    return LossPanel(answer, complete, float(baseline), len(table) - len(complete), here)


def losses_table(info: LossPanels) -> pd.DataFrame:
    """The settings of all answers, those without a loss or a saving included."""
    return settings_table([panel.answer for panel in info.panels], COSTS[info.cost])
