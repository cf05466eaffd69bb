"""How much each setting explains."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.views import importance
from dashboards.views.kit.drawing import LIGHT
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import made, strictly


def test_a_score_that_only_depth_moves_is_explained_by_depth(tmp_path: Path) -> None:
    by_depth = Invented(noise=1e-6, score=lambda spec: 0.9 - 0.01 * spec.freeze.depth)
    table = importance.importance_table(importance.prepare_importance(made(tmp_path / "s", by_depth)))
    assert table["setting"].iloc[0] == "frozen layers"
    assert table["share of the variance (%)"].iloc[0] > 99.9
    left_out = table[table["note"].str.startswith("left out")].set_index("setting")["note"]
    assert left_out["strategy"] == "left out: fixed by frozen layers"
    assert left_out["embeddings"] == "left out: one level"


def test_a_value_tried_on_more_data_only_is_not_credited_with_that(tmp_path: Path) -> None:
    by_size = Invented(noise=1e-6, score=lambda spec: 0.5 + spec.train_size / 2000)
    gaps = [spec for spec in specs() if not (spec.train_size == 200 and spec.freeze.depth == 2)]
    info = importance.prepare_means(made(tmp_path / "s", by_size, trials=gaps))
    table = importance.means_table(info).set_index(["setting", "value"])
    means = table["adjusted mean of dev accuracy (%)"]
    assert means["frozen layers"].tolist() == pytest.approx([75.0] * 5, abs=0.01)
    assert means["train size"].to_dict() == pytest.approx({"200": 60.0, "800": 90.0}, abs=0.01)
    assert table["trials"]["train size"].to_dict() == {"200": 12, "800": 15}
    figure = strictly(importance.draw_means(info, LIGHT))
    assert figure["data"][0]["x"] == pytest.approx([75.0] * 5, abs=0.01)
    assert figure["layout"]["yaxis2"]["ticktext"] == ["200 (n=12)", "800 (n=15)"]
