"""Notes in a real browser: written on a page, shown to everybody, and refused where the dashboard only reads."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboards.app.app import make_app
from dashboards.data.frames import Frames
from orchestrator.store import ResultStore
from orchestrator.store.notes import notes_in, remove_note, write_note
from tests.browser.harness import Served, Watched, axe, wait_until_drawn, watching
from tests.dashboards.stores import specs, write_store

pytestmark = pytest.mark.browser

TRIALS = specs(seeds=(0, 1), train_sizes=(200,))
ID, SIBLING, OTHER = (TRIALS[n].trial_id for n in (0, 1, 2))
NASTY = "</script><img src=x onerror=alert(1)>[a](javascript:alert(2))"


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return write_store(tmp_path / "store", TRIALS)


def _write(page: Page, text: str, labels: str = "", *, setting: bool = False) -> None:
    page.get_by_label("New note").fill(text)
    page.get_by_label("Labels, separated by commas").fill(labels)
    if setting:
        page.get_by_label("About the setting").check()
    page.get_by_role("button", name="Save note").click()
    page.get_by_role("status").get_by_text("Saved.").wait_for()


def test_a_note_is_written_and_appears_for_another_visitor_and_in_the_grid(
    store: ResultStore, served: Served, watched: Watched, browser: Browser
) -> None:
    address = served(make_app(Frames(store, takes_notes=True)))
    with watching(browser) as second:
        other = second.open(f"{address}trial/{SIBLING}")
        page = watched.open(f"{address}trial/{ID}")
        _write(page, NASTY, "odd, rerun", setting=True)
        for each in (page, other):  # the other one sits on the page of another seed
            each.get_by_text(NASTY).wait_for()
            each.get_by_text("[odd] [rerun]").wait_for()
    expect(page.get_by_label("New note")).to_have_value("")
    page.get_by_role("link", name="Trials", exact=True).click()
    wait_until_drawn(page)
    expect(page.locator(".ag-cell[col-id=notes]", has_text=NASTY)).to_have_count(2)
    expect(page.locator('[data-part="trials-notes"]').get_by_text("odd, rerun")).to_be_visible()


def test_the_grid_is_filtered_by_label(store: ResultStore, served: Served, watched: Watched) -> None:
    write_note(store, ID, "text", ["odd"])
    page = watched.open(f"{served(make_app(Frames(store)))}trials")
    page.locator(".ag-header-cell[col-id=notes] [data-ref=eFilterButton]").click()
    page.locator(".ag-filter input[type=text]").first.fill("[odd]")
    page.wait_for_function("() => document.querySelectorAll('.ag-center-cols-container .ag-row').length === 1")
    wait_until_drawn(page)
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(1)


def test_a_note_that_is_removed_elsewhere_disappears(store: ResultStore, served: Served, watched: Watched) -> None:
    note = write_note(store, ID, "not for long")
    page = watched.open(f"{served(make_app(Frames(store)))}trial/{ID}")
    expect(page.get_by_text("not for long")).to_be_visible()
    remove_note(store, note)
    page.get_by_text("No note on this trial or its setting yet.").wait_for()


def test_what_is_wrong_with_a_note_is_said_and_the_words_stay(
    store: ResultStore, served: Served, watched: Watched
) -> None:
    page = watched.open(f"{served(make_app(Frames(store, takes_notes=True)))}trial/{ID}")
    page.get_by_label("New note").fill("kept")
    page.get_by_label("Labels, separated by commas").fill("x" * 41)
    page.get_by_role("button", name="Save note").click()
    page.get_by_role("status").get_by_text("is longer than 40 characters").wait_for()
    expect(page.get_by_label("New note")).to_have_value("kept")
    assert len(store.notes()) == 0


def test_the_form_has_labels_contrast_and_room_on_a_phone(store: ResultStore, served: Served, browser: Browser) -> None:
    write_note(store, ID, "first", ["odd"])
    with watching(browser, viewport={"width": 390, "height": 844}, color_scheme="dark") as watched:
        page = watched.open(f"{served(make_app(Frames(store, takes_notes=True)))}trial/{ID}")
        assert [found for found in axe(page) if "note" in found or "button" in found] == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_a_dashboard_that_only_reads_has_no_form_and_refuses_notes(
    store: ResultStore, served: Served, watched: Watched
) -> None:
    writes, reads = (make_app(Frames(store, takes_notes=takes)) for takes in (True, False))
    open_, closed = served(writes), served(reads)
    sent = list[str]()
    page = watched.open(f"{open_}trial/{ID}")
    page.on("request", lambda request: sent.append(request.post_data or ""))
    _write(page, "allowed")
    body = next(body for body in sent if "note-save" in body and "allowed" in body)
    page = watched.open(f"{closed}trial/{ID}")
    expect(page.get_by_text("allowed")).to_be_visible()
    expect(page.get_by_role("button", name="Save note")).to_have_count(0)
    assert "This dashboard only reads." in _post(closed, body.replace("allowed", "forged"))
    assert [note.text for note in notes_in(store.notes())] == ["allowed"]
    # A trial that is none, another site, and values of other types.
    assert "no such trial" in _post(open_, body.replace(ID, "0" * 16))
    assert _refused(open_, body, Origin="http://evil.example") == HTTPStatus.FORBIDDEN
    assert _refused(open_, body.replace('"allowed"', '{"a": 1}')) == HTTPStatus.BAD_REQUEST
    assert len(store.notes()) == 1


def _post(address: str, body: str, **headers: str) -> str:
    given = {"Content-Type": "application/json", **headers}
    with urlopen(Request(f"{address}_dash-update-component", body.encode(), given)) as answer:
        return json.dumps(json.load(answer))


def _refused(address: str, body: str, **headers: str) -> int:
    with pytest.raises(HTTPError) as refused:
        _post(address, body, **headers)
    refused.value.close()
    return refused.value.code
