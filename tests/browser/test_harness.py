"""Each alarm of the watcher goes off, and a clean page passes."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
import pytest
from dash import dcc, html
from playwright.sync_api import Browser

from tests.browser.harness import Served, Watched, axe, watching

FIGURE = {
    "data": [
        {"type": "bar", "name": "first_k", "x": [0, 2, 4], "y": [0.9, 0.88, None]},
        {"type": "scatter", "name": "seed 1", "mode": "markers", "x": [0], "y": [0.5], "marker": {"symbol": "diamond"}},
    ]
}


def small_app(*parts: Any) -> dash.Dash:
    app = dash.Dash(__name__, use_pages=False, title="Small")
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    app.layout = dmc.MantineProvider(html.Main([html.H1("Small"), *parts]))
    return app


def graph(name: str = "bars") -> dcc.Graph:
    return dcc.Graph(id=name, figure=FIGURE, config={"displaylogo": False, "showSendToCloud": False})


def alarm_of(browser: Browser, url: str, script: str, **options: Any) -> str:
    """What the watcher says at the end of a test in whose page the script ran."""
    with pytest.raises(AssertionError) as caught, watching(browser, **options) as watched:
        watched.open(url).evaluate(script)
    return str(caught.value)


@pytest.mark.browser
def test_a_clean_page_passes(served: Served, watched: Watched) -> None:
    page = watched.open(served(small_app(graph())))
    assert page.title() == "Small"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("script", "alarm"),
    [
        ("console.error('lost the thread')", "console error: lost the thread"),
        ("console.assert(false, 'two is not one')", "console assert: two is not one"),
        ("setTimeout(() => { throw new Error('thrown later') })", "page error: thrown later"),
        ("fetch('/_dash-component-suites/nobody/nothing.js')", "status 404: GET http://127.0.0.1"),
        ("new Promise(r => setTimeout(r, 300, new Image().src = 'http://example.org/x.png'))", "Content Security"),
        ("setTimeout(() => { new Function('return 1')() })", "page error: Evaluating a string as JavaScript violates"),
    ],
)
def test_an_alarm_goes_off(browser: Browser, served: Served, script: str, alarm: str) -> None:
    told = alarm_of(browser, served(small_app()), f"() => {{ try {{ return {script} }} catch (error) {{}} }}")
    assert alarm in told


@pytest.mark.browser
def test_a_request_that_no_policy_stops_is_told_and_goes_nowhere(browser: Browser, served: Served) -> None:
    script = "fetch('http://example.org/x.png').catch(() => 0)"
    told = alarm_of(browser, served(small_app()), script, bypass_csp=True)
    assert "external request: GET http://example.org/x.png" in told
    assert "ERR_NAME_NOT_RESOLVED" in told


@pytest.mark.browser
def test_an_expected_alarm_passes(served: Served, watched: Watched) -> None:
    watched.expects("console error: as planned")
    watched.open(served(small_app())).evaluate("console.error('as planned')")
    watched.check()
    assert len(watched._alarms) == 1


@pytest.mark.browser
def test_axe_passes_a_labelled_control_and_finds_an_unlabelled_one(served: Served, watched: Watched) -> None:
    labelled = dmc.Select(label="Corpus", data=["a", "b"], value="a")
    assert axe(watched.open(served(small_app(labelled)))) == []
    findings = axe(watched.open(served(small_app(dcc.Input(type="text")))))
    assert [finding.partition(" ")[0] for finding in findings] == ["label"]
