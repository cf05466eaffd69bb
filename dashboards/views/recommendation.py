"""The recommendation that a page query asks for, at one train size."""

from __future__ import annotations

import pandas as pd

from dashboards.data.selection import Selection
from orchestrator.analysis.choose import Recommendation, Saving, recommend

ERROR = 0.05  # chance of recommending a setting that truly loses more than the tolerance


def recommended(selection: Selection, rows: pd.DataFrame) -> Recommendation:
    """What to freeze, from the trials of one train size.

    Raises:
        ValueError: the trials have two baselines, or two trials of one seed.
    """
    query = selection.query
    saving: Saving = query.cost  # type: ignore[assignment]  # one of `query.COSTS`
    budget = {} if query.budget is None else {query.cost: query.budget}
    return recommend(rows, query.tolerance / 100, saving, budget=budget, error=ERROR, value=selection.column)
