"""What the policy and the token mean in a real browser: nothing of a page is blocked, and nobody is locked out."""

from __future__ import annotations

from pathlib import Path

import dash
import dash_ag_grid
import dash_mantine_components as dmc
import pytest
from dash import Input, Output, dcc, html
from playwright.sync_api import Browser, expect

from dashboards.serving.access import Access
from tests.browser.harness import Served, Watched, axe, drawn, serving, wait_until_drawn, watching

TOKEN = "correct-horse-battery-staple"
GRID = {
    "rowData": [{"depth": depth, "score": depth / 10} for depth in range(30)],
    "columnDefs": [
        {"field": "depth", "filter": "agNumberColumnFilter", "checkboxSelection": True},
        {
            "field": "score",
            "valueFormatter": {"function": "d3.format('.3f')(params.value)"},
            "cellStyle": {"styleConditions": [{"condition": "params.value > 0.15", "style": {"color": "#0072B2"}}]},
        },
    ],
    "dashGridOptions": {"pagination": True, "rowSelection": "multiple"},
}


def rich_app() -> dash.Dash:
    """One of everything that the dashboard is made of."""
    app = dash.Dash(__name__, use_pages=False, title="Rich")
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    controls = [
        dmc.Select(id="size", label="Train size", data=["100", "500"], value="100"),
        dmc.MultiSelect(label="Strategies", data=["first_k", "last_k"], value=["first_k"]),
        dmc.SegmentedControl(id="how", data=["dots", "bars"], value="dots"),
        dmc.Switch(label="Live", checked=True),
        html.Button("CSV", id="csv"),
    ]
    graph = dcc.Graph(id="bars", config={"displaylogo": False, "showSendToCloud": False})
    stores = [dcc.Location(id="url"), dcc.Store(id="kept"), dcc.Download(id="file"), dcc.Interval(id="tick")]
    app.layout = dmc.MantineProvider(
        html.Main([html.H1("Rich"), *controls, graph, dash_ag_grid.AgGrid(**GRID), *stores])
    )

    @app.callback(Output("bars", "figure"), Input("size", "value"))  # type: ignore[untyped-decorator]
    def draw(size: str) -> dict[str, object]:
        return {"data": [{"type": "bar", "x": ["a", "b"], "y": [1, int(size)]}]}

    @app.callback(Output("file", "data"), Input("csv", "n_clicks"), prevent_initial_call=True)  # type: ignore[untyped-decorator]
    def download(_: int) -> dict[str, str]:
        return {"content": "depth,score\n0,0.9\n", "filename": "bars.csv"}

    app.clientside_callback("function (value) { return value; }", Output("kept", "data"), Input("how", "value"))
    return app


def plain_app() -> dash.Dash:
    app = dash.Dash(__name__, use_pages=False)
    app.layout = html.Main(html.H1("Plain"))
    return app


def test_the_policy_blocks_nothing_of_chart_controls_and_grid(served: Served, watched: Watched) -> None:
    page = watched.open(served(rich_app()))
    page.get_by_role("combobox", name="Train size").or_(page.get_by_label("Train size")).first.click()
    page.get_by_role("option", name="500").click()
    wait_until_drawn(page)
    assert drawn(page, "#bars")[0]["y"] == [1, 500]
    expect(page.locator(".ag-cell[col-id=score]").nth(3)).to_have_text("0.300")
    assert page.locator(".ag-cell[col-id=score]").nth(3).evaluate("cell => cell.style.color") == "rgb(0, 114, 178)"
    page.get_by_text("bars", exact=True).click()
    page.get_by_role("columnheader", name="depth").hover()
    page.locator(".ag-header-cell[col-id=depth] [data-ref=eFilterButton]").click()
    page.locator(".ag-filter input[type=number]").first.fill("7")
    page.wait_for_function("() => document.querySelectorAll('.ag-center-cols-container .ag-row').length === 1")


@pytest.mark.browser
def test_a_figure_and_a_file_are_exported_under_the_policy(served: Served, watched: Watched) -> None:
    page = watched.open(served(rich_app()))
    with page.expect_download() as csv:
        page.get_by_role("button", name="CSV").click()
    assert Path(csv.value.path()).read_text() == "depth,score\n0,0.9\n"
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg")):
        with page.expect_download() as figure:
            page.evaluate(f"Plotly.downloadImage(document.querySelector('.js-plotly-plot'), {{format: '{kind}'}})")
        assert Path(figure.value.path()).read_bytes().startswith(start)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_takes_the_token_and_keeps_the_deep_link(browser: Browser, scheme: str) -> None:
    with serving(rich_app(), Access(port=0, token=TOKEN)) as url, watching(browser, color_scheme=scheme) as watched:
        watched.expects("status 401")
        watched.expects("console error: .*401")
        page = watched.visit(f"{url}depth?size=500")
        assert axe(page) == []
        page.get_by_label("Token").fill("wrong wrong wrong wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("This is not the token").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("h1:text('Rich')")
        wait_until_drawn(page)
        assert page.url == f"{url}depth?size=500"


@pytest.mark.browser
def test_who_comes_by_a_link_from_another_site_gets_in(browser: Browser) -> None:
    with (
        serving(plain_app()) as elsewhere,
        serving(plain_app(), Access(port=0, token=TOKEN)) as url,
        watching(browser) as watched,
    ):
        watched.expects("status 401")
        watched.expects("console error: .*401")
        watched.expects("external request")  # the way from the one site to the other
        for link in (f"{url}?token={TOKEN}", url):
            page = watched.open(elsewhere.replace("127.0.0.1", "localhost"))  # to a browser another site
            page.evaluate(f"document.querySelector('main').innerHTML = '<a href=\"{link}\">the results</a>'")
            page.get_by_role("link", name="the results").click()
            page.wait_for_url(url)
            if "token" not in link:
                page.get_by_role("link", name="Open the page").click()
            expect(page.get_by_role("heading", name="Plain")).to_be_visible()


@pytest.mark.browser
def test_no_script_reads_the_cookie(browser: Browser) -> None:
    with serving(plain_app(), Access(port=0, token=TOKEN)) as url, watching(browser) as watched:
        page = watched.visit(f"{url}?token={TOKEN}")
        page.wait_for_selector("h1:text('Plain')")
        assert page.evaluate("document.cookie") == ""
        assert TOKEN not in str(watched.context.cookies())
