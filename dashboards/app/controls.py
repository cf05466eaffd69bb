"""The controls: one for each field of the page query that can be set; each view names those that it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import html

from dashboards.data.page_query import AXES, COSTS, EMBEDDINGS, SPLITS, STATES, PageQuery
from dashboards.data.selection import Selection
from dashboards.views.drawing import freeze_name
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.savings import FLOPS
from trials.metrics.metric import metric_label

LABELS = {
    "sweep": "Sweep",
    "corpus": "Task and corpus",
    "model": "Model",
    "setup": "Other settings",
    "size": "Train sizes",
    "strategy": "Strategies",
    "embeddings": "Embeddings",
    "metric": "Metric",
    "split": "Split",
    "study": "Published study",
    "cost": "Cost",
    "axis": "X axis",
    "tolerance": "Tolerance (points)",
    "budget": "Maximum cost",
    "freeze": "Setting compared",
    "level": "Labels",
    "state": "State",
}
_MANY = ("size", "strategy")
_NUMBERS: Mapping[str, Mapping[str, float]] = {
    "tolerance": {"min": 0, "max": 100, "step": 0.1},
    "budget": {"min": 0, "step": 1},
}
FIXED_CHOICES: Mapping[str, Mapping[str, str]] = {
    "embeddings": {"any": "any", "frozen": "frozen", "learning": "trained"},
    "split": {name: name for name in SPLITS},
    "cost": COSTS,
    "axis": AXES,
    "state": {name: name for name in STATES},
}
assert set(FIXED_CHOICES["embeddings"]) == set(EMBEDDINGS)
NAMES = tuple(LABELS)
LISTED = tuple(name for name in NAMES if name not in FIXED_CHOICES and name not in _NUMBERS)  # from the store


def control_id(name: str) -> str:
    """Id of a control's component."""
    return f"control-{name}"


def controls() -> list[Any]:
    """All controls; CSS hides those that a view does not use."""
    return [html.Div(_control(name), className=f"control control-{name}") for name in NAMES]


def _control(name: str) -> Any:
    common = {"id": control_id(name), "label": LABELS[name], "size": "xs"}
    if name in _NUMBERS:
        return dmc.NumberInput(**common, **_NUMBERS[name], debounce=300, allowNegative=False)
    if name in _MANY:
        return dmc.MultiSelect(**common, data=[], placeholder="all", clearable=True)
    data = [{"value": value, "label": label} for value, label in FIXED_CHOICES.get(name, {}).items()]
    return dmc.Select(**common, data=data, allowDeselect=False)


def chosen(selection: Selection) -> dict[str, Any]:
    """The value of each control, and under `defaults` their default values as text."""
    shown = selection.query.but(tolerance=selection.plan.tolerance, cost=selection.cost)
    asks = DecisionPlan() if selection.sweep is None else selection.sweep.asks
    defaults = PageQuery(tolerance=asks.tolerance, cost=asks.cost or FLOPS)
    values = {name: _value(shown, name) for name in NAMES}
    return values | {"defaults": {name: _word(getattr(defaults, name)) for name in NAMES}}


def choices(selection: Selection) -> dict[str, list[dict[str, str]]]:
    """The choices of each control that depends on the store."""
    options = dict(selection.options)
    labels: Mapping[str, Callable[[str], str]] = {
        "size": lambda word: f"{int(word):,}",
        "freeze": freeze_name,
        "metric": metric_label,
        "setup": lambda word: word or "none",
        "study": lambda word: word.replace("_", " ") or "all that match",
    }
    return {
        name: [
            {"value": word or " ", "label": labels[name](word) if name in labels else word.replace("_", " ")}
            for word in options.get(name, [])
        ]
        for name in LISTED
    }


def is_choice(name: str, selection: Selection) -> bool:
    """Whether a control has more than one value for what is selected, or its value is not the default."""
    if getattr(selection.query, name) != getattr(PageQuery(), name) and name not in selection.options:
        return True
    if name == "embeddings":
        return selection.sweep is not None and bool(selection.sweep.trials["embeddings"].nunique() > 1)
    if name == "split":
        return "test_score" in selection.trials and bool(selection.trials["test_score"].notna().any())
    return name not in LISTED or len(selection.options.get(name, ())) > 1


def _value(query: PageQuery, name: str) -> Any:
    value = getattr(query, name)
    if name in _MANY:
        return [str(word) for word in value]
    if name in _NUMBERS:
        return "" if value is None else value
    return value or " "


def _word(value: object) -> str:
    return "" if value is None or value == () else f"{value:g}" if isinstance(value, float) else str(value)
