"""Trials: which trials are there? A grid that the server sorts and filters, so that a page only holds visible rows.

How it is sorted and filtered and which columns it shows is in the address, as everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import dash
import dash_ag_grid as dag
import dash_mantine_components as dmc
import pandas as pd
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from pydantic import validate_call
from typing_extensions import TypedDict

from dashboards.data.provenance import provenance
from dashboards.data.selection import Selection, listed
from dashboards.data.tables import as_csv
from dashboards.views.grid_query import Filter, Sort, filtered_rows, filters_of, sort_of, sorted_rows
from dashboards.views.kit.cells import plain_setting, setting_name
from dashboards.views.kit.components import plain_rows
from dashboards.views.kit.drawing import freeze_column
from dashboards.views.kit.part import ItemPage, PageState, View
from dashboards.views.trial_page import trial_page
from orchestrator.analysis.cells import froze_by, setting, varying_settings
from trials.escaping import markdown
from trials.metrics.metric import metric_label
from trials.settings import Seeds

GRID = "trials-grid"
COLUMNS = {
    "picked": "",
    "trial_id": "trial",
    "score": "score (%)",
    "freeze": "frozen",
    "froze": "what it froze",
    "corpus": "corpus",
    "model": "model",
    "train_size": "train size",
    "seed": "seed",
    "state": "state",
    "test_score": "test score (%)",
    "best_epoch": "best epoch",
    "train_s": "training (s)",
    "training_flops": "training TFLOPs",
    "trainable_params": "trainable parameters",
    "peak_memory_bytes": "peak memory (MiB)",
    "device": "device",
}
_MOST_PRINTED = 2000  # rows, about 40 pages
_ALWAYS = ("picked", "trial_id", "score", "freeze", "seed", "state")
_SCALED = {
    "score": 100.0, "test_score": 100.0, "best_epoch": 1.0, "train_s": 1.0, "training_flops": 1e-12,
    "trainable_params": 1.0, "peak_memory_bytes": 2**-20,
}  # fmt: skip
_NUMERIC = {"train_size", *_SCALED}
_FORMATS = {
    "score": ".2f", "test_score": ".2f", "best_epoch": ",.3~f", "train_s": ",.2f", "training_flops": ",.3~f",
    "peak_memory_bytes": ",.1f",
}  # fmt: skip
_WIDE = {
    "score": 124,
    "freeze": 230,
    "trainable_params": 180,
    "froze": 330,
    "corpus": 180,
}  # pixels, for what they hold
_STATES = {
    "completed or pruned": ["completed", "pruned"],
    "not ended": ["running", "planned", "missing"],
}


class RowsRequest(TypedDict, total=False):
    """What AG Grid sends when it needs rows."""

    startRow: int | None
    endRow: int | None
    filterModel: dict[str, Filter] | None
    sortModel: list[Sort] | None


def trials_content(selection: Selection) -> Any:
    """The bar that leads to the comparison of ticked trials, the chooser of columns, and the grid."""
    selection = listed(selection)
    columns = _columns(selection)
    shown = _shown(selection, columns)
    chooser = html.Details(
        [
            html.Summary("Columns"),
            dmc.CheckboxGroup(
                dmc.Group([dmc.Checkbox(label=label, value=name, size="xs") for name, label in columns.items()
                           if name not in ("picked", "trial_id")]),
                id="trials-columns",
                value=[name for name in shown if name not in ("picked", "trial_id")],
            ),
        ],
        className="chooser",
    )  # fmt: skip
    bar = html.Div(
        [
            html.Span(id="picked", role="status"),
            dcc.Link("Compare", id="picked-compare", href="/compare"),
            dcc.Link("Untick all", id="picked-none", href="/trials"),
            html.A("CSV", href="/trials.csv", download="", **{"data-export": "/trials.csv"}),
            chooser,
        ],
        className="tools",
    )
    paper = html.Table(className="plain on-paper", **{"data-print": "/trials.json"})
    return dmc.Stack([bar, _grid(selection), paper], gap="xs")


def _grid(selection: Selection) -> Any:
    """The grid, empty until it asks for rows."""
    columns = _columns(selection)
    shown, sorts = _shown(selection, columns), {each["colId"]: each["sort"] for each in sort_of(selection.query.sort)}
    order = list(sorts)
    defined = [
        _column(name, label)
        | {"hide": name not in shown}
        | ({"sort": sorts[name], "sortIndex": order.index(name)} if name in sorts else {})
        for name, label in columns.items()
    ]
    return dag.AgGrid(
        id=GRID,
        columnDefs=defined,
        rowModelType="infinite",
        defaultColDef={
            "sortable": True,
            "resizable": True,
            "minWidth": 110,
            "wrapHeaderText": True,
            "autoHeaderHeight": True,
        },
        columnSize="sizeToFit",
        filterModel=filters_of(selection.query.filters),
        dashGridOptions={
            "cacheBlockSize": 100,
            "maxBlocksInCache": 10,
            "rowHeight": 30,
            "suppressColumnVirtualisation": True,
            "suppressFieldDotNotation": True,  # settings have dots in their names
        },
        style={"height": "70vh"},
        className="ag-theme-quartz",
    )


# --- Columns


def _settings(selection: Selection) -> dict[str, str]:
    """The settings in which the trials differ beyond those that every table has: name of the column by key."""
    known = selection.snapshot.specs
    specs = [known[cell] for cell in selection.trials["cell"].unique() if cell in known]
    return {f"set:{key}": setting_name(key) for key in varying_settings(specs) if key != "model.name"}


def _columns(selection: Selection) -> dict[str, str]:
    """All columns that hold anything, by name; the names of the scores are those of the metric."""
    trials = selection.trials
    froze = froze_by(trials, "trial_id")
    absent = set() if froze else {"froze"}
    absent |= {name for name in COLUMNS if name in trials and name not in _ALWAYS and trials[name].isna().all()}
    metric = metric_label(str(trials["metric"].iloc[0])) if len(trials) else "score"
    labels = {**COLUMNS, "score": f"dev {metric} (%)", "test_score": f"test {metric} (%)"}
    at = list(COLUMNS).index("seed")
    names = [*list(COLUMNS)[:at], *(own := _settings(selection)), *list(COLUMNS)[at:]]
    return {name: own.get(name) or labels[name] for name in names if name not in absent}


def _shown(selection: Selection, columns: Mapping[str, str]) -> list[str]:
    """Those that the address names, else those in which the trials differ."""
    if wanted := selection.query.columns:
        return [name for name in columns if name in wanted or name in ("picked", "trial_id")]
    trials = selection.trials
    constant = {
        name for name in columns if name in trials and name not in _ALWAYS and trials[name].nunique(dropna=False) < 2
    }
    return [name for name in columns if name not in constant]


def _column(name: str, label: str) -> dict[str, Any]:
    column: dict[str, Any] = {"field": name, "headerName": label}
    if name in _WIDE:
        column |= {"minWidth": _WIDE[name]}
    if name == "picked":
        return column | {
            "headerTooltip": "Tick to compare", "cellDataType": "boolean", "editable": True, "sortable": False,
            "pinned": "left", "minWidth": 52, "maxWidth": 52, "cellRenderer": "agCheckboxCellRenderer",
            "cellEditor": "agCheckboxCellEditor",
        }  # fmt: skip
    if name == "freeze":
        column |= {"cellRenderer": "LayerStrip"}
    if name == "trial_id":
        column |= {"cellRenderer": "markdown", "minWidth": 110, "pinned": "left"}
    if name in _NUMERIC:
        form = _FORMATS.get(name, ",d")
        shown = f"params.value == null ? '' : d3.format('{form}')(params.value)"
        column |= {"type": "numericColumn", "filter": "agNumberColumnFilter", "valueFormatter": {"function": shown}}
    else:
        column |= {"filter": "agTextColumnFilter"}
    return column


# --- Rows


def answer_rows(selection: Selection, asked: RowsRequest) -> dict[str, Any]:
    """The rows that a grid requests."""
    selection = listed(selection)
    rows = _asked_rows(selection, asked.get("filterModel") or {}, asked.get("sortModel") or [])
    start, end = asked.get("startRow") or 0, asked.get("endRow") or 100
    page = rows.iloc[max(start, 0) : max(end, 0)].copy()
    page["id"] = page["trial_id"]
    page["picked"] = page["trial_id"].isin(selection.query.trials)
    # Relative to /trials, wherever that is; the first digits are enough to tell trials apart.
    page["trial_id"] = [f"[{markdown(trial[:8])}](trial/{quote(trial, safe='')})" for trial in page["trial_id"]]
    page["squares"] = [getattr(name, "squares", "") for name in page["freeze"]]
    page["heard"] = [getattr(name, "heard", "") for name in page["freeze"]]
    found = page.astype(object).where(page.notna(), None).to_dict("records")
    return {"rowData": found, "rowCount": len(rows)}


def trials_csv(selection: Selection) -> str:
    """The rows and columns that the page shows, with their source."""
    return as_csv(_listed_rows(selection), provenance(listed(selection)).line())


def trials_on_paper(selection: Selection) -> str:
    """The same as JSON, from which the browser makes the table that it prints in place of the grid."""
    return plain_rows(_listed_rows(selection), _MOST_PRINTED)


def _listed_rows(selection: Selection) -> pd.DataFrame:
    """All rows, sorted and filtered as the address says, with the columns that it shows."""
    selection = listed(selection)
    columns = _columns(selection)
    shown = [name for name in _shown(selection, columns) if name != "picked"]
    rows = _asked_rows(selection, filters_of(selection.query.filters), sort_of(selection.query.sort))
    return rows[shown].rename(columns=columns)


def _asked_rows(selection: Selection, filters: Mapping[str, Filter], sorts: Sequence[Sort]) -> pd.DataFrame:
    return sorted_rows(filtered_rows(_rows(selection), filters), sorts or [Sort(colId="score", sort="desc")])


def _rows(selection: Selection) -> pd.DataFrame:
    trials, words = selection.trials, froze_by(selection.trials, "trial_id")
    changing = [words.get(trial_id, "") for trial_id in trials["trial_id"]]
    own = _settings(selection)
    known = selection.snapshot.specs
    values = {
        key: trials["cell"].map(
            {cell: plain_setting(setting(known[cell], key[4:])) for cell in trials["cell"].unique()}
        )
        for key in own
    }
    rows = trials.assign(froze=changing, **values).reindex(columns=[*COLUMNS, *own])
    rows["freeze"] = freeze_column(rows["freeze"], trials["n_layers"])
    rows["seed"] = [Seeds.label_of(int(seed)) for seed in rows["seed"]]
    state = selection.query.state
    if state in _STATES:
        rows = rows[rows["state"].isin(_STATES[state])]
    elif state == "failed":
        rows = rows[~rows["state"].isin([name for names in _STATES.values() for name in names])]
    scaled = {name: (rows[name] * factor).astype("float64").round(4) for name, factor in _SCALED.items()}
    return rows.assign(**scaled, state=rows["state"].str.replace("_", " "))


# --- The address


def add_trial_callbacks(app: dash.Dash, select: Callable[[str], Selection]) -> None:
    """Answer the grid's requests for rows; ticks, sort, filters and columns go into the address, in the browser."""
    for function, inputs in (
        ("pick", [Input(GRID, "cellValueChanged")]),
        ("arrange", [Input(GRID, "filterModel"), Input(GRID, "columnState"), Input("trials-columns", "value")]),
    ):
        app.clientside_callback(
            ClientsideFunction("permafrost", function),
            Output("url", "search", allow_duplicate=True),
            Output("state", "data", allow_duplicate=True),
            *inputs,
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
    controls=("sweep", "corpus", "model", "setup", "size", "strategy", "embeddings", "state"),
    content=trials_content,
    content_ignores=("trials", "sort", "filters", "columns"),
    add_callbacks=add_trial_callbacks,
    item_page=ItemPage("/trial", trial_page),
    why_dimmed=lambda selection: "",
    of_all=("corpus", "model", "setup"),
    shows=listed,
)
