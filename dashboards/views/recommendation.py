"""The recommendation that a query asks for, at one train size."""

from __future__ import annotations

import pandas as pd

from dashboards.data.selection import Selection
from orchestrator.analysis.choose import Recommendation, Saving, recommend

ERROR = 0.05  # the chance of recommending a cell that truly loses more than the tolerance


def recommended(selection: Selection, rows: pd.DataFrame) -> Recommendation:
    """Of the trials of one train size. Raises ValueError as `analysis.choose.recommend` does."""
    query = selection.query
    saving: Saving = query.cost  # type: ignore[assignment]  # one of `query.COSTS`
    budget = {} if query.budget is None else {query.cost: query.budget}
    return recommend(rows, query.tolerance / 100, saving, budget=budget, error=ERROR, value=selection.column)
