"""Across: panels of all corpora and sizes of a sweep, and the quality kept in all sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.views import across
from dashboards.views.kit.theme import LIGHT
from tests.dashboards.stores import Invented, specs, write_store
from tests.dashboards.views.made import made, selected, strictly

TWO_CORPORA = [*specs(), *specs(data={"name": "b", "fingerprint": "b" * 64})]
STEADY = Invented(noise=0.0, score=lambda spec: 0.8 - 0.02 * spec.freeze.depth)


def test_there_is_a_panel_for_each_size_whatever_is_selected(tmp_path: Path) -> None:
    info = across.prepare_panels(made(tmp_path / "s", trials=TWO_CORPORA, search="?size=200"))
    assert info.titles == ["tiny, 200", "tiny, 800", "b, 200", "b, 800"]
    assert sorted(info.table["share"].unique()) == pytest.approx([100 * depth / 6 for depth in (2, 3, 4, 6)])


def test_panels_have_axes_of_their_own_and_one_scale(tmp_path: Path) -> None:
    figure = strictly(across.draw_panels(across.prepare_panels(made(tmp_path / "s", trials=TWO_CORPORA)), LIGHT))
    assert [trace["xaxis"] for trace in figure["data"] if "xaxis" in trace] == ["x", "x2", "x3", "x4"]
    named = [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)]
    assert named == ["□ ■■□□□□ first 2", "□ ■□■□■□ alternating", "□ ■■■■□□ first 4", "□ ■■■■■■ all"]
    assert figure["layout"]["yaxis2"]["matches"] == "y"
    domains = [figure["layout"][axis]["domain"] for axis in ("xaxis", "xaxis2")]
    assert domains[0][1] <= domains[1][0]


def test_the_synthesis_shows_the_share_of_the_quality_of_full_tuning(tmp_path: Path) -> None:
    info = across.prepare_synthesis(made(tmp_path / "s", STEADY))
    assert info.table["freeze"].tolist() == ["none", "first 2", "first 4", "all"] * 2
    assert info.table["quality"].tolist() == pytest.approx([100, 95, 90, 85] * 2)


def test_the_synthesis_has_lines_of_every_sweep_of_the_store(tmp_path: Path) -> None:
    store = write_store(tmp_path / "s", specs(train_sizes=(200,)), STEADY, sweep="one")
    write_store(tmp_path / "s", specs(train_sizes=(400,)), STEADY, sweep="two")
    info = across.prepare_synthesis(selected(store))
    assert {line.split(",")[0] for line in info.titles} == {"one", "two"}
    figure = strictly(across.draw_synthesis(info, LIGHT))
    assert len({(trace["line"]["color"], trace["marker"]["symbol"]) for trace in figure["data"]}) == 2
