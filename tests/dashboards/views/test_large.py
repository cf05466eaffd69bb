"""What figures of a large sweep leave out, and that their tables have it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboards.data.selection import Selection
from dashboards.views import depth_strip, forest
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import compute
from tests.dashboards.stores import specs, write_store
from tests.dashboards.views.made import selected

SIZES = range(200, 4400, 200)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    folder: Path = tmp_path_factory.mktemp("large") / "store"
    return selected(write_store(folder, specs(seeds=(0, 1), train_sizes=tuple(SIZES))))


def _figure(part: Any, selection: Selection) -> dict[str, Any]:
    figure = compute(part, selection, LIGHT).figure
    assert figure is not None
    return figure


def test_the_forest_draws_the_largest_sizes_and_its_table_has_all(large: Selection) -> None:
    drawn = compute(forest.FOREST, large, LIGHT)
    assert drawn.figure is not None
    rows = drawn.figure["layout"]["yaxis"]["ticktext"]
    assert (len(rows), len(drawn.table)) == (forest.MAX_ROWS, 4 * len(SIZES))
    assert rows[-1].endswith("4,200 (n=2)")
    assert f"The {forest.MAX_ROWS} of {4 * len(SIZES)} settings" in drawn.figure["layout"]["xaxis"]["title"]["text"]


def test_the_baselines_are_one_line_with_gaps(large: Selection) -> None:
    lines = [trace for trace in _figure(depth_strip.STRIP, large)["data"] if trace["name"] == "baseline mean"]
    assert len(lines) == 1
    assert lines[0]["y"].count(None) == len(SIZES)
    assert lines[0]["y"][0] == lines[0]["y"][1]


@pytest.mark.parametrize("most", [10, 5_000])
def test_picked_trials_are_marked_among_binned_dots_and_among_dots(
    most: int, large: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth_strip, "MAX_DOTS", most)
    rows = large.completed.iloc[[3, 40]]
    picking = replace(large, query=large.query.but(trials=(*rows["trial_id"], "gone")))
    traces = _figure(depth_strip.STRIP, picking)["data"]
    assert ("heatmap" in {trace["type"] for trace in traces}) is (most == 10)
    (picked,) = [trace for trace in traces if trace["name"] == "picked"]
    shown = {point[0]: y for point, y in zip(picked["customdata"], picked["y"], strict=True)}
    assert shown == {row.trial_id: pytest.approx(100 * row.score, abs=1e-3) for row in rows.itertuples()}
    assert "picked" not in [trace["name"] for trace in _figure(depth_strip.STRIP, large)["data"]]
