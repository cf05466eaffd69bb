"""What the dashboard promises, each in a real browser: see docs/pages/howto/dashboard.md."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboards.app.app import make_app
from dashboards.app.shell import NAMES, TICK_MS
from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery
from dashboards.report.files import write_report
from dashboards.views.kit.drawing import DARK, LIGHT
from dashboards.views.registry import VIEWS
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan
from tests.browser.every_page import SIZES
from tests.browser.harness import Served, Watched, axe, drawn, serving, wait_until_drawn, watching
from tests.dashboards.stores import START, Invented, append, specs, write_store
from tests.examples import each

pytestmark = pytest.mark.browser

TRIALS = specs(seeds=range(5))
DOTS = '[data-part="depth-strip"]'
MENU = ".menu > summary"
PLOT = f"{DOTS} .js-plotly-plot"
_N_DOTS = """([plot, n]) => document.querySelector(plot)._fullData.flatMap((trace) => trace.customdata || [])
    .filter((point) => point.length === 4).length === n"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return write_store(tmp_path_factory.mktemp("must") / "store", TRIALS)


@pytest.fixture(scope="module")
def url(store: ResultStore) -> Iterator[str]:
    with serving(make_app(Frames(store))) as address:
        yield address.rstrip("/")


def _dots(page: Page) -> list[str]:
    """The trial of every dot."""
    return [point[0] for trace in drawn(page, DOTS) if trace["type"] == "scatter" and trace["mode"] == "markers"
            for point in trace.get("customdata") or [] if len(point) == 4]  # fmt: skip


# --- 1 to 3: dots, differences, coverage


def test_every_dot_is_one_trial_and_the_mean_stands_beside_them(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores")
    assert sorted(_dots(page)) == sorted(spec.trial_id for spec in TRIALS)
    mean = next(trace for trace in drawn(page, DOTS) if trace["name"].startswith("mean"))
    assert len(mean["x"]) == 5
    expect(page.locator(DOTS).get_by_text("n=5")).to_have_count(2)


def test_the_coverage_grid_tells_every_state_and_figures_say_what_is_incomplete(
    tmp_path: Path, served: Served, watched: Watched
) -> None:
    states = {0: "completed", 1: "completed", 2: "completed", 3: "failed", 4: None}
    frames = Frames(write_store(tmp_path / "store", TRIALS, Invented(state=lambda spec: states[spec.seed])))
    address = served(make_app(frames))
    page = watched.open(address)
    assert page.locator('[data-part="overview-coverage"] .js-plotly-plot').count() == 0
    page.get_by_text("Every trial, by setting and seed").click()
    page.locator('[data-part="overview-coverage"] .heatmaplayer image').wait_for()
    field = drawn(page, '[data-part="overview-coverage"]')[0]
    assert field["text"][0] == ["✓", "✓", "✓", "✗", "○"]
    expect(page.get_by_text("30 of 50 planned trials have completed")).to_be_visible()
    page.get_by_role("link", name="Scores").click()
    wait_until_drawn(page)
    expect(page.get_by_text("30 of 50 planned trials have completed")).to_be_visible()


# --- 4 and 6: choose, devices


LINE, HANDLE = ".tolerance-line", ".tolerance-line span"


def _tolerance(page: Page) -> float:
    return float(page.locator(LINE).first.get_attribute("aria-valuenow") or "nan")


def test_the_tolerance_is_dragged_and_the_address_and_the_control_follow(url: str, watched: Watched) -> None:
    page = watched.open(url)
    box = page.locator(HANDLE).first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 8, box["y"] - 40, steps=4)
    page.mouse.up()
    page.wait_for_url("**/?tolerance=*")
    wait_until_drawn(page)
    assert _tolerance(page) > 1
    expect(page.locator("#control-tolerance")).to_have_value(f"{_tolerance(page):g}")
    assert page.evaluate(
        "document.querySelector('[data-part=answer-losses] .js-plotly-plot').layout.meta.tolerance"
    ) == (_tolerance(page))


def test_the_tolerance_moves_with_the_keyboard_too(url: str, watched: Watched) -> None:
    page = watched.open(url)
    page.locator(LINE).first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    page.wait_for_url("**/?tolerance=1.3")
    wait_until_drawn(page)
    assert _tolerance(page) == 1.3
    page.go_back()
    expect(page.locator(LINE).first).to_have_attribute("aria-valuenow", "1")


def test_the_report_is_a_button_with_a_dialog(url: str, watched: Watched) -> None:
    page = watched.open(url)
    page.get_by_role("button", name="Report").click()
    dialog = page.get_by_role("dialog", name="Report")
    expect(dialog.locator("code", has_text="permafrost report")).to_be_visible()
    assert axe(page) == []
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


# --- The answer at first glance


@each("size", SIZES)
def test_the_answer_and_its_figure_are_seen_without_scrolling(
    url: str, browser: Browser, size: tuple[int, int]
) -> None:
    with watching(browser, viewport={"width": size[0], "height": size[1]}) as watched:
        page = watched.open(url)
        for place in (".sentence-first", ".js-plotly-plot"):
            box = page.locator(place).first.bounding_box()
            assert box is not None
            assert 0 <= box["y"] <= size[1] / 2
        expect(page.locator(".answer")).to_have_count(2)


def test_a_dark_page_of_trials_is_printed_white_with_all_rows_and_columns_and_no_control(
    url: str, browser: Browser
) -> None:
    with watching(browser, viewport={"width": 1440, "height": 900}, color_scheme="dark") as watched:
        page = watched.open(f"{url}/trials?sort=seed.desc&columns=score,seed,device,train_s")
        page.pdf(format="A4")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 688, "height": 1000})
        table = page.locator("table.on-paper")
        head = table.locator("th").all_inner_texts()
        assert head == ["trial", "dev accuracy (%)", "seed", "training (s)", "device"]
        assert table.locator("tr").count() == 1 + len(TRIALS)
        assert table.locator("tr").nth(1).locator("td").nth(2).inner_text() == "4"
        box = table.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 688
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        for control in ("#trials-grid", ".controls", ".tools", "header", "button"):
            expect(page.locator(control).first).to_be_hidden()


def test_what_a_dark_page_prints_and_saves_is_light(url: str, browser: Browser) -> None:
    paper = f"document.querySelector('{PLOT}')._fullLayout.paper_bgcolor"
    with watching(browser, color_scheme="dark") as watched:
        page = watched.open(f"{url}/scores")
        with page.expect_download() as download:
            page.locator(f"{DOTS} {MENU}").click()
            page.locator(f"{DOTS} button", has_text="SVG").click()
        picture = Path(download.value.path()).read_text(encoding="utf-8")
        assert "rgb(255, 255, 255)" in picture
        assert "rgb(36, 36, 36)" not in picture
        for event, colour in (("beforeprint", LIGHT.paper), ("afterprint", DARK.paper)):
            page.evaluate(f"window.dispatchEvent(new Event('{event}'))")
            assert page.evaluate(paper) == colour


def test_only_controls_that_leave_a_choice_are_shown(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores")
    shown = [name for name in NAMES if page.locator(f".control-{name}").is_visible()]
    assert shown == ["size", "strategy", "metric", "split"]


def test_on_a_phone_filters_open_on_demand(url: str, browser: Browser) -> None:
    with watching(browser, viewport={"width": 390, "height": 844}) as watched:
        page = watched.open(f"{url}/scores")
        expect(page.locator("#control-split")).not_to_be_visible()
        page.get_by_role("button", name="Filters").click()
        expect(page.locator("#control-split")).to_be_visible()


# --- 7: drill-down


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/scores", '[data-part="depth-table"] td'),
        ("/scores", '[data-part="depth-forest"] td'),
        ("/trials", ".ag-cell .strip"),
    ],
)
def test_a_strip_in_a_table_is_seen_and_heard(path: str, place: str, url: str, watched: Watched) -> None:
    page = watched.open(f"{url}{path}")
    if "table" in place:
        page.get_by_text("Mean, median, spread and range of each setting").click()
    if "forest" in place:
        page.get_by_text("Loss of each setting against the baseline, with its interval").click()
    cell = page.locator(place).filter(has_text="□ ■■□□□□").first
    cell.wait_for()
    page.wait_for_function("(found) => found.getAttribute('aria-label')", arg=cell.element_handle())
    assert str(cell.get_attribute("aria-label")).startswith("layers 1 to 2 of 6 frozen")


def test_a_dot_leads_to_its_trial(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores?size=800&strategy=first_k")
    dot = page.locator(f"{DOTS} .scatterlayer .trace .points path").first
    box = dot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator(f"{DOTS} .hoverlayer .hovertext").wait_for()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/trial/*")
    wait_until_drawn(page)
    trial = page.url.rpartition("/")[2].partition("?")[0]
    assert trial in {spec.trial_id for spec in TRIALS}
    for title in ("Evaluations", "Scores by label", "Predictions on dev", "Other seeds of this setting", "Settings"):
        expect(page.get_by_role("heading", name=title)).to_be_visible()
    siblings = page.locator("a[href^='/trial/']")
    expect(siblings).to_have_count(4)


# --- 8: the URL is the only state

DEEP = PageQuery(
    sweep="made-up",
    corpus="pos tiny",
    model="starter",
    size=(800,),
    strategy=("none", "first_k"),
    embeddings="learning",
    metric="macro_f1",
    split="test",
)


def test_a_deep_link_restores_every_control(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores{DEEP.search()}")
    values = {
        name: page.locator(f"#control-{name}").input_value()
        for name in ("corpus", "model", "embeddings", "metric", "split")
    }
    assert values == {
        "corpus": "pos tiny",
        "model": "starter",
        "embeddings": "trained",
        "metric": "macro F1",
        "split": "test",
    }
    expect(page.locator(".control-size .mantine-Pill-label")).to_have_text(["800"])
    expect(page.locator(".control-strategy .mantine-Pill-label")).to_have_text(["none", "first k"])
    expect(page.locator(f"{DOTS} .ytitle")).to_have_text("test macro F1 (%)")


def test_a_control_writes_the_url_and_back_undoes_one_step(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/training")
    _choose(page, "axis", "training time")
    page.wait_for_url("**/training?axis=train_s")
    _choose(page, "axis", "epochs")
    page.wait_for_url("**/training")
    wait_until_drawn(page)
    page.go_back()
    page.wait_for_url("**/training?axis=train_s")
    wait_until_drawn(page)
    expect(page.locator("#control-axis")).to_have_value("training time")
    page.go_back()
    wait_until_drawn(page)
    expect(page.locator("#control-axis")).to_have_value("epochs")


def _choose(page: Page, control: str, option: str) -> None:
    page.locator(f"#control-{control}").click()
    page.get_by_role("option", name=option, exact=True).click()


def test_what_the_url_cannot_mean_is_told(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores?sweep=gone&tolerance=much&nonsense=1")
    for words in ("There is no sweep 'gone' here", "'much' must be a number", "'nonsense'"):
        expect(page.get_by_text(words)).to_be_visible()
    assert len(_dots(page)) == 50


def test_a_page_that_is_not_there_says_so(url: str, watched: Watched) -> None:
    expect(watched.open(f"{url}/nowhere").get_by_text("This page does not exist")).to_be_visible()
    expect(watched.open(f"{url}/trial/..%2F..%2Fetc%2Fpasswd").get_by_text("has no trial")).to_be_visible()


# --- 9: live

_COUNT = """() => { window.drawings = 0; document.querySelectorAll('.js-plotly-plot').forEach(
    (plot) => plot.on('plotly_afterplot', () => { window.drawings += 1; })); }"""
_SINCE = "() => { const found = window.drawings; window.drawings = 0; return found; }"
_HIDDEN = "(plot) => document.querySelector(plot)._fullData.some((trace) => trace.visible === 'legendonly')"


def test_a_new_row_comes_by_itself_and_zoom_and_scroll_stay(tmp_path: Path, served: Served, watched: Watched) -> None:
    half = Invented(state=lambda spec: "completed" if spec.seed < 3 else None)
    live = write_store(tmp_path / "store", TRIALS, half)
    address = served(make_app(Frames(live)))
    page = watched.open(f"{address}scores")
    assert len(_dots(page)) == 30
    page.evaluate("(plot) => window.Plotly.relayout(document.querySelector(plot), {'yaxis.range': [80, 95]})", PLOT)
    page.evaluate("window.scrollTo({top: 300, behavior: 'instant'})")
    before = page.evaluate("window.scrollY")
    append(live, TRIALS, Invented(state=lambda spec: "completed" if spec.seed == 3 else None))
    page.wait_for_function(_N_DOTS, arg=[PLOT, 40])
    assert page.evaluate("(plot) => document.querySelector(plot)._fullLayout.yaxis.range", PLOT) == [
        80,
        95,
    ]
    assert page.evaluate("window.scrollY") == before


def test_a_zoom_on_answer_stays_though_a_row_moves_the_ends_of_its_axes(
    tmp_path: Path, served: Served, watched: Watched
) -> None:
    live = write_store(tmp_path / "store", TRIALS, Invented(state=lambda spec: "completed" if spec.seed < 3 else None))
    page = watched.open(served(make_app(Frames(live))))
    plot = '[data-part="answer-losses"] .js-plotly-plot'
    ends = "(plot) => document.querySelector(plot).layout.yaxis.autorangeoptions.maxallowed"
    page.evaluate("(plot) => window.Plotly.relayout(document.querySelector(plot), {'yaxis.range': [-1, 1]})", plot)
    before = page.evaluate(ends, plot)
    append(live, TRIALS, Invented(state=lambda spec: "completed" if spec.seed == 3 else None))
    page.wait_for_function(f"([plot, before]) => ({ends})(plot) !== before", arg=[plot, before])
    assert page.evaluate("(plot) => document.querySelector(plot)._fullLayout.yaxis.range", plot) == [-1, 1]


def test_a_line_that_was_hidden_stays_so_when_a_row_comes(tmp_path: Path, served: Served, watched: Watched) -> None:
    live = write_store(tmp_path / "store", TRIALS, Invented(state=lambda spec: "completed" if spec.seed < 3 else None))
    page = watched.open(f"{served(make_app(Frames(live)))}training?size=800")
    lines = '[data-part="curves-quality"]'
    name = page.locator(f"{lines} .legendtext").nth(1).text_content()
    page.locator(f"{lines} .legendtoggle").nth(1).click()
    page.wait_for_function(_HIDDEN, arg=f"{lines} .js-plotly-plot")
    append(live, TRIALS, Invented(state=lambda spec: "completed" if spec.seed == 3 else None))
    page.wait_for_function(
        "(plot) => document.querySelector(plot)._fullData.some((trace) => (trace.customdata || [[0]])[0][0] === 4)",
        arg=f"{lines} .js-plotly-plot",
    )
    assert name in {trace["name"] for trace in drawn(page, lines) if trace["visible"] == "legendonly"}


def test_the_sweeps_of_the_store_come_with_their_answers_and_one_that_starts_appears(
    tmp_path: Path, served: Served, watched: Watched
) -> None:
    folder = tmp_path / "store"
    for name, size in (("older", 200), ("newer", 400)):
        live = write_store(folder, specs(train_sizes=(size,)), sweep=name)
    live.add_plan(_plan("newer", START + 60))
    page = watched.open(f"{served(make_app(Frames(live)))}?sweep=newer")
    older = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="older", exact=True))
    older.get_by_text(re.compile("Freeze|Not decided")).wait_for()
    expect(older).to_contain_text(re.compile(r"finished, 15 of 15 trials completed, last row \d+ (days|h|min|s) ago"))
    live.add_plan(_plan("begun", START + 120))
    begun = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="begun", exact=True))
    begun.get_by_text("stopped, 0 of 15 trials completed").wait_for()
    older.get_by_text(re.compile("Freeze|Not decided")).wait_for()


def _plan(name: str, time: float) -> SweepPlan:
    trials = specs(train_sizes=({"newer": 400, "begun": 800}[name],))
    return SweepPlan(name, time, "made-up.yaml", tuple((s.trial_id, s.model_dump(mode="json")) for s in trials))


def test_a_paused_page_stands_still(tmp_path: Path, served: Served, watched: Watched) -> None:
    live = write_store(tmp_path / "store", TRIALS, Invented(state=lambda spec: "completed" if spec.seed < 3 else None))
    address = served(make_app(Frames(live)))
    page = watched.open(f"{address}scores?pause=1")
    append(live, TRIALS, Invented(state=lambda spec: "completed" if spec.seed == 3 else None))
    page.wait_for_timeout(2 * TICK_MS)
    assert len(_dots(page)) == 30
    page.locator("label", has_text="Pause").click()
    page.wait_for_function(_N_DOTS, arg=[PLOT, 40])


def test_an_idle_page_redraws_nothing(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores")
    page.evaluate(_COUNT)
    page.wait_for_timeout(3 * TICK_MS)
    while page.evaluate(_SINCE):  # the last drawings of the page itself, however slow: one that goes on never ends
        page.wait_for_timeout(3 * TICK_MS)
    expect(page.locator("#age")).to_contain_text("last row")


# --- 10: states in words


def test_an_empty_store_names_the_next_command(tmp_path: Path, served: Served, watched: Watched) -> None:
    store = open_store(tmp_path / "store", must_exist=False)
    store.create()
    address = served(make_app(Frames(store)))
    for path in VIEWS:
        page = watched.open(address.rstrip("/") + path)
        expect(page.locator("#age")).to_contain_text("empty store")
    expect(watched.open(address).get_by_text("permafrost launch").first).to_be_visible()


def test_a_broken_part_is_told_and_the_rest_shown(tmp_path: Path, served: Served, watched: Watched) -> None:
    store = write_store(tmp_path / "store", TRIALS)
    (store.root / "epochs" / "part-00000000000000000001-0000000000000000.parquet").write_bytes(b"broken")
    address = served(make_app(Frames(store)))
    page = watched.open(f"{address}scores")
    expect(page.get_by_text("the same launch runs its trials again")).to_be_visible()
    assert len(_dots(page)) == 50


HOSTILE = ["<script>alert(1)</script>", "../a,b&c=d שלום" + "x" * 300]
SHOW_ALL = {path for path, view in VIEWS.items() if "model" in view.of_all}  # models, unless the address names one


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_only_a_name(tmp_path: Path, served: Served, watched: Watched, name: str) -> None:
    trials = specs(seeds=(0, 1, 2), train_sizes=(200,), data={"name": name}, model={"name": name})
    address = served(make_app(Frames(write_store(tmp_path / "store", trials))))
    for path in VIEWS:
        page = watched.open(address.rstrip("/") + path)
        expect(page.locator("#control-model")).to_have_value("all" if path in SHOW_ALL else name)
    assert page.evaluate("document.querySelectorAll('#page script').length") == 0


# --- 11 to 13: offline, keyboard, exports


def test_the_report_opens_from_a_disk_without_a_network(store: ResultStore, tmp_path: Path, browser: Browser) -> None:
    written = write_report(Frames(store), PageQuery(sweep="made-up"), tmp_path / "report", pictures=False)
    with watching(browser) as watched:
        watched.context.set_offline(True)
        page = watched.visit(written.html.as_uri())
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        expect(page.get_by_role("heading", name="Answers")).to_be_visible()
        assert axe(page) == []
    assert written.html.stat().st_size < 2_000_000


def test_a_page_is_saved_with_one_click_and_opens_without_a_network(
    url: str, watched: Watched, browser: Browser, tmp_path: Path
) -> None:
    page = watched.open(f"{url}/scores?size=800")
    with page.expect_download() as saved:
        page.get_by_text("Save this page (HTML)").click()
    saved.value.save_as(tmp_path / "page.html")
    with watching(browser) as alone:
        alone.context.set_offline(True)
        page = alone.visit((tmp_path / "page.html").as_uri())
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        assert axe(page) == []


def test_the_keyboard_alone_reaches_a_trial(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores?size=800")
    page.locator(f"{DOTS} {MENU}").focus()
    page.keyboard.press("Enter")
    page.locator(f"{DOTS} td a").first.wait_for()
    link = page.locator(f"{DOTS} td a").first
    address = link.get_attribute("href")
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/trial/*")
    assert page.url == f"{url}{address}"


def test_the_first_tab_leads_to_the_content(url: str, watched: Watched) -> None:
    page = watched.open(url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_every_figure_is_saved_as_a_picture(url: str, watched: Watched, kind: str) -> None:
    page = watched.open(f"{url}/scores?size=800")
    with page.expect_download() as download:
        page.locator(f"{DOTS} {MENU}").click()
        page.locator(f"{DOTS} button", has_text=kind.upper()).click()
    content = Path(download.value.path()).read_bytes()
    assert content.startswith(b"<svg" if kind == "svg" else b"\x89PNG")
    assert b"Source" in content or b"<metadata>" in content
    assert b"sweep made-up (config " in content
    assert download.value.suggested_filename == f"permafrost-depth-strip.{kind}"


def test_a_csv_holds_what_the_page_shows(url: str, watched: Watched) -> None:
    page = watched.open(f"{url}/scores?size=800&strategy=first_k")
    with page.expect_download() as download:
        page.locator(f"{DOTS} {MENU}").click()
        page.locator(f"{DOTS} a", has_text="CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert all(row["source"].startswith("sweep made-up (config ") for row in rows)
    assert sorted(row["trial"] for row in rows) == sorted(_dots(page))


def test_every_page_tells_where_its_numbers_come_from(url: str, watched: Watched) -> None:
    words = watched.open(f"{url}/savings").locator("#footer").inner_text()
    for part in ("sweep made-up", "config ", "commit 0000000000", "data tiny", "device cpu", "evaluations", "last row"):
        assert part in words
