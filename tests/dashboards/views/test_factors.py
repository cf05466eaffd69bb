"""Which cells go wrong, and the expected best of n trials."""

from __future__ import annotations

from pathlib import Path

from dashboards.views import factors
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import made


def test_broken_and_collapsed_trials_are_counted_by_cell(tmp_path: Path) -> None:
    share = 500 / 820  # of the most frequent label of the made-up tags, a made-up trial's constant score
    made_so = Invented(
        noise=0.0,
        score=lambda spec: share if spec.freeze.depth == 6 else 0.9,
        state=lambda spec: "diverged" if spec.freeze.depth == 4 and spec.seed == 0 else "completed",
    )
    info = factors.prepare_stability(made(tmp_path / "s", made_so, trials=specs(train_sizes=(200,))))
    table = info.table.set_index("freeze")
    assert table["broken"].to_dict() == {"none": 0, "first 2": 0, "alternating": 0, "first 4": 1, "all": 0}
    assert table["collapsed"].to_dict() == {"none": 0, "first 2": 0, "alternating": 0, "first 4": 0, "all": 3}
    assert table.loc["all", "share"] == 1.0
