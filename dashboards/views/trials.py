"""The page Trials: a grid of all trials that the server sorts and filters, so that the browser holds visible rows only.

As on every page, the address holds the state: here sort, filters and columns. AG Grid's requests for rows are answered
from a pandas frame.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import quote

import dash
import dash_ag_grid as dag
import dash_mantine_components as dmc
import pandas as pd
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, validate_call
from pydantic.alias_generators import to_camel

from dashboards.data.selection import PageQuery, Selection, listed_selection, provenance
from dashboards.data.tables import as_csv
from dashboards.views.kit.cells import setting_name, varying_columns
from dashboards.views.kit.components import plain_rows
from dashboards.views.kit.drawing import freeze_column
from dashboards.views.kit.part import ItemPage, PageState, View
from dashboards.views.trial_page import trial_page
from orchestrator.analysis.freeze_names import freeze_changes_by
from orchestrator.config.quantities import amount
from trials.escaping import markdown
from trials.metrics.metric import metric_label
from trials.spec import Seeds

MOST_CONDITIONS, MOST_SORTS = 20, 10  # per request, as each takes a pass over all rows


class Sent(BaseModel):
    """A value that AG Grid sends; it writes the names in camel case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Condition(Sent):
    """A condition on a column."""

    type: str = ""
    filter: str | float | None = None
    filter_to: float | None = None


class Filter(Condition):
    """The conditions on a column; with several, `operator` is AND or OR."""

    filter_type: str = ""
    operator: str = ""
    conditions: Annotated[list[Condition], Field(max_length=MOST_CONDITIONS)] = []


class Sort(Sent):
    """A column and its direction."""

    col_id: str = ""
    sort: str = ""


Filters: TypeAlias = Annotated[dict[str, Filter], Field(max_length=MOST_CONDITIONS)]
Sorts: TypeAlias = Annotated[list[Sort], Field(max_length=MOST_SORTS)]
_FILTERS = TypeAdapter[dict[str, Filter]](Filters)


def sorted_rows(rows: pd.DataFrame, model: Sequence[Sort]) -> pd.DataFrame:
    """The rows, ordered by the first `col_id`, then the second and so on; names that are no columns are ignored."""
    keys = [(sort.col_id, sort.sort == "asc") for sort in model if sort.col_id in rows]
    if not keys:
        return rows
    return rows.sort_values([name for name, _ in keys], ascending=[up for _, up in keys], kind="stable", key=_sort_keys)


def found_rows(rows: pd.DataFrame, words: str) -> pd.DataFrame:
    """The rows that contain every word in some text column. Of a trial's id a word has to be the beginning, at least
    four digits long, as a single digit occurs in most ids.
    """
    for word in words.lower().split()[:MOST_CONDITIONS]:
        holds = rows["trial_id"].str.startswith(word) & (len(word) > 3)
        for name in rows:
            if COLUMNS.get(str(name), _SETTING).scale is None and name not in ("trial_id", "seed"):
                values = [value for value in rows[name].unique() if pd.notna(value) and word in str(value).lower()]
                holds |= rows[name].isin(values)
        rows = rows[holds]
    return rows


def grouped_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per value of `_GROUPED_BY` (freeze, corpus, model, train size): the number of trials as `trial_id`, means
    of `_AVERAGED`, and of other columns the texts that all trials of the group share.
    """
    groups = rows.groupby(_GROUPED_BY, sort=False, dropna=False)
    scored = zip(groups["score"].count(), groups.size(), strict=True)
    text = [name for name in rows if name not in (*_AVERAGED, *_GROUPED_BY, "trial_id")]
    agree = (groups[text].nunique(dropna=False) == 1).to_numpy()
    first = rows[~rows.duplicated(_GROUPED_BY)]
    means = dict(zip(_AVERAGED, groups[_AVERAGED].mean().round(4).to_numpy().T, strict=True))
    counts = [amount(of, "trial") if n == of else f"{n} of {amount(of, 'trial')}" for n, of in scored]
    return first.assign(**first[text].where(agree, ""), **means, trial_id=counts)


def _sort_keys(values: pd.Series) -> pd.Series:
    """Sort keys: numbers if all values are numbers, even those written as text (such as seeds); else text."""
    numbers = pd.to_numeric(values, errors="coerce")
    return numbers if numbers.notna().sum() == values.notna().sum() else values.astype(str)


def filtered_rows(rows: pd.DataFrame, model: Mapping[str, Filter]) -> pd.DataFrame:
    """The rows that pass every filter in `model`, by column name; names that are no columns are ignored."""
    for name, wanted in model.items():
        if name in rows:
            rows = rows[_matches(rows[name], wanted)]
    return rows


def _matches(values: pd.Series, wanted: Filter) -> pd.Series:
    """Which values pass a column's filter: all of its conditions with AND, any of them with OR."""
    masks = [_fulfils(values, condition, wanted.filter_type) for condition in wanted.conditions or [wanted]]
    joined = masks[0]
    for mask in masks[1:]:
        joined = joined | mask if wanted.operator == "OR" else joined & mask
    return joined


def _fulfils(values: pd.Series, condition: Condition, filter_type: str) -> pd.Series:
    kind, value = condition.type, condition.filter
    if kind == "blank":
        return values.isna()
    if kind == "notBlank":
        return values.notna()
    if filter_type == "number" and not isinstance(value, str):
        return _compare(values, kind, float(value or 0), condition.filter_to)
    text, word = values.astype(str).str.lower(), str(value or "").lower()
    tests = {
        "contains": lambda: text.str.contains(word, regex=False),
        "notContains": lambda: ~text.str.contains(word, regex=False),
        "equals": lambda: text == word,
        "notEqual": lambda: text != word,
        "startsWith": lambda: text.str.startswith(word),
        "endsWith": lambda: text.str.endswith(word),
    }
    return tests.get(kind, tests["contains"])()


def _compare(values: pd.Series, kind: str, value: float, to: object) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce")
    tests = {
        "equals": lambda: numbers == value,
        "notEqual": lambda: numbers != value,
        "lessThan": lambda: numbers < value,
        "lessThanOrEqual": lambda: numbers <= value,
        "greaterThan": lambda: numbers > value,
        "greaterThanOrEqual": lambda: numbers >= value,
        "inRange": lambda: numbers.between(value, float(str(to or value))),
    }
    return tests.get(kind, tests["equals"])()


def sort_of(text: str) -> list[Sort]:
    """The columns and directions in text such as `score.desc,seed.asc`; the best score first if it names none."""
    pairs = [part.rpartition(".") for part in text.split(",", MOST_SORTS)[:MOST_SORTS] if part]
    sorts = [Sort(col_id=name, sort=way) for name, _, way in pairs if name and way in ("asc", "desc")]
    return sorts or [Sort(col_id="score", sort="desc")]


def filters_of(text: str) -> dict[str, Filter]:
    """The filters that the address holds as AG Grid's JSON; none if it is not valid."""
    try:
        return _FILTERS.validate_python(json.loads(text)) if text else {}
    except (ValueError, ValidationError, RecursionError):
        return {}


GRID = "trials-grid"


class GridColumn(NamedTuple):
    """How a column of the grid is shown.

    Attributes:
        scale: Factor from the store's unit to the column's (100 from a share to percent); None if it holds no numbers.
        form: Format of its numbers, in d3's notation.
        pixels: Minimum width.
    """

    label: str
    scale: float | None = None
    form: str = ",d"
    pixels: int = 110


COLUMNS = {
    "picked": GridColumn(""),
    "trial_id": GridColumn("trial"),
    "score": GridColumn("score (%)", 100.0, ".2f", 150),
    "freeze": GridColumn("frozen", pixels=265),
    "froze": GridColumn("what it froze", pixels=330),
    "corpus": GridColumn("corpus", pixels=180),
    "model": GridColumn("model"),
    "train_size": GridColumn("train size", 1),
    "seed": GridColumn("seed"),
    "state": GridColumn("state"),
    "compare": GridColumn("compare", pixels=130),
    "test_score": GridColumn("test score (%)", 100.0, ".2f", 120),
    "best_epoch": GridColumn("best epoch", 1.0, ",.3~f"),
    "train_s": GridColumn("training (s)", 1.0, ",.2f"),
    "training_flops": GridColumn("training TFLOPs", 1e-12, ",.3~f"),
    "trainable_params": GridColumn("trainable parameters", 1.0, pixels=180),
    "peak_memory_bytes": GridColumn("peak memory (MiB)", 2**-20, ",.1f"),
    "device": GridColumn("device"),
}
_SETTING = GridColumn("")  # a column for a setting in which trials differ
_GROUPED_BY = ["freeze", "corpus", "model", "train_size"]
_AVERAGED = [name for name, column in COLUMNS.items() if column.scale is not None and name not in _GROUPED_BY]
_LINKS = ("picked", "compare")  # columns that only the page has
_MOST_PRINTED = 2000  # rows, which fill about 40 printed pages
_ALWAYS = (*_LINKS, "trial_id", "score", "freeze", "seed", "state")
_STATES = {"completed or pruned": ["completed", "pruned"], "not ended": ["running", "planned", "missing"]}


class RowsRequest(Sent):
    """The rows that the grid asks for: a range of row numbers, filters and sort order."""

    start_row: int | None = None
    end_row: int | None = None
    filter_model: Filters | None = None
    sort_model: Sorts | None = None


def trials_content(selection: Selection) -> Any:
    """The bar with a link that compares the ticked trials, the column chooser, and the grid."""
    selection = listed_selection(selection)
    columns = _columns(selection)
    shown = _visible_columns(selection, columns)
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
        className="tools" if selection.query.group == "none" else "tools grouped",
    )
    paper = html.Table(className="plain on-paper", **{"data-print": "/trials.json"})
    return dmc.Stack([bar, _grid(selection), paper], gap="xs")


def _grid(selection: Selection) -> Any:
    """The grid, which is empty until its first request for rows is answered."""
    columns = _columns(selection)
    shown, sorts = (
        _visible_columns(selection, columns),
        {sort.col_id: sort.sort for sort in sort_of(selection.query.sort)},
    )
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
        rowClassRules={"ag-row-loading": "!params.data"},
        filterModel={
            name: wanted.model_dump(by_alias=True, exclude_unset=True)
            for name, wanted in filters_of(selection.query.filters).items()
        },
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


def _columns(selection: Selection) -> dict[str, str]:
    """The labels of all columns that are not empty, by name; the labels of scores name the metric."""
    trials = selection.trials
    froze = freeze_changes_by(trials, "trial_id")
    absent = set() if froze else {"froze"}
    absent |= {name for name in COLUMNS if name in trials and name not in _ALWAYS and trials[name].isna().all()}
    metric = metric_label(str(trials["metric"].iloc[0])) if len(trials) else "score"
    labels = {name: column.label for name, column in COLUMNS.items()}
    labels |= {"score": f"dev {metric} (%)", "test_score": f"test {metric} (%)"}
    index = list(COLUMNS).index("seed")
    if selection.query.group == "freeze":
        absent |= {*_LINKS}
        labels |= {"trial_id": "trials"} | {name: f"mean {labels[name]}" for name in _AVERAGED}
    names = [*list(COLUMNS)[:index], *(own := varying_columns(selection, trials)), *list(COLUMNS)[index:]]
    return {name: setting_name(name) if name in own else labels[name] for name in names if name not in absent}


def _visible_columns(selection: Selection, columns: Mapping[str, str]) -> list[str]:
    """The columns that the address names; if it names none, those in which the trials differ."""
    if wanted := selection.query.columns:
        return [name for name in columns if name in wanted or name in ("picked", "trial_id")]
    trials = selection.trials
    constant = {
        name for name in columns if name in trials and name not in _ALWAYS and trials[name].nunique(dropna=False) < 2
    }
    return [name for name in columns if name not in constant]


def _column(name: str, label: str) -> dict[str, Any]:
    grid_column = COLUMNS.get(name, GridColumn(label))
    column: dict[str, Any] = {"field": name, "headerName": label, "minWidth": grid_column.pixels}
    if name == "picked":
        return column | {
            "headerTooltip": "Tick to compare", "cellDataType": "boolean", "editable": True, "sortable": False,
            "pinned": "left", "minWidth": 52, "maxWidth": 52, "cellRenderer": "agCheckboxCellRenderer",
            "cellEditor": "agCheckboxCellEditor",
        }  # fmt: skip
    if name == "freeze":
        column |= {"cellRenderer": "LayerStrip"}
    if name == "compare":
        return column | {"cellRenderer": "markdown", "sortable": False}
    if name == "trial_id":
        column |= {"cellRenderer": "markdown", "pinned": "left"}
    if grid_column.scale is not None:
        shown = f"params.value == null ? '' : d3.format('{grid_column.form}')(params.value)"
        column |= {"type": "numericColumn", "filter": "agNumberColumnFilter", "valueFormatter": {"function": shown}}
    else:
        column |= {"filter": "agTextColumnFilter"}
    return column


def answer_rows(selection: Selection, request: RowsRequest) -> dict[str, Any]:
    """The rows that a grid requests."""
    selection = listed_selection(selection)
    rows = _asked_rows(selection, request.filter_model or {}, request.sort_model or [])
    start, end = request.start_row or 0, request.end_row or 100
    page = rows.iloc[max(start, 0) : max(end, 0)].copy()
    page["id"] = page["trial_id"]
    # Addresses are relative to /trials, wherever that is.
    if selection.query.group == "freeze":
        query = selection.url_query
        page["trial_id"] = [f"[{row.trial_id}](trials{_trials_of(row, query).search()})" for row in page.itertuples()]
    else:
        page["picked"] = page["trial_id"].isin(selection.query.trials)
        page["compare"] = _comparisons(selection, page)
        # The first digits are enough to tell trials apart.
        page["trial_id"] = [f"[{markdown(trial[:8])}](trial/{quote(trial, safe='')})" for trial in page["trial_id"]]
    page["squares"] = [getattr(name, "squares", "") for name in page["freeze"]]
    page["heard"] = [getattr(name, "heard", "") for name in page["freeze"]]
    records = page.astype(object).where(page.notna(), None).to_dict("records")
    return {"rowData": records, "rowCount": len(rows)}


def _comparisons(selection: Selection, page: pd.DataFrame) -> list[str]:
    """For each row, a Markdown link that compares it with its baseline's trial of the same seed; empty without one."""
    rows = selection.trials.loc[page.index]
    every = rows if selection.sweep is None else selection.sweep.trials  # none in an empty store
    at_baseline = every[every["cell"].isin(rows["baseline"])]
    ids = {(row.cell, row.seed): row.trial_id for row in at_baseline.itertuples()}
    pairs = [(ids.get((row.baseline, row.seed)), row.trial_id) for row in rows.itertuples()]
    return [
        f"[with baseline](compare{selection.url_query.but(trials=pair).search()})"
        if pair[0] not in (None, pair[1])
        else ""
        for pair in pairs
    ]


def _trials_of(group: Any, url_query: PageQuery) -> PageQuery:
    """The query of the page that lists the trials behind a row of `grouped_rows`."""
    kinds = {name: "text" if COLUMNS[name].scale is None else "number" for name in _GROUPED_BY}
    same = {
        name: {"filterType": kind, "type": "equals", "filter": getattr(group, name)} for name, kind in kinds.items()
    }
    return url_query.but(group="none", filters=json.dumps({**json.loads(url_query.filters or "{}"), **same}))


def trials_csv(selection: Selection) -> str:
    """The rows and columns that the page shows, with their source."""
    return as_csv(_listed_rows(selection), provenance(listed_selection(selection)).line)


def trials_on_paper(selection: Selection) -> str:
    """The same rows as JSON, from which the browser builds the table that it prints in place of the grid."""
    return plain_rows(_listed_rows(selection), _MOST_PRINTED)


def _listed_rows(selection: Selection) -> pd.DataFrame:
    """All rows, sorted and filtered as the address says, with the columns that the page shows."""
    selection = listed_selection(selection)
    columns = _columns(selection)
    shown = [name for name in _visible_columns(selection, columns) if name not in _LINKS]
    rows = _asked_rows(selection, filters_of(selection.query.filters), sort_of(selection.query.sort))
    return rows[shown].rename(columns=columns)


def _asked_rows(selection: Selection, filters: Mapping[str, Filter], sorts: Sequence[Sort]) -> pd.DataFrame:
    rows = found_rows(filtered_rows(_rows(selection), filters), selection.query.find)
    rows = grouped_rows(rows) if selection.query.group == "freeze" else rows
    return sorted_rows(rows, sorts or [Sort(col_id="score", sort="desc")])


def _rows(selection: Selection) -> pd.DataFrame:
    trials, froze = selection.trials, freeze_changes_by(selection.trials, "trial_id")
    changing = [froze.get(trial_id, "") for trial_id in trials["trial_id"]]
    own = varying_columns(selection, trials)
    rows = trials.assign(froze=changing, **own).reindex(columns=[*COLUMNS, *own])
    rows["freeze"] = freeze_column(trials["freeze_spec"], trials["n_layers"])
    rows["seed"] = [Seeds.label_of(int(seed)) for seed in rows["seed"]]
    state = selection.query.state
    if state in _STATES:
        rows = rows[rows["state"].isin(_STATES[state])]
    elif state == "failed":
        rows = rows[~rows["state"].isin([name for names in _STATES.values() for name in names])]
    scales = {name: column.scale for name, column in COLUMNS.items() if column.scale is not None}
    scaled = {name: (pd.to_numeric(rows[name]) * scale).round(4) for name, scale in scales.items()}
    return rows.assign(**scaled, state=rows["state"].str.replace("_", " "))


def add_trial_callbacks(app: dash.Dash, select: Callable[[str], Selection]) -> None:
    """Answer the grid's requests for rows; the browser writes ticks, sort, filters and columns to the address."""
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
    def show_rows(request: RowsRequest | None, state: PageState) -> Any:
        return no_update if request is None else answer_rows(select(state.search), request)


VIEW = View(
    "/trials",
    "Trials",
    "Which trials are there?",
    controls=("sweep", "corpus", "model", "setup", "size", "strategy", "embeddings", "state", "group", "find"),
    content=trials_content,
    content_ignores=("trials", "sort", "filters", "columns", "find"),
    add_callbacks=add_trial_callbacks,
    item_page=ItemPage("/trial", trial_page),
    why_dimmed=lambda selection: "",
    of_all=("corpus", "model", "setup"),
    shows=listed_selection,
)
