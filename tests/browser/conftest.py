"""One Chromium for the browser tests of a process, a watched page and a server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import dash
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.harness import FLAGS, PATIENCE_MS, Served, Watched, chromium, serving
from tests.browser.harness import watching as watching_page


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Scope package, not session: while Playwright is started, the main thread has a running event loop, in which the
    `asyncio.run` of any other test would fail.
    """
    path = chromium()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A page that fails the test for what it says on the console, asks elsewhere, or is refused."""
    with watching_page(browser) as page:
        yield page


@pytest.fixture
def served() -> Iterator[Served]:
    """Serves apps until the test ends: `url = served(app)`."""
    with ExitStack() as servers:

        def serve(app: dash.Dash) -> str:
            return servers.enter_context(serving(app))

        yield serve
