"""Which cells go wrong, and the expected best of n trials."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dashboards.views import factors
from dashboards.views.theme import LIGHT
from tests.dashboards.stores import STRATEGIES, Invented, specs
from tests.dashboards.views.made import made, strictly


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


def test_the_expected_best_of_all_trials_is_the_best_one(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=specs(seeds=range(4), train_sizes=(200,), strategies=STRATEGIES[:2]))
    info = factors.prepare_expected(selection)
    last = info.table[info.table["budget"] == 4].set_index("cell")["unbiased"]
    best = selection.trials.groupby("cell")["score"].max()
    assert last.to_numpy() == pytest.approx(best[last.index].to_numpy())
    one = info.table[info.table["budget"] == 1].set_index("cell")["unbiased"]
    mean = selection.trials.groupby("cell")["score"].mean()
    assert one.to_numpy() == pytest.approx(mean[one.index].to_numpy())


def test_a_budget_of_seconds_is_trials_times_their_mean_training_time(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", search="?axis=train_s", trials=specs(train_sizes=(200,)))
    info = factors.prepare_expected(selection)
    mean = selection.trials.groupby("cell")["train_s"].mean()
    each = info.table["x"] / info.table["budget"]
    assert each.to_numpy() == pytest.approx(mean[info.table["cell"]].to_numpy())
    figure = strictly(factors.draw_expected(info, LIGHT))
    assert figure["layout"]["xaxis"]["title"]["text"] == "training time of all trials (s)"
    assert np.isfinite(figure["data"][0]["y"]).all()
