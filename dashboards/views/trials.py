"""Trials: which trials are there? A grid that the server sorts and filters, so that a page only holds visible rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import dash
import dash_ag_grid as dag
import dash_mantine_components as dmc
import pandas as pd
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from pydantic import validate_call
from typing_extensions import TypedDict

from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import freeze_column
from dashboards.views.kit.part import SHARED_CONTROLS, ItemPage, PageState, View
from dashboards.views.trial_page import trial_page
from orchestrator.analysis.froze import froze_by
from trials.escaping.untrusted_text import markdown

GRID = "trials-grid"
COLUMNS = {
    "picked": "pick",
    "trial_id": "trial",
    "freeze": "frozen",
    "froze": "what it froze",
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


class Condition(TypedDict, total=False):
    """A condition on a column, as AG Grid sends it."""

    type: str
    filter: str | float | None
    filterTo: float | None


class Filter(Condition, total=False):
    """The conditions on a column."""

    filterType: str
    conditions: list[Condition]


class RowsRequest(TypedDict, total=False):
    """What AG Grid sends when it needs rows."""

    startRow: int | None
    endRow: int | None
    filterModel: dict[str, Filter] | None
    sortModel: list[dict[str, str]] | None


def trials_content(selection: Selection) -> Any:
    """The bar that leads to the comparison of ticked trials, and the grid."""
    bar = html.Div(
        [
            html.Span(id="picked", role="status"),
            dcc.Link("Compare", id="picked-compare", href="/compare"),
            dcc.Link("Untick all", id="picked-none", href="/trials"),
        ],
        className="tools",
    )
    return dmc.Stack([bar, trials_grid(selection)], gap="xs")


def trials_grid(selection: Selection) -> Any:
    """The grid, empty until it asks for rows."""
    shown = COLUMNS if froze_by(selection.trials, "trial_id") else {k: v for k, v in COLUMNS.items() if k != "froze"}
    columns = [_column(name, label) for name, label in shown.items()]
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


_WIDE = {"freeze": 230, "trainable_params": 180, "froze": 330}  # pixels, for what they hold


def _column(name: str, label: str) -> dict[str, Any]:
    column: dict[str, Any] = {"field": name, "headerName": label}
    if name in _WIDE:
        column |= {"minWidth": _WIDE[name]}
    if name == "picked":
        return column | {
            "cellDataType": "boolean", "editable": True, "sortable": False, "pinned": "left", "minWidth": 64,
            "maxWidth": 64, "cellRenderer": "agCheckboxCellRenderer", "cellEditor": "agCheckboxCellEditor",
        }  # fmt: skip
    if name == "freeze":
        column |= {"cellRenderer": "LayerStrip"}
    if name == "trial_id":
        column |= {"cellRenderer": "markdown", "minWidth": 170, "pinned": "left"}
    if name in _NUMERIC:
        form = _FORMATS.get(name, ",d")
        shown = f"params.value == null ? '' : d3.format('{form}')(params.value)"
        column |= {"type": "numericColumn", "filter": "agNumberColumnFilter", "valueFormatter": {"function": shown}}
    else:
        column |= {"filter": "agTextColumnFilter"}
    return column


def answer_rows(selection: Selection, asked: RowsRequest) -> dict[str, Any]:
    """The rows that a grid requests."""
    rows = _sorted(_filtered(_rows(selection), asked.get("filterModel") or {}), asked.get("sortModel") or [])
    start, end = asked.get("startRow") or 0, asked.get("endRow") or 100
    page = rows.iloc[max(start, 0) : max(end, 0)].copy()
    page["id"] = page["trial_id"]
    page["picked"] = page["trial_id"].isin(selection.query.trials)
    # Relative to /trials, wherever that is.
    page["trial_id"] = [f"[{markdown(trial_id)}](trial/{quote(trial_id, safe='')})" for trial_id in page["trial_id"]]
    page["state"] = page["state"].str.replace("_", " ")
    page["squares"] = [getattr(name, "squares", "") for name in page["freeze"]]
    page["heard"] = [getattr(name, "heard", "") for name in page["freeze"]]
    found = page.astype(object).where(page.notna(), None).to_dict("records")
    return {"rowData": found, "rowCount": len(rows)}


def _rows(selection: Selection) -> pd.DataFrame:
    trials, words = selection.trials, froze_by(selection.trials, "trial_id")
    changing = [words.get(trial_id, "") for trial_id in trials["trial_id"]]
    rows = trials.assign(froze=changing).reindex(columns=list(COLUMNS))
    rows["freeze"] = freeze_column(rows["freeze"], trials["n_layers"])
    state = selection.query.state
    if state in _STATES:
        rows = rows[rows["state"].isin(_STATES[state])]
    elif state == "failed":
        rows = rows[~rows["state"].isin([name for names in _STATES.values() for name in names])]
    return rows.assign(**{name: (rows[name] * factor).astype("float64").round(2) for name, factor in _SCALED.items()})


def _sorted(rows: pd.DataFrame, model: list[dict[str, str]]) -> pd.DataFrame:
    keys = [(each["colId"], each.get("sort") == "asc") for each in model if each.get("colId") in COLUMNS]
    if not keys:
        return rows
    return rows.sort_values([name for name, _ in keys], ascending=[up for _, up in keys], kind="stable")


def _filtered(rows: pd.DataFrame, model: Mapping[str, Filter]) -> pd.DataFrame:
    for name, wanted in model.items():
        if name in COLUMNS:
            rows = rows[_matches(rows[name], wanted)]
    return rows


def _matches(values: pd.Series, wanted: Filter) -> pd.Series:
    """Which values fulfil a column's filter; of combined conditions only the first counts."""
    condition: Condition = (wanted.get("conditions") or [wanted])[0]
    kind, value = condition.get("type"), condition.get("filter")
    if kind == "blank":
        return values.isna()
    if kind == "notBlank":
        return values.notna()
    if wanted.get("filterType") == "number" and not isinstance(value, str):
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


def add_trial_callbacks(app: dash.Dash, select: Callable[[str], Selection]) -> None:
    """Answer the grid's requests for rows; ticks go into the address, in the browser."""
    app.clientside_callback(
        ClientsideFunction("permafrost", "pick"),
        Output("url", "search", allow_duplicate=True),
        Output("state", "data", allow_duplicate=True),
        Input(GRID, "cellValueChanged"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("permafrost", "picked"),
        Output("picked", "children"),
        Output("picked-compare", "href"),
        Output("picked-none", "href"),
        Input("state", "data"),
        Input("picked", "id"),
    )

    @app.callback(  # type: ignore[untyped-decorator]
        Output(GRID, "getRowsResponse"),
        Input(GRID, "getRowsRequest"),
        State("state", "data"),
        prevent_initial_call=True,
    )
    @validate_call
    def show_rows(asked: RowsRequest | None, state: PageState) -> Any:
        return no_update if asked is None else answer_rows(select(state["search"]), asked)


VIEW = View(
    "/trials",
    "Trials",
    "Which trials are there?",
    controls=(*SHARED_CONTROLS, "state"),
    content=trials_content,
    content_ignores=("trials",),
    add_callbacks=add_trial_callbacks,
    item_page=ItemPage("/trial", trial_page),
)
