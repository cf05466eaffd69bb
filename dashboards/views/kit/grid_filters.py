"""Rows sorted and filtered as AG Grid asks, and as an address says in the same words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pandas as pd
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict


class Condition(TypedDict, total=False):
    """A condition on a column, as AG Grid sends it."""

    type: str
    filter: str | float | None
    filterTo: float | None


class Filter(Condition, total=False):
    """The conditions on a column; with several, `operator` is AND or OR."""

    filterType: str
    operator: str
    conditions: list[Condition]


class Sort(TypedDict, total=False):
    """A column and its direction."""

    colId: str
    sort: str


_FILTERS = TypeAdapter(dict[str, Filter])


def sorted_rows(rows: pd.DataFrame, model: Sequence[Sort]) -> pd.DataFrame:
    """The rows by the columns named, the first first; a name that is no column is ignored."""
    keys = [(sort["colId"], sort.get("sort") == "asc") for sort in model if sort.get("colId") in rows]
    if not keys:
        return rows
    return rows.sort_values([name for name, _ in keys], ascending=[up for _, up in keys], kind="stable", key=_in_order)


def _in_order(values: pd.Series) -> pd.Series:
    """Numbers by size, also where they are text, as seeds are; else text."""
    numbers = pd.to_numeric(values, errors="coerce")
    return numbers if numbers.notna().sum() == values.notna().sum() else values.astype(str)


def filtered_rows(rows: pd.DataFrame, model: Mapping[str, Filter]) -> pd.DataFrame:
    """The rows that fulfil the filter of each column; a name that is no column is ignored."""
    for name, wanted in model.items():
        if name in rows:
            rows = rows[_matches(rows[name], wanted)]
    return rows


def _matches(values: pd.Series, wanted: Filter) -> pd.Series:
    """Which values fulfil a column's filter, all of its conditions or any."""
    masks = [
        _fulfils(values, condition, str(wanted.get("filterType"))) for condition in wanted.get("conditions") or [wanted]
    ]
    joined = masks[0]
    for mask in masks[1:]:
        joined = joined | mask if wanted.get("operator") == "OR" else joined & mask
    return joined


def _fulfils(values: pd.Series, condition: Condition, filter_type: str) -> pd.Series:
    kind, value = condition.get("type"), condition.get("filter")
    if kind == "blank":
        return values.isna()
    if kind == "notBlank":
        return values.notna()
    if filter_type == "number" and not isinstance(value, str):
        return _compared(values, str(kind), float(value or 0), condition.get("filterTo"))
    text, word = values.astype(str).str.lower(), str(value or "").lower()
    tests = {
        "contains": lambda: text.str.contains(word, regex=False),
        "notContains": lambda: ~text.str.contains(word, regex=False),
        "equals": lambda: text == word,
        "notEqual": lambda: text != word,
        "startsWith": lambda: text.str.startswith(word),
        "endsWith": lambda: text.str.endswith(word),
    }
    return tests.get(str(kind), tests["contains"])()


def _compared(values: pd.Series, kind: str, value: float, to: object) -> pd.Series:
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
    """Columns and directions of `score.desc,seed.asc`; the best first where the address names none."""
    pairs = [part.rpartition(".") for part in text.split(",") if part]
    sorts = [Sort(colId=name, sort=way) for name, _, way in pairs if name and way in ("asc", "desc")]
    return sorts or [Sort(colId="score", sort="desc")]


def filters_of(text: str) -> dict[str, Filter]:
    """The filters of the address, as AG Grid's JSON; none where it is not that."""
    try:
        return _FILTERS.validate_python(json.loads(text)) if text else {}
    except (ValueError, ValidationError, RecursionError):
        return {}
