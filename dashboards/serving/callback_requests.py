"""Refuses callback requests that no page of the dashboard sends, before Dash interprets them.

Dash takes a request at its word: it looks up whatever output it names and calls the function with whatever inputs come.
Only the form is validated here; the types of the values are those of the functions (`pydantic.validate_call`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dash
from flask import abort, request

_WILDCARDS = (["MATCH"], ["ALL"], ["ALLSMALLER"])


def refuse_forged(app: dash.Dash, path: str) -> Callable[[], None]:
    """A function for Flask's `before_request`: answers a forged callback request with 400."""

    def check() -> None:
        if request.path != path or request.method != "POST":
            return
        try:
            is_valid = _fits(app.callback_map, request.get_json())
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
            is_valid = False
        if not is_valid:
            abort(400)

    return check


def _fits(callbacks: Mapping[str, Any], body: dict[str, Any]) -> bool:
    """Whether a request names an existing callback and its inputs, states and outputs. Raises as indexing does."""
    callback = callbacks[body["output"]]
    outputs = callback["output"]
    several = isinstance(outputs, Sequence)
    declared = [
        {"id": output.component_id_str(), "property": output.component_property}
        for output in (outputs if several else [outputs])
    ]
    changed = body.get("changedPropIds", [])
    return (
        "callback" in callback
        and _all_fit(callback["inputs"], body["inputs"])
        and _all_fit(callback["state"], body.get("state", []))
        and _all_fit(declared, body["outputs"] if several else [body["outputs"]])
        and isinstance(changed, list)
        and all(isinstance(prop_id, str) for prop_id in changed)
    )


def _all_fit(declared: Sequence[Mapping[str, Any]], given: list[Any]) -> bool:
    return (
        isinstance(given, list)
        and len(given) == len(declared)
        and all(_one_fits(*pair) for pair in zip(declared, given, strict=True))
    )


def _one_fits(declared: Mapping[str, Any], given: Any) -> bool:
    """Whether this is the property of the component, or of one that matches its pattern; for ALL a list of those."""
    if isinstance(given, list):
        return "ALL" in declared["id"] and all(_one_fits(declared, item) for item in given)
    if given["property"].partition("@")[0] != declared["property"].partition("@")[0]:
        return False
    if not declared["id"].startswith("{"):
        return bool(given["id"] == declared["id"])
    pattern: dict[str, Any] = json.loads(declared["id"])
    return given["id"].keys() == pattern.keys() and all(
        isinstance(given["id"][key], str) if wanted in _WILDCARDS else given["id"][key] == wanted
        for key, wanted in pattern.items()
    )
