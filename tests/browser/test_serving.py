"""What the token means in a real browser: nobody who has it is locked out."""

from __future__ import annotations

import dash
import pytest
from dash import html
from playwright.sync_api import Browser, expect

from dashboards.serving.access import Access
from tests.browser.harness import axe, serving, wait_until_drawn, watching

pytestmark = pytest.mark.browser

TOKEN = "correct-horse-battery-staple"


def plain_app() -> dash.Dash:
    app = dash.Dash(__name__, use_pages=False)
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    app.layout = html.Main(html.H1("Plain"))
    return app


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_takes_the_token_and_keeps_the_deep_link(browser: Browser, scheme: str) -> None:
    with serving(plain_app(), Access(port=0, token=TOKEN)) as url, watching(browser, color_scheme=scheme) as watched:
        watched.expects("status 401")
        watched.expects("console error: .*401")
        page = watched.visit(f"{url}depth?size=500")
        assert axe(page) == []
        page.get_by_label("Token").fill("wrong wrong wrong wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("This is not the token").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("h1:text('Plain')")
        wait_until_drawn(page)
        assert page.url == f"{url}depth?size=500"


def test_who_comes_by_a_link_from_another_site_gets_in_and_stays_in(browser: Browser) -> None:
    with (
        serving(plain_app()) as elsewhere,
        serving(plain_app(), Access(port=0, token=TOKEN)) as url,
        watching(browser) as watched,
    ):
        watched.expects("external request")  # the way from the one site to the other
        for link in (f"{url}?token={TOKEN}", url):
            page = watched.open(elsewhere.replace("127.0.0.1", "localhost"))  # to a browser another site
            page.evaluate(f"document.querySelector('main').innerHTML = '<a href=\"{link}\">the results</a>'")
            page.get_by_role("link", name="the results").click()
            page.wait_for_url(url)
            expect(page.get_by_role("heading", name="Plain")).to_be_visible()
