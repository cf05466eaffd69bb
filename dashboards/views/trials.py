"""Trials: which trials are there? A grid that the server sorts and filters, so that a page only holds visible rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dash
import dash_ag_grid as dag
import pandas as pd
from dash import Input, Output, State, no_update

from dashboards.data.selection import Selection
from dashboards.views.drawing import freeze_name
from dashboards.views.trial_page import trial_page
from dashboards.views.view import SHARED_CONTROLS, ItemPage, View

GRID = "trials-grid"
COLUMNS = {
    "trial_id": "trial",
    "freeze": "frozen",
    "train_size": "train size",
    "seed": "seed",
    "state": "state",
    "score": "score (%)",
    "test_score": "test score (%)",
    "train_s": "training (s)",
    "trainable_params": "trainable parameters",
    "peak_memory_bytes": "peak memory (MiB)",
    "device": "device",
    "setup": "other settings",
}
_NUMERIC = {"train_size", "seed", "score", "test_score", "train_s", "trainable_params", "peak_memory_bytes"}
_SCALED = {"score": 100.0, "test_score": 100.0, "train_s": 1.0, "trainable_params": 1.0, "peak_memory_bytes": 2**-20}
_FORMATS = {"score": ".2f", "test_score": ".2f", "train_s": ",.2f", "peak_memory_bytes": ",.1f"}  # of d3; others ",d"
_STATES = {
    "completed or pruned": ["completed", "pruned"],
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
            "minWidth": 124,
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
    if name in ("freeze", "trainable_params"):
        column |= {"minWidth": 180}
    if name == "trial_id":
        column |= {"cellRenderer": "markdown", "minWidth": 170, "pinned": "left"}
    if name in _NUMERIC:
        form = _FORMATS.get(name, ",d")
        shown = f"params.value == null ? '' : d3.format('{form}')(params.value)"
        column |= {"type": "numericColumn", "filter": "agNumberColumnFilter", "valueFormatter": {"function": shown}}
    else:
        column |= {"filter": "agTextColumnFilter"}
    return column


def answer_rows(selection: Selection, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that a grid requests with `startRow`, `endRow`, `sortModel` and `filterModel`, as AG Grid sends them."""
    rows = _sorted(_filtered(_rows(selection), asked.get("filterModel") or {}), asked.get("sortModel") or [])
    start, end = int(asked.get("startRow") or 0), int(asked.get("endRow") or 100)
    page = rows.iloc[max(start, 0) : max(end, 0)].copy()
    page["trial_id"] = [f"[{trial_id}](/trial/{trial_id})" for trial_id in page["trial_id"]]
    page["state"] = page["state"].str.replace("_", " ")
    found = page.astype(object).where(page.notna(), None).to_dict("records")
    return {"rowData": found, "rowCount": len(rows)}


def _rows(selection: Selection) -> pd.DataFrame:
    rows = selection.trials.reindex(columns=list(COLUMNS))
    rows["freeze"] = rows["freeze"].map(freeze_name)
    state = selection.query.state
    if state in _STATES:
        rows = rows[rows["state"].isin(_STATES[state])]
    elif state == "failed":
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
    """Which values fulfil a column's filter; of combined conditions only the first counts."""
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


def add_grid_callbacks(app: dash.Dash, select: Callable[[str], Selection]) -> None:
    """Answer the grid's requests for rows."""

    @app.callback(  # type: ignore[untyped-decorator]
        Output(GRID, "getRowsResponse"),
        Input(GRID, "getRowsRequest"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    def show_rows(asked: Mapping[str, Any] | None, state: Mapping[str, str]) -> Any:
        return no_update if asked is None else answer_rows(select(state["search"]), asked)


VIEW = View(
    "/trials",
    "Trials",
    "Which trials are there?",
    controls=(*SHARED_CONTROLS, "state"),
    content=trials_grid,
    add_callbacks=add_grid_callbacks,
    item_page=ItemPage("/trial", trial_page),
)
