"""What every browser test needs: a served app, a page that is watched, what Plotly has drawn, what axe finds.

Write a test like this:

    def test_a_filter_changes_the_bars(served: Served, watched: Watched) -> None:
        page = watched.open(served(make_app(store)))
        page.get_by_role("option", name="first_k").click()
        wait_until_drawn(page)
        assert [trace["name"] for trace in drawn(page, "#bars")] == ["first_k"]

Give `page.wait_for_function` a function, `"() => ..."`: an expression is evaluated anew at each look, which the policy
forbids.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import dash
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, WebError

from dashboards.serving.access import Access
from dashboards.serving.server import Listening

CHROMIUM_VARIABLE = "PERMAFROST_CHROMIUM"  # the browser's path
REQUIRED_VARIABLE = "PERMAFROST_REQUIRE_BROWSER"  # "1": no browser is a failure, not a skip
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    # No name of another machine is found: a request that slips out ends here, and the watcher tells of it.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)  # fmt: skip
PATIENCE_MS = 30_000

Served = Callable[[dash.Dash], str]


def chromium() -> str:
    """The distribution's Chromium or Chrome; Playwright's own downloads are not used.

    Without one the test that asks is skipped, or fails where the environment says that there must be one (CI).
    """
    named = os.environ.get(CHROMIUM_VARIABLE)
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    path = named or next(filter(None, found), None)
    if path is None:
        absent = f"no Chromium: install the distribution's (apt-get install chromium) or set {CHROMIUM_VARIABLE}"
        if os.environ.get(REQUIRED_VARIABLE) == "1":
            pytest.fail(absent)
        pytest.skip(absent)
    return path


@contextmanager
def serving(app: dash.Dash, access: Access | None = None) -> Iterator[str]:
    """The address of the app, served as users get it, policy and all, on a free port of loopback."""
    with Listening(app, access or Access(port=0)) as server:
        yield server.url


class Watched:
    """A page in a context of its own (cookies, cache), and everything that must not happen in it.

    These end a test in failure, whatever it asserts, unless it said `expects`: a line of level error on the console
    (a breach of the Content-Security-Policy is one), an exception in the page, a request to any other origin than the
    first page's, an answer of 400 or more.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self._origin = ""
        self._alarms: list[str] = []
        self._expected: list[str] = []
        context.add_init_script("performance.setResourceTimingBufferSize(100000)")  # `wait_until_drawn` looks there
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        self.page: Page = context.new_page()

    def visit(self, url: str, *, wait_until: Literal["commit", "load"] = "load") -> Page:
        """Go to an address, of an app or not. Other origins are external from here on."""
        self._origin = _origin(url)
        self.page.goto(url, wait_until=wait_until)
        return self.page

    def open(self, url: str) -> Page:
        """Go to an app's address and wait until all is drawn."""
        self.visit(url)
        wait_until_drawn(self.page)
        return self.page

    def expects(self, pattern: str) -> None:
        """Allow, and require, an alarm in which the regular expression is found."""
        self._expected.append(pattern)

    def check(self) -> None:
        """Raise AssertionError for alarms nobody expected, and for expected ones that did not come."""
        for page in self.context.pages:
            page.evaluate("0")  # what was on its way has come when this is answered
        alarms = [alarm for alarm in self._alarms if not any(re.search(p, alarm) for p in self._expected)]
        missing = [p for p in self._expected if not any(re.search(p, alarm) for alarm in self._alarms)]
        told = alarms + [f"expected, but did not happen: {pattern}" for pattern in missing]
        if told:
            raise AssertionError("the page was not clean:\n" + "\n".join(told))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.check()
        except AssertionError as found:
            if error is None:
                raise
            error.add_note(str(found))  # perhaps why the test failed
        finally:
            self.context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "assert"):
            self._alarms.append(f"console {message.type}: {message.text} ({message.location['url']})")

    def _on_error(self, error: WebError) -> None:
        self._alarms.append(f"page error: {error.error}")

    def _on_request(self, request: Request) -> None:
        scheme = urlsplit(request.url).scheme
        if scheme not in ("data", "blob", "about") and _origin(request.url) != self._origin:
            self._alarms.append(f"external request: {request.method} {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._alarms.append(f"status {response.status}: {response.request.method} {response.url}")


def watching(browser: Browser, **options: Any) -> Watched:
    """A watched page; `options` are Playwright's for a context (viewport, colour scheme, ...)."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    return Watched(context)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


SETTLED = """() => {
    const state = window.store && window.store.getState();
    if (!state || state.layoutRequest.status !== 200 || state.dependenciesRequest.status !== 200) return false;
    const {requested, prioritized, blocked, executing, watched, executed, stored} = state.callbacks;
    const waiting = [requested, prioritized, blocked, executing, watched, executed, stored].some(part => part.length);
    const asked = document.querySelector('[data-part][aria-busy=true]'); // parts of a page are asked for one by one
    const graphs = [...document.querySelectorAll('.dash-graph')];
    const painted = graphs.every(graph => {
        const plot = graph.querySelector('.js-plotly-plot');
        return plot && plot._fullData && plot.querySelector('.main-svg') && !plot._transitioning;
    });
    const filled = [...document.querySelectorAll('.ag-root')].every(grid => {
        const headers = grid.querySelectorAll('.ag-header-row').length;
        const row = grid.querySelector('.ag-row:not(.ag-row-loading)');
        return headers && (grid.getAttribute('aria-rowcount') <= headers || row);
    });
    // Dash fetches the larger components when they first appear, and shows nothing in their place until then.
    const here = [...document.scripts].every(part => !part.src || performance.getEntriesByName(part.src).length);
    return !waiting && !asked && !state.isLoading && painted && filled && here;
}"""


def wait_until_drawn(page: Page, *, timeout_ms: float = PATIENCE_MS) -> None:
    """Wait until no callback waits or runs, every graph is drawn, and this was still so two frames later."""
    page.wait_for_function(
        f"""() => {{
            const settled = {SETTLED};
            const frame = () => new Promise(requestAnimationFrame);
            return settled() && frame().then(frame).then(settled);
        }}""",
        timeout=timeout_ms,
    )


_DRAWN = """element => {
    const plot = element.matches('.js-plotly-plot') ? element : element.querySelector('.js-plotly-plot');
    if (!plot || !plot._fullData) return null;
    const plain = value => {
        if (ArrayBuffer.isView(value)) return Array.from(value);
        if (Array.isArray(value)) return value.map(plain);
        if (value === null || typeof value !== 'object') return typeof value === 'function' ? undefined : value;
        if (value instanceof Date) return value.toISOString();
        return Object.fromEntries(Object.entries(value).filter(([name]) => !name.startsWith('_'))
            .map(([name, inner]) => [name, plain(inner)]));
    };
    return plot._fullData.map(plain);
}"""


def drawn(page: Page, selector: str) -> list[dict[str, Any]]:
    """The traces of a figure as Plotly drew them, defaults filled in: `type`, `name`, `x`, `y`, `marker`, ...

    Args:
        page: With the figure.
        selector: Of the graph or of anything around it, e.g. `#bars`; the first figure inside counts.
    """
    traces: list[dict[str, Any]] | None = page.locator(selector).first.evaluate(_DRAWN)
    assert traces is not None, f"{selector} holds no drawn figure"
    return traces


def axe(page: Page) -> list[str]:
    """What axe finds that is serious or critical, a line an element: rule, impact, element, reason.

    The script goes in over the debugger's connection, which a Content-Security-Policy does not bind, and fetches
    nothing (`preload: false`): the page under test stays as it is served.
    """
    page.evaluate(AXE_SCRIPT)
    result = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")
    return [
        f"{rule['id']} ({rule['impact']}) {node['target']}: {rule['help']}"
        for rule in result["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
