"""Across: panels of all corpora and sizes of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.views import forest
from dashboards.views.kit.drawing import LIGHT
from tests.dashboards.stores import specs
from tests.dashboards.views.made import made, strictly

TWO_CORPORA = [*specs(), *specs(data={"name": "b", "fingerprint": "b" * 64})]


def test_there_is_a_panel_for_each_size_whatever_is_selected(tmp_path: Path) -> None:
    info = forest.prepare_panels(made(tmp_path / "s", trials=TWO_CORPORA, search="?size=200"))
    assert info.titles == ["tiny, 200", "tiny, 800", "b, 200", "b, 800"]
    assert sorted(info.table["share"].unique()) == pytest.approx([100 * depth / 6 for depth in (2, 3, 4, 6)])


def test_panels_have_axes_of_their_own_and_one_scale(tmp_path: Path) -> None:
    figure = strictly(forest.draw_panels(forest.prepare_panels(made(tmp_path / "s", trials=TWO_CORPORA)), LIGHT))
    assert [trace["xaxis"] for trace in figure["data"] if "xaxis" in trace] == ["x", "x2", "x3", "x4"]
    named = [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)]
    assert named == ["□ ■■□□□□ first 2", "□ ■□■□■□ alternating", "□ ■■■■□□ first 4", "□ ■■■■■■ all"]
    assert figure["layout"]["yaxis2"]["matches"] == "y"
    domains = [figure["layout"][axis]["domain"] for axis in ("xaxis", "xaxis2")]
    assert domains[0][1] <= domains[1][0]
