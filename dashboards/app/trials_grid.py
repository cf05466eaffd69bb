"""The grid of trials: sorted and filtered here, so that a page holds only the rows that one sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash_ag_grid as dag
import pandas as pd

from dashboards.data.selection import Selection

GRID = "trials-grid"
COLUMNS = {
    "trial_id": "trial",
    "freeze": "frozen",
    "train_size": "train size",
    "seed": "seed",
    "state": "state",
    "score": "score (%)",
    "test_score": "test (%)",
    "train_s": "training (s)",
    "trainable_params": "trainable (M)",
    "peak_memory_bytes": "peak memory (MB)",
    "device": "device",
    "setup": "other settings",
}
_NUMERIC = {"train_size", "seed", "score", "test_score", "train_s", "trainable_params", "peak_memory_bytes"}
_SCALED = {"score": 100.0, "test_score": 100.0, "train_s": 1.0, "trainable_params": 1e-6, "peak_memory_bytes": 1e-6}
_STATES = {
    "ended well": ["completed", "pruned"],
    "not ended": ["running", "planned", "missing"],
}


def trials_grid(selection: Selection) -> Any:
    """The grid, empty until it asks for rows."""
    columns = [_column(name, label) for name, label in COLUMNS.items()]
    return dag.AgGrid(
        id=GRID,
        columnDefs=columns,
        rowModelType="infinite",
        defaultColDef={
            "sortable": True,
            "resizable": True,
            "minWidth": 104,
            "wrapHeaderText": True,
            "autoHeaderHeight": True,
        },
        columnSize="sizeToFit",
        dashGridOptions={
            "cacheBlockSize": 100,
            "maxBlocksInCache": 10,
            "rowHeight": 30,
            "suppressColumnVirtualisation": True,
        },
        style={"height": "70vh"},
        className="ag-theme-quartz",
    )


def _column(name: str, label: str) -> dict[str, Any]:
    column: dict[str, Any] = {"field": name, "headerName": label}
    if name == "trial_id":
        column |= {"cellRenderer": "markdown", "minWidth": 170, "pinned": "left"}
    if name in _NUMERIC:
        column |= {"type": "numericColumn", "filter": "agNumberColumnFilter"}
    else:
        column |= {"filter": "agTextColumnFilter"}
    return column


def answer_rows(selection: Selection, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that a grid asks for: `startRow`, `endRow`, `sortModel`, `filterModel` as AG Grid sends them."""
    rows = _sorted(_filtered(_rows(selection), asked.get("filterModel") or {}), asked.get("sortModel") or [])
    start, end = int(asked.get("startRow") or 0), int(asked.get("endRow") or 100)
    page = rows.iloc[max(start, 0) : max(end, 0)].copy()
    page["trial_id"] = [f"[{trial_id}](/trial/{trial_id})" for trial_id in page["trial_id"]]
    page["state"] = page["state"].str.replace("_", " ")
    found = page.astype(object).where(page.notna(), None).to_dict("records")
    return {"rowData": found, "rowCount": len(rows)}


def _rows(selection: Selection) -> pd.DataFrame:
    rows = selection.trials.reindex(columns=list(COLUMNS))
    state = selection.query.state
    if state in _STATES:
        rows = rows[rows["state"].isin(_STATES[state])]
    elif state == "ended otherwise":
        rows = rows[~rows["state"].isin([name for names in _STATES.values() for name in names])]
    return rows.assign(**{name: (rows[name] * factor).astype("float64").round(2) for name, factor in _SCALED.items()})


def _sorted(rows: pd.DataFrame, model: list[Mapping[str, str]]) -> pd.DataFrame:
    keys = [(each["colId"], each["sort"] == "asc") for each in model if each.get("colId") in COLUMNS]
    if not keys:
        return rows
    return rows.sort_values([name for name, _ in keys], ascending=[up for _, up in keys], kind="stable")


def _filtered(rows: pd.DataFrame, model: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    for name, wanted in model.items():
        if name in COLUMNS:
            rows = rows[_matches(rows[name], wanted)]
    return rows


def _matches(values: pd.Series, wanted: Mapping[str, Any]) -> pd.Series:
    """One condition of a column; of several that a person put together, the first."""
    condition = (wanted.get("conditions") or [wanted])[0]
    kind, value = condition.get("type"), condition.get("filter")
    if kind == "blank":
        return values.isna()
    if kind == "notBlank":
        return values.notna()
    if wanted.get("filterType") == "number":
        return _compared(values, str(kind), float(value or 0), condition.get("filterTo"))
    text, word = values.astype(str).str.lower(), str(value or "").lower()
    found = {
        "contains": lambda: text.str.contains(word, regex=False),
        "notContains": lambda: ~text.str.contains(word, regex=False),
        "equals": lambda: text == word,
        "notEqual": lambda: text != word,
        "startsWith": lambda: text.str.startswith(word),
        "endsWith": lambda: text.str.endswith(word),
    }
    return found.get(str(kind), found["contains"])()


def _compared(values: pd.Series, kind: str, value: float, to: object) -> pd.Series:
    numbers = values.astype("float64")
    found = {
        "equals": lambda: numbers == value,
        "notEqual": lambda: numbers != value,
        "lessThan": lambda: numbers < value,
        "lessThanOrEqual": lambda: numbers <= value,
        "greaterThan": lambda: numbers > value,
        "greaterThanOrEqual": lambda: numbers >= value,
        "inRange": lambda: numbers.between(value, float(str(to or value))),
    }
    return found.get(kind, found["equals"])()
