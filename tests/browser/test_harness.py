"""The alarms of the watcher go off, and without a browser nothing passes unseen."""

from __future__ import annotations

from pathlib import Path

import dash
import pytest
from dash import html
from playwright.sync_api import Browser

from tests.browser.harness import Served, chromium, watching
from tests.examples import each


@pytest.mark.browser
@each(
    "script, alarm",
    [
        ("console.error('lost the thread')", "console error: lost the thread"),
        ("setTimeout(() => { throw new Error('thrown later') })", "page error: thrown later"),
        ("fetch('/_dash-component-suites/nobody/nothing.js')", "status 404: GET http://127.0.0.1"),
        ("new Promise(r => setTimeout(r, 300, new Image().src = 'http://example.org/x.png'))", "Content Security"),
    ],
)
def test_an_alarm_goes_off(browser: Browser, served: Served, script: str, alarm: str) -> None:
    app = dash.Dash(__name__, use_pages=False)
    app.layout = html.H1("Small")
    with pytest.raises(AssertionError) as caught, watching(browser) as watched:
        watched.open(served(app)).evaluate(f"() => {{ try {{ return {script} }} catch (error) {{}} }}")
    assert alarm in str(caught.value)


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_no_browser_is_a_skip_or_where_required_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.delenv("PERMAFROST_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PERMAFROST_REQUIRE_BROWSER", required)
    with pytest.raises(outcome, match="no Chromium"):
        chromium()
