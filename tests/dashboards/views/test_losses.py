"""Loss against saving: where marks, arrows and labels stand, and what a click on one opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.data.selection import Selection
from dashboards.views import depth_strip, loss_panels, losses
from dashboards.views.kit.drawing import DARK, LIGHT
from dashboards.views.loss_panels import label_places, label_width
from dashboards.views.trials import trials_csv
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.conftest import CLEAR, FIVE
from tests.dashboards.views.made import Select, made, pages_of, strictly

FAR = Invented(noise=0.001, score=lambda spec: 0.9 - (0.4 if spec.freeze.depth == 6 else 0.001 * spec.freeze.depth))
STEEP = Invented(
    noise=0.001, score=lambda spec: 0.9 - (0.4 if spec.data.name == "tiny" else 0.02) * (spec.freeze.depth == 6)
)
TWO_CORPORA = [*FIVE, *specs(seeds=range(5), data={"name": "other", "fingerprint": "f" * 64})]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """A setting loses 40 points."""
    return made(tmp_path_factory.mktemp("far") / "s", FAR, trials=FIVE, search="?size=800")


@pytest.fixture(scope="module")
def clear_corpora(tmp_path_factory: pytest.TempPathFactory) -> Select:
    """What an address selects of two corpora of clear losses."""
    return pages_of(tmp_path_factory.mktemp("corpora") / "s", CLEAR, TWO_CORPORA)


@pytest.fixture(scope="module")
def steep(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The figure of one corpus with a setting that loses 40 points, and one where no setting loses more than 2."""
    selection = made(tmp_path_factory.mktemp("steep") / "s", STEEP, trials=TWO_CORPORA, search="?size=800")
    figure: dict[str, Any] = strictly(losses.draw_losses(loss_panels.prepare_losses(selection), LIGHT))
    return figure


def test_a_mark_stands_at_its_saving_and_loss_and_is_filled_where_it_passes(clear: Select) -> None:
    info = loss_panels.prepare_losses(clear("?size=800"))
    figure = strictly(losses.draw_losses(info, LIGHT))
    marks, table = figure["data"][1], info.panels[0].table
    near = table[table["loss"] <= figure["layout"]["yaxis"]["autorangeoptions"]["maxallowed"]]
    assert marks["y"] == pytest.approx((near["loss"]).tolist(), abs=1e-3)
    assert marks["x"] == pytest.approx((100 * near["saved"].astype(float)).tolist(), abs=2)
    filled = dict(zip(near["freeze"], ["open" not in each for each in marks["marker"]["symbol"]], strict=True))
    assert filled == {"first 2": True, "alternating": False, "first 4": False, "all": False}


def test_the_tolerance_is_a_band_a_line_and_what_the_browser_drags(clear: Select) -> None:
    info = loss_panels.prepare_losses(clear("?tolerance=2.5"))
    layout = strictly(losses.draw_losses(info, DARK))["layout"]
    band, line = layout["shapes"][:2]
    assert (band["type"], band["y1"], line["y0"], line["y1"]) == ("rect", 2.5, 2.5, 2.5)
    assert layout["meta"] == {"tolerance": 2.5}


def test_a_panel_each_corpus_and_size_says_what_nothing_frozen_scores(clear_corpora: Select) -> None:
    info = loss_panels.prepare_losses(clear_corpora(""))
    assert len(info.panels) == 4
    titles = [
        each["text"] for each in losses.draw_losses(info, LIGHT)["layout"]["annotations"] if "<b>" in each["text"]
    ]
    assert len(titles) == 4
    assert all("nothing frozen: 9" in title or "nothing frozen: 8" in title for title in titles)


def test_a_setting_far_beyond_the_others_stands_at_the_edge_with_its_loss_in_words(far: Selection) -> None:
    figure = losses.draw_losses(loss_panels.prepare_losses(far), LIGHT)
    assert figure["layout"]["yaxis"]["autorangeoptions"]["maxallowed"] < 10
    away = next(trace for trace in figure["data"] if trace["name"] == "far beyond")
    assert float(away["text"][0].split()[-1]) == pytest.approx(40, abs=1)
    assert away["marker"]["symbol"] == ["triangle-up-open"]  # as a mark that is not within the tolerance


def test_where_every_setting_lies_beyond_the_panel_ends_at_the_nearest(tmp_path: Path) -> None:
    lost = Invented(noise=0.001, score=lambda spec: 0.9 - 0.05 * spec.freeze.depth)
    frozen = [spec for spec in FIVE if spec.freeze.depth in (0, 2, 4)]
    selection = made(tmp_path / "s", lost, trials=frozen, search="?size=800")
    figure = losses.draw_losses(loss_panels.prepare_losses(selection), LIGHT)
    assert 10 < figure["layout"]["yaxis"]["autorangeoptions"]["maxallowed"] < 14
    assert [trace["name"] for trace in figure["data"]].count("settings") == 1


def test_a_corpus_with_a_large_loss_does_not_press_the_others_flat(steep: dict[str, Any]) -> None:
    layout = steep["layout"]
    assert layout["yaxis"]["autorangeoptions"]["maxallowed"] < 5
    assert layout["yaxis2"]["autorangeoptions"]["maxallowed"] < 5
    assert "matches" not in layout["yaxis2"]


def test_labels_of_a_page_of_paper_are_placed_for_its_narrower_panels(clear: Select) -> None:
    info = loss_panels.prepare_losses(clear(""))
    figures = [losses.draw_losses(info, look) for look in (LIGHT, replace(LIGHT, printed=True))]
    texts = [[text for trace in f["data"] for text in trace.get("text", []) if text] for f in figures]
    assert set(texts[1]) <= set(texts[0])
    assert len(texts[1]) < len(texts[0])


def test_a_mark_opens_the_trials_of_its_setting(clear: Select) -> None:
    figure = losses.draw_losses(loss_panels.prepare_losses(clear("?size=800")), LIGHT)
    for trace in figure["data"]:
        for name, _, address in trace["customdata"]:
            assert urlsplit(address).path == "/trials"
            rows = trials_csv(clear(f"?{urlsplit(address).query}")).splitlines()
            assert len(rows) == 1 + 5, name


@given(
    st.lists(st.tuples(st.floats(0, 380), st.floats(0, 300)), min_size=1, max_size=12),
    st.integers(1, 20),
)
def test_a_label_lies_on_no_mark_and_on_no_other_label(at: list[tuple[float, float]], length: int) -> None:
    names = ["x" * length] * len(at)
    sides = label_places(at, names, (0, 380, 0, 300), range(len(at)))
    boxes = []
    for (x, y), side in zip(at, sides, strict=True):
        if side:
            up, across = side.split()
            left = {"right": x + 4, "left": x - 4 - label_width(names[0]), "center": x - label_width(names[0]) / 2}[
                across
            ]
            boxes.append((left, left + label_width(names[0]), *((y + 8, y + 24) if up == "top" else (y - 24, y - 8))))
    marks = [(x - 8, x + 8, y - 8, y + 8) for x, y in at]
    for n, one in enumerate(boxes):
        for other in [*marks, *boxes[:n]]:
            assert one[0] >= other[1] or other[0] >= one[1] or one[2] >= other[3] or other[2] >= one[3]


def test_scores_are_drawn_near_the_baseline_and_what_lies_beyond_is_an_arrow_with_its_loss(far: Selection) -> None:
    figure = strictly(depth_strip.draw_strip(depth_strip.prepare_strip(far), LIGHT))
    (arrows,) = [trace for trace in figure["data"] if trace["name"] == "beyond"]
    low, high = (figure["layout"]["yaxis"]["autorangeoptions"][end] for end in ("minallowed", "maxallowed"))
    assert 80 < low < arrows["y"][0] < high < 95
    assert arrows["text"] == ["-40.0"]
