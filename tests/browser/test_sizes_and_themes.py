"""Every page at three sizes, dark and light: nothing serious for axe, no wider than the screen, legible axes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from tests.browser.every_page import SIZES, paths
from tests.browser.harness import axe, serving, watching
from tests.dashboards.stores import specs, write_store
from tests.examples import first

pytestmark = pytest.mark.browser

SCREENS = [*zip(reversed(SIZES), ("dark", "light", "dark"), strict=True)]
# What is wrong with the texts of a page's figures: too small, or on top of another label of the same axis.
_ILLEGIBLE = """() => {
    const found = [];
    document.querySelectorAll('.js-plotly-plot').forEach((plot) => {
        const part = (plot.closest('[data-part]') || {dataset: {part: 'figure'}}).dataset.part;
        plot.querySelectorAll('text').forEach((text) => {
            if (text.textContent.trim() && parseFloat(getComputedStyle(text).fontSize) < 10)
                found.push(`${part}: '${text.textContent}' is smaller than 10 px`);
        });
        for (const axis of ['x', 'x2', 'x3', 'y', 'y2', 'y3', 'y4']) {
            const ticks = [...plot.querySelectorAll(`.${axis}tick text`)].filter((text) => text.textContent.trim());
            const boxes = ticks.map((text) => text.getBoundingClientRect());
            boxes.forEach((box, n) => boxes.slice(n + 1).forEach((other, k) => {
                const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
                const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
                if (wide > 1 && high > 3)
                    found.push(`${part}: '${ticks[n].textContent}' over '${ticks[n + k + 1].textContent}'`);
            }));
        }
    });
    return found;
}"""
# The colours of the grid of trials, as brightness from 0 to 255.
_GRID = """() => [...document.querySelectorAll('.ag-root-wrapper, .ag-header, .ag-row')].map((part) => {
    const colour = getComputedStyle(part).backgroundColor.match(/[\\d.]+/g).map(Number);
    return colour.length > 3 && colour[3] < 0.5 ? null : Math.max(...colour.slice(0, 3));
}).filter((light) => light !== null)"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The address of every page."""
    frames = Frames(write_store(tmp_path_factory.mktemp("sizes") / "store", specs(embeddings=(False, True))))
    with serving(make_app(frames)) as url:
        yield [f"{url.rstrip('/')}{path}" for path in paths(frames.refresh())]


def _faults(page: Page, width: int) -> list[str]:
    wide = page.evaluate("document.documentElement.scrollWidth")
    return [*axe(page), *page.evaluate(_ILLEGIBLE), *([f"{wide} px wide"] if wide > width else [])]


@pytest.mark.parametrize("screen", first(1, SCREENS))
def test_every_page_is_fit_to_be_seen(pages: list[str], browser: Browser, screen: tuple[tuple[int, int], str]) -> None:
    size, scheme = screen
    with watching(browser, viewport={"width": size[0], "height": size[1]}, color_scheme=scheme) as watched:
        found = {address: _faults(watched.open(address), size[0]) for address in pages}
    assert {address: faults for address, faults in found.items() if faults} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_grid_of_trials_has_the_colours_of_the_page(pages: list[str], browser: Browser, scheme: str) -> None:
    with watching(browser, color_scheme=scheme) as watched:
        page = watched.open(next(address for address in pages if address.endswith("/trials")))
        shades = page.evaluate(_GRID)
    assert len(shades) > 1
    assert all(shade < 80 if scheme == "dark" else shade > 200 for shade in shades)
