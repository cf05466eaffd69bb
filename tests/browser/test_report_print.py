"""The report on paper: white, A4, with no figure or table that is cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery
from dashboards.report.files import write_report
from dashboards.views.kit.drawing import DARK, LIGHT
from tests.dashboards.stores import STRATEGIES, specs, write_store

pytestmark = pytest.mark.browser

A4_PX = 688  # 210 mm without margins of 14 mm, at 96 pixels an inch
A4_HIGH_PX = 1017  # 297 mm without margins
# What is wider than the page: its right edge, by the element.
WIDE = """() => Array.from(document.querySelectorAll('[data-figure] .main-svg, table, p, h2, figcaption'))
  .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((each) => each.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("print")
    corpora = [{"name": f"corpus {n}", "fingerprint": str(n) * 64} for n in range(2)]
    trials = [spec for data in corpora for spec in specs(seeds=range(4), strategies=STRATEGIES[:4], data=data)]
    assert len(trials) == 64
    store = write_store(folder / "store", trials)
    return write_report(Frames(store), PageQuery(sweep="made-up"), folder / "out", pictures=False).html


def _opened(browser: Browser, report: Path, scheme: str) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(report.as_uri())
    page.wait_for_selector("[data-figure] .main-svg")
    return page


def _paper(page: Page) -> str:
    """Background of the first figure."""
    return str(page.evaluate("document.querySelector('[data-figure]')._fullLayout.paper_bgcolor"))


def test_nothing_is_wider_than_a4_and_paper_is_white_in_the_dark_too(browser: Browser, report: Path) -> None:
    page = _opened(browser, report, "dark")
    dark = _paper(page)
    page.set_viewport_size({"width": A4_PX, "height": 1000})
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(WIDE) == []
    assert (dark, _paper(page)) == (DARK.paper, LIGHT.paper)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.close()


def test_64_trials_are_printed_on_16_pages_with_every_figure_and_all_ends_as_it_was(
    browser: Browser, report: Path
) -> None:
    page = _opened(browser, report, "dark")
    pdf = page.pdf(format="A4", prefer_css_page_size=True)
    assert 5 < len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 16
    assert page.evaluate("document.querySelectorAll('[data-figure]:not([data-drawn])').length") == 0
    assert _paper(page) == DARK.paper
    page.close()


def test_a_figure_stays_on_one_page(browser: Browser, report: Path) -> None:
    page = _opened(browser, report, "light")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    heights = page.evaluate("Array.from(document.querySelectorAll('[data-figure]')).map((each) => each.offsetHeight)")
    rules = page.evaluate(
        "Array.from(document.querySelectorAll('[data-figure], tr')).map((each) => getComputedStyle(each).breakInside)"
    )
    assert max(heights) < A4_HIGH_PX
    assert set(rules) == {"avoid"}
    page.close()
