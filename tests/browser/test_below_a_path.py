"""The dashboard below a path, behind a real proxy: whatever a page asks for, links to or saves stays below it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from dashboards.serving.access import Access
from dashboards.views.registry import VIEWS
from orchestrator.store import ResultStore
from tests.browser.harness import drawn, serving, wait_until_drawn, watching
from tests.browser.nginx import proxying
from tests.dashboards.stores import Invented, append, specs, write_store

pytestmark = pytest.mark.browser

TRIALS = specs(seeds=range(3), train_sizes=(200, 800))
PATH = "/user/ana/proxy/8050"
TOKEN = "correct-horse-battery-staple"
# How a proxy passes on what comes below PATH, and whether the dashboard is told the prefix by an option.
STRIPS = "location {path}/ {{ proxy_pass http://127.0.0.1:{port}/; }}"
STRIPS_AND_SAYS = (
    "location {path}/ {{ proxy_pass http://127.0.0.1:{port}/; "
    "proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Prefix {path}; }}"
)
KEEPS = "location {path} {{ proxy_pass http://127.0.0.1:{port}; }}"
PROXIES = {"strips and says": (STRIPS_AND_SAYS, ""), "strips": (STRIPS, PATH), "keeps": (KEEPS, f"{PATH}/")}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return write_store(tmp_path_factory.mktemp("below") / "store", TRIALS)


@contextmanager
def behind(kind: str, store: ResultStore, folder: Path, token: str | None = None) -> Iterator[str]:
    """The address of the dashboard behind a kind of proxy, without a slash at its end."""
    location, prefix = PROXIES[kind]
    with serving(make_app(Frames(store)), Access(port=0, token=token, url_prefix=prefix)) as url:
        locations = location.format(path=PATH, port=urlsplit(url).port)
        with proxying(folder, locations) as origin:
            yield origin + PATH


def addresses(page: Page) -> list[str]:
    """Of everything that the page has loaded or links to on its own origin."""
    found: list[str] = page.evaluate(
        """() => [...performance.getEntriesByType('resource').map((each) => each.name),
            ...[...document.querySelectorAll('a[href]')].filter((each) => !each.getAttribute('href').startsWith('#'))
                .map((each) => each.href)].filter((each) => each.startsWith(location.origin))
            .map((each) => each.slice(location.origin.length))"""
    )
    return found


@pytest.mark.parametrize("kind", PROXIES)
def test_pages_links_figures_and_files_stay_below_the_path(
    kind: str, store: ResultStore, tmp_path: Path, browser: Browser
) -> None:
    with behind(kind, store, tmp_path) as url, watching(browser) as watched:
        page = watched.open(f"{url}/scores?size=800")
        assert drawn(page, '[data-part="depth-strip"]')
        expect(page.locator(".views a[data-active]")).to_have_text("Scores")
        for name, start in (("CSV", "trial,"), ("Save this page (HTML)", "<!DOCTYPE html>")):
            if name == "CSV":
                page.locator('[data-part="depth-strip"] .menu > summary').click()
            with page.expect_download() as saved:
                page.get_by_role("link", name=name).first.click()
            assert Path(saved.value.path()).read_text(encoding="utf-8-sig").startswith(start)
        for view in (each for each in VIEWS.values() if each.in_navigation):
            page.locator(".views").get_by_role("link", name=view.title, exact=True).click()
            page.wait_for_url(f"{url}{view.path}?size=800")
            wait_until_drawn(page)
            expect(page.get_by_text("does not exist")).to_have_count(0)
            assert [each for each in addresses(page) if not each.startswith(f"{PATH}/")] == []


def test_a_trial_is_reached_by_grid_and_deep_link_and_a_choice_is_written_below_the_path(
    store: ResultStore, tmp_path: Path, browser: Browser
) -> None:
    with behind("strips", store, tmp_path) as url, watching(browser) as watched:
        page = watched.open(f"{url}/trials")
        page.locator(".ag-cell a").first.click()
        page.wait_for_url(f"{url}/trial/*")
        wait_until_drawn(page)
        expect(page.get_by_role("heading", name="Evaluations")).to_be_visible()
        page = watched.open(f"{url}/trial/{TRIALS[1].trial_id}")
        page.locator(f"a[href^='{PATH}/trial/']").first.click()
        page.wait_for_url(f"{url}/trial/*")
        page = watched.open(f"{url}/scores")
        page.locator("#control-metric").click()
        page.get_by_role("option").nth(1).click()
        page.wait_for_url(f"{url}/scores?metric=*")
        page.go_back()
        page.wait_for_url(f"{url}/scores")


def test_new_rows_come_to_a_page_below_the_path(tmp_path: Path, browser: Browser) -> None:
    live = write_store(tmp_path / "store", TRIALS, Invented(state=lambda spec: None if spec.seed else "completed"))
    with behind("strips and says", live, tmp_path) as url, watching(browser) as watched:
        page = watched.open(f"{url}/scores")
        before = page.locator('[data-part="depth-strip"]').get_by_text("n=1").count()
        append(live, TRIALS, Invented(state=lambda spec: "completed" if spec.seed else None))
        expect(page.locator('[data-part="depth-strip"]').get_by_text("n=3")).to_have_count(before)
