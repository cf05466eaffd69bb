"""The first screen: the answer in words at any address, before anything slow; marks, labels and handles in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from dashboards.app.app import make_app
from dashboards.commands.dashboard import DEMO_PAGE, DEMO_STORE
from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery
from orchestrator.store import ResultStore, open_store
from tests.browser.every_page import SCHEMES
from tests.browser.harness import Watched, axe, serving, wait_until_drawn, watching
from tests.dashboards.stores import Invented, specs, write_store
from tests.examples import each

pytestmark = pytest.mark.browser

DEMO = PageQuery(sweep=DEMO_PAGE["sweep"], tolerance=float(DEMO_PAGE["tolerance"]))
FIGURE = '[data-part="answer-losses"]'
CLEAR = Invented(noise=0.001, score=lambda spec: 0.9 - (0.4 if spec.freeze.depth == 6 else 0.001 * spec.freeze.depth))
OPEN = Invented(noise=0.05, score=lambda spec: 0.8)


def _several(folder: Path) -> ResultStore:
    """A sweep that is decided, and a newer one that is not."""
    write_store(folder, specs(seeds=range(5), train_sizes=(400,)), CLEAR, sweep="decided", started=1.7e9)
    return write_store(folder, specs(seeds=range(3), train_sizes=(200,)), OPEN, sweep="undecided", started=1.8e9)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A dashboard of each kind of store."""
    folder = tmp_path_factory.mktemp("first")
    stores = {
        "undecided": write_store(folder / "undecided", specs(seeds=range(3)), OPEN),
        "decided": write_store(folder / "decided", specs(seeds=range(5)), CLEAR),
        "several": _several(folder / "several"),
    }
    apps = {kind: make_app(Frames(store)) for kind, store in stores.items()}
    apps["demo"] = make_app(Frames(open_store(DEMO_STORE)), DEMO)
    with ExitStack() as servers:
        yield {kind: servers.enter_context(serving(app)) for kind, app in apps.items()}


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("demo", "EWT, Naija: freeze the first 2 of 6 layers and the embeddings."),
        ("undecided", "decide"),
        ("several", "Freeze the first 4 of 6 layers. Loses"),
    ],
)
def test_the_first_address_answers_in_words_before_any_figure_table_or_list(
    store: str, words: str, addresses: dict[str, str], watched: Watched
) -> None:
    """Neither plotly.js nor any part is let through before the sentence stands: it waits for nothing slow."""
    page, held = watched.page, list[Route]()
    for slow in ("**/plotly-cartesian-*", "**/part/**", "**/answers.txt*"):
        page.route(slow, lambda route: held.append(route))
    watched.visit(addresses[store], wait_until="commit")
    expect(page.locator(".sentence-first")).to_contain_text(words)
    for place in page.locator(".place:empty, .wide:empty").all():
        assert place.evaluate("(each) => getComputedStyle(each, '::before').content").strip('"')
    assert held
    page.unroute_all()  # lets go what was held
    wait_until_drawn(page)


def test_the_logo_leads_to_the_sweep_with_most_decided_answers(addresses: dict[str, str], watched: Watched) -> None:
    page = watched.open(f"{addresses['several']}scores?sweep=undecided")
    page.locator("#home").click()
    page.wait_for_url("**/?sweep=decided")
    wait_until_drawn(page)
    assert page.locator(".sentence-first").inner_text().startswith("Freeze")


def test_a_click_on_a_mark_opens_the_trials_of_its_setting(addresses: dict[str, str], watched: Watched) -> None:
    page = watched.open(f"{addresses['decided']}?size=800")
    mark = page.locator(f"{FIGURE} .scatterlayer .trace:nth-child(2) .points path").first
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator(f"{FIGURE} .hoverlayer .hovertext").wait_for()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/trials?*")
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(5)


_BOXES = """() => {
    const plot = document.querySelector('[data-part="answer-losses"] .js-plotly-plot');
    const box = (each) => { const b = each.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; };
    return {
        labels: [...plot.querySelectorAll('.textpoint text')].map(box),
        marks: [...plot.querySelectorAll('.points path.point')].map(box),
        handles: [...document.querySelectorAll('.tolerance-line span')].map(box),
        n: Object.keys(plot._fullLayout).filter((key) => /^yaxis[0-9]*$/.test(key)).length,
    };
}"""


def _overlap(one: list[float], other: list[float], slack: float = 1.0) -> bool:
    return (
        one[0] < other[1] - slack
        and other[0] < one[1] - slack
        and one[2] < other[3] - slack
        and other[2] < one[3] - slack
    )


@each("width", [1440, 390])
def test_labels_lie_on_no_mark_and_no_label_and_a_handle_stands_at_each_panel_over_nothing(
    width: int, addresses: dict[str, str], browser: Browser
) -> None:
    with watching(browser, viewport={"width": width, "height": 900}) as watched:
        page = watched.open(addresses["demo"])
        found: dict[str, Any] = page.evaluate(_BOXES)
        assert found["labels"]
        assert not [(a, b) for a in found["labels"] for b in found["marks"] if _overlap(a, b, 3)]
        assert not [(a, b) for a, b in combinations(found["labels"], 2) if _overlap(a, b)]
        assert len(found["handles"]) == found["n"] == 5
        assert not [(a, b) for a in found["handles"] for b in found["marks"] + found["labels"] if _overlap(a, b)]
        assert all(handle[1] <= width for handle in found["handles"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_opened_menu_has_no_serious_finding_of_axe(scheme: str, addresses: dict[str, str], browser: Browser) -> None:
    with watching(browser, color_scheme=scheme) as watched:
        page = watched.open(addresses["several"])
        page.locator(f"{FIGURE} .menu > summary").click()
        page.locator(f"{FIGURE} .menu td").first.wait_for()
        assert axe(page) == []
