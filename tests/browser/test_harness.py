"""Each alarm of the watcher goes off, and a clean page passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dash
import dash_ag_grid
import dash_mantine_components as dmc
import pytest
from dash import Input, Output, dcc, html
from playwright.sync_api import Browser

from tests.browser.harness import Served, Watched, axe, chromium, drawn, wait_until_drawn, watching

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
def test_another_server_of_this_machine_is_external_too(browser: Browser, served: Served) -> None:
    mine, other = served(small_app()), served(small_app())
    told = alarm_of(browser, mine, f"fetch('{other}', {{mode: 'no-cors'}}).catch(() => 0)", bypass_csp=True)
    assert f"external request: GET {other}" in told


@pytest.mark.browser
def test_an_expected_alarm_passes(served: Served, watched: Watched) -> None:
    watched.expects("console error: as planned")
    watched.open(served(small_app())).evaluate("console.error('as planned')")
    watched.check()
    assert len(watched._alarms) == 1


@pytest.mark.browser
def test_an_expected_alarm_that_does_not_come_fails(browser: Browser, served: Served) -> None:
    with watching(browser) as watched:
        watched.open(served(small_app()))
        watched.expects("status 404")
        with pytest.raises(AssertionError, match="did not happen: status 404"):
            watched.check()
        watched.page.evaluate("fetch('/_dash-component-suites/nobody/nothing.js')")
        watched.expects("console error: Failed to load resource")


@pytest.mark.browser
def test_drawn_gives_traces_as_plain_data(served: Served, watched: Watched) -> None:
    bars, dots = drawn(watched.open(served(small_app(graph()))), "#bars")
    assert (bars["type"], bars["name"], bars["x"], bars["y"]) == ("bar", "first_k", [0, 2, 4], [0.9, 0.88, None])
    assert dots["marker"]["symbol"] == "diamond"


@pytest.mark.browser
def test_waiting_outlasts_a_callback(served: Served, watched: Watched) -> None:
    app = small_app(html.Button("Draw", id="draw"), graph("late"))

    @app.callback(Output("late", "figure"), Input("draw", "n_clicks"), prevent_initial_call=True)  # type: ignore[untyped-decorator]
    def redraw(clicks: int) -> dict[str, Any]:
        return {"data": [{"type": "bar", "x": [1], "y": [clicks]}]}

    page = watched.open(served(app))
    page.get_by_role("button", name="Draw").click()
    wait_until_drawn(page)
    assert [trace["y"] for trace in drawn(page, "#late")] == [[1]]


@pytest.mark.browser
def test_axe_passes_a_labelled_control_and_finds_an_unlabelled_one(served: Served, watched: Watched) -> None:
    labelled = dmc.Select(label="Corpus", data=["a", "b"], value="a")
    assert axe(watched.open(served(small_app(labelled)))) == []
    findings = axe(watched.open(served(small_app(dcc.Input(type="text")))))
    assert [finding.partition(" ")[0] for finding in findings] == ["label"]


@pytest.mark.browser
def test_a_grid_is_waited_for(served: Served, watched: Watched) -> None:
    grid = dash_ag_grid.AgGrid(rowData=[{"depth": depth} for depth in range(5)], columnDefs=[{"field": "depth"}])
    page = watched.open(served(small_app(grid)))
    assert page.get_by_role("gridcell").all_inner_texts() == ["0", "1", "2", "3", "4"]


def test_the_browser_is_the_one_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMAFROST_CHROMIUM", "/somewhere/chromium")
    assert chromium() == "/somewhere/chromium"


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_no_browser_is_a_skip_or_where_required_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.delenv("PERMAFROST_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PERMAFROST_REQUIRE_BROWSER", required)
    with pytest.raises(outcome, match="no Chromium"):
        chromium()
