"""Callback requests that no page sends are bad requests, whatever output they name and whatever values they carry."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from orchestrator.store import open_store
from tests.dashboards.serving.visitors import CALLBACK, changed_to, one_visitor, visitor
from tests.examples import each

STATE = {"path": "/trials", "search": "", "scheme": "light"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@functools.cache
def dashboard() -> Client:
    return visitor(app=make_app(Frames(open_store(Path(mkdtemp()), must_exist=False))))


def rows_request(value: object, state: object = STATE) -> dict[str, Any]:
    """The request of the grid of trials."""
    inputs = [{"id": "trials-grid", "property": "getRowsRequest", "value": value}]
    outputs = {"id": "trials-grid", "property": "getRowsResponse"}
    given = [{"id": "state", "property": "data", "value": state}]
    changed = ["trials-grid.getRowsRequest"]
    return {
        "output": "trials-grid.getRowsResponse", "outputs": outputs, "inputs": inputs, "changedPropIds": changed,
        "state": given,
    }  # fmt: skip


def page_request(state: object) -> dict[str, Any]:
    """The request of a page."""
    outputs = [("page", "children"), ("controls", "className"), ("rendered", "data")]
    return {
        "output": "..page.children...controls.className...rendered.data..",
        "outputs": [{"id": name, "property": of} for name, of in outputs],
        "inputs": [{"id": "path", "property": "data", "value": "/trials"}],
        "changedPropIds": ["path.data"],
        "state": [{"id": "state", "property": "data", "value": state}],
    }


def test_a_page_is_answered() -> None:
    assert dashboard().post(CALLBACK, json=page_request(STATE)).status_code == 200
    rows = {"startRow": 0, "endRow": 9, "sortModel": [{"colId": "seed", "sort": "asc"}]}
    assert dashboard().post(CALLBACK, json=rows_request(rows)).status_code == 200


@each(
    "change",
    [
        {"output": "nothing.here"},
        {"output": ["out.children"]},
        {"output": "kept.data"},  # a callback that runs in the browser
        {"outputs": {"id": "page", "property": "children"}},
        {"outputs": None},
        {"inputs": []},
        {"inputs": [{"id": "in", "property": "style", "value": 1}]},
        {"inputs": [{"id": {"a": 1}, "property": "value"}]},
        {"inputs": [[]]},
        {"state": [{"id": "in", "property": "value"}]},
        {"changedPropIds": [{}]},
        {"changedPropIds": "in.value"},
    ],
)
def test_a_request_that_names_something_else_is_bad(change: dict[str, Any]) -> None:
    assert one_visitor().post(CALLBACK, json=changed_to("7") | change).status_code == 400


@each("value", [5, [], "x", {"startRow": "a"}, {"filterModel": {"seed": 5}}, {"sortModel": [5]}])
def test_values_that_the_grid_does_not_send_are_bad(value: object) -> None:
    assert dashboard().post(CALLBACK, json=rows_request(value)).status_code == 400


@given(state=JSON)
def test_a_state_that_is_none_is_bad(state: object) -> None:
    assert dashboard().post(CALLBACK, json=page_request(state)).status_code == 400


@given(part=st.sampled_from(["output", "outputs", "inputs", "state", "changedPropIds"]), value=JSON)
def test_no_forged_request_is_a_failure_of_the_server(part: str, value: object) -> None:
    with_part = rows_request({}) | {part: value}
    assert dashboard().post(CALLBACK, json=with_part).status_code in (400, 200)


def test_a_bad_request_leaves_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    dashboard().post(CALLBACK, json=rows_request(5))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
