"""How much each setting explains."""

from __future__ import annotations

from pathlib import Path

from dashboards.views import importance
from tests.dashboards.stores import Invented
from tests.dashboards.views.made import made


def test_a_score_that_only_depth_moves_is_explained_by_depth(tmp_path: Path) -> None:
    by_depth = Invented(noise=1e-6, score=lambda spec: 0.9 - 0.01 * spec.freeze.depth)
    table = importance.importance_table(importance.prepare_importance(made(tmp_path / "s", by_depth)))
    assert table["setting"].iloc[0] == "frozen layers"
    assert table["share of the variance (%)"].iloc[0] > 99.9
    left_out = table[table["note"].str.startswith("left out")].set_index("setting")["note"]
    assert left_out["strategy"] == "left out: fixed by frozen layers"
    assert left_out["embeddings"] == "left out: one level"
