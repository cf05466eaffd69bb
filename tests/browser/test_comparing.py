"""Picked trials side by side, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from orchestrator.store import ResultStore
from tests.browser.harness import Watched, drawn, serving, wait_until_drawn
from tests.dashboards.stores import specs, write_store

pytestmark = pytest.mark.browser

TRIALS = specs(train_sizes=(800,))
TWO = ",".join(spec.trial_id for spec in TRIALS[:6:3])  # of one seed


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return write_store(tmp_path_factory.mktemp("comparing") / "store", TRIALS)


@pytest.fixture(scope="module")
def url(store: ResultStore) -> Iterator[str]:
    with serving(make_app(Frames(store))) as address:
        yield address.rstrip("/")


def test_ticked_trials_go_into_the_address_and_are_compared(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/trials")
    expect(page.get_by_text("Tick two to six trials")).to_be_visible()
    for trial in TWO.split(","):
        page.locator(".ag-row", has=page.locator(f'a[href*="{trial}"]')).get_by_role("checkbox").click()
    page.wait_for_url(f"**/trials?trials={TWO}")
    expect(page.get_by_text("2 trials ticked.")).to_be_visible()
    page.get_by_role("link", name="Compare", exact=True).last.click()
    page.wait_for_url(f"**/compare?trials={TWO}")
    wait_until_drawn(page)
    expect(page.get_by_text("yes, by seed")).to_be_visible()
    expect(page.get_by_text("freeze.layers")).to_be_visible()
    assert len([t for t in drawn(page, '[data-part="compare-curves"]') if t["mode"] == "lines+markers"]) == 4


def test_ticks_are_as_the_address_says_and_back_unticks(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/trials?trials={TWO}")
    ticked = page.locator(".ag-row input:checked")
    expect(ticked).to_have_count(2)
    page.locator(".ag-row input[type=checkbox]").nth(1).click()
    page.wait_for_url("**/trials?trials=*,*,*")
    page.go_back()
    expect(ticked).to_have_count(2)


def test_a_comparison_without_trials_says_once_where_to_pick_them(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/compare?trials=nonsense")
    expect(page.get_by_text("This store has no trial 'nonsense'").filter(visible=True)).to_have_count(1)
    page.get_by_role("link", name="Open Trials").click()
    page.wait_for_url("**/trials*")


def test_trials_are_searched_and_grouped_and_one_click_compares_with_the_baseline(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/trials")
    rows = page.locator(".ag-center-cols-container .ag-row")
    page.locator("#control-find").fill("first 2")
    page.wait_for_url("**/trials?find=first+2")
    expect(rows).to_have_count(sum(spec.freeze.label == "first 2" for spec in TRIALS))
    page.get_by_role("link", name="with baseline").first.click()
    page.wait_for_url("**/compare?*")
    expect(page.get_by_text("yes, by seed")).to_be_visible()
    page = watched.open(f"{url}/trials?group=freeze")
    expect(rows).to_have_count(len({spec.freeze.label for spec in TRIALS}))
    expect(page.get_by_role("columnheader", name="mean dev accuracy")).to_be_visible()
