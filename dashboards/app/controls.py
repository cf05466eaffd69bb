"""The controls: one for each field of the page query that can be set; each view names those that it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import dash_mantine_components as dmc
from dash import html

from dashboards.data.frames import EVERYTHING
from dashboards.data.page_query import AXES, COSTS, EMBEDDINGS, SPLITS, STATES, PageQuery
from dashboards.data.selection import EACH_BEST, Selection
from dashboards.views.kit.part import View
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.freeze_names import freeze_name
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


def chosen(selection: Selection, view: View | None) -> dict[str, Any]:
    """The value of each control, and under `defaults` their default values as text."""
    of_all = view.of_all if view else ()
    values = {name: _value(selection.asked if name in of_all else selection.query, name) for name in NAMES}
    asks = DecisionPlan() if selection.sweep is None else selection.sweep.asks
    values["tolerance"] = selection.plan.tolerance
    defaults = PageQuery(tolerance=asks.tolerance)
    return values | {"defaults": {name: _word(getattr(defaults, name)) for name in NAMES}}


def choices(selection: Selection, view: View | None) -> dict[str, list[dict[str, str]]]:
    """The choices of each control that depends on the store."""
    options = dict(selection.options)
    layers = selection.trials["n_layers"].unique().tolist()
    n_layers = int(layers[0]) if len(layers) == 1 else 0  # of several encoders a depth may be all layers of one
    labels: Mapping[str, Callable[[str], str]] = {
        "size": lambda word: f"{int(word):,}",
        "freeze": lambda label: freeze_name(label, n_layers),
        "metric": metric_label,
        "setup": lambda word: word or "none",
    }
    start = {name: len(_common_start(options.get(name, []))) for name in ("sweep", "corpus")}
    listed = {
        name: [
            {"value": word or " ", "label": labels[name](word) if name in labels else _label(word, start.get(name, 0))}
            for word in options.get(name, [])
        ]
        for name in LISTED
    }
    for name in view.of_all if view else ():
        if name not in _MANY:
            own = [choice for choice in listed[name] if choice["value"] not in (EACH_BEST, " ")]
            listed[name] = [{"value": " ", "label": "all"}, *own]
    return listed


def _label(word: str, start: int) -> str:
    """A choice in what differs from the others: `core` of `freezebench-core`."""
    return (word if word == EVERYTHING else word[start:]).replace("_", " ")


def _common_start(names: Sequence[str]) -> str:
    """What all names begin with, to the end of a word; empty for a single one. The sweep of all trials is no name."""
    mine = [name for name in names if name != EVERYTHING]
    same = takewhile(lambda letters: len({*letters}) == 1, zip(*mine, strict=False)) if len(mine) > 1 else ()
    start = "".join(letters[0] for letters in same)
    return start[: 1 + max(start.rfind(end) for end in "-_. /")]


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
