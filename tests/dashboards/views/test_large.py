"""What figures of a large sweep leave out, and that their tables have it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboards.data.selection import Selection
from dashboards.views import depth_strip
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


def test_scores_draw_the_largest_sizes_and_their_table_has_all(large: Selection) -> None:
    drawn = compute(depth_strip.STRIP, large, LIGHT)
    assert drawn.figure is not None
    layout = drawn.figure["layout"]
    titles = [each["text"] for each in layout["annotations"]]
    assert titles[0] == "4,200 for training, n=2"
    assert (len(titles), len(drawn.table)) == (depth_strip.MOST_PANELS, len(large.completed))
    assert f"{len(SIZES) - depth_strip.MOST_PANELS} smaller train sizes" in str(layout)


@pytest.mark.parametrize("most", [10, 5_000])
def test_picked_trials_are_marked_among_binned_dots_and_among_dots(
    most: int, large: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth_strip, "MAX_DOTS", most)
    rows = large.completed.sort_values("train_size").iloc[[-3, -4]]
    picking = replace(large, query=large.query.but(trials=(*rows["trial_id"], "gone")))
    traces = _figure(depth_strip.STRIP, picking)["data"]
    assert ("heatmap" in {trace["type"] for trace in traces}) is (most == 10)
    (picked,) = [trace for trace in traces if trace["name"] == "picked"]
    shown = {point[0]: y for point, y in zip(picked["customdata"], picked["y"], strict=True)}
    assert shown == {row.trial_id: pytest.approx(100 * row.score, abs=1e-3) for row in rows.itertuples()}
    assert "picked" not in [trace["name"] for trace in _figure(depth_strip.STRIP, large)["data"]]
