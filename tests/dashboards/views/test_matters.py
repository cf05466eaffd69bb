"""How much each setting explains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dashboards.views import importance
from dashboards.views.kit.theme import LIGHT
from tests.dashboards.stores import STRATEGIES, Invented, specs
from tests.dashboards.views.made import drawn, made, strictly
from trials.spec import TrialSpec


def _with_rates(rates: Sequence[float]) -> list[TrialSpec]:
    trials = specs(strategies=STRATEGIES[:3], train_sizes=(200,))
    return [s.model_copy(update={"optim": s.optim.model_copy(update={"lr": rate})}) for rate in rates for s in trials]


def test_a_score_that_only_depth_moves_is_explained_by_depth(tmp_path: Path) -> None:
    by_depth = Invented(noise=1e-6, score=lambda spec: 0.9 - 0.01 * spec.freeze.depth)
    table = importance.importance_table(importance.prepare_importance(made(tmp_path / "s", by_depth)))
    assert table["setting"].iloc[0] == "frozen layers"
    assert table["share of the variance (%)"].iloc[0] > 99.9
    left_out = table[table["note"].str.startswith("left out")].set_index("setting")["note"]
    assert left_out["strategy"] == "left out: fixed by frozen layers"
    assert left_out["embeddings"] == "left out: one level"


def test_a_setting_that_only_some_sweeps_vary_is_a_bar(tmp_path: Path) -> None:
    by_rate = Invented(noise=1e-4, score=lambda spec: 0.9 if spec.optim.lr > 1e-5 else 0.8)
    selection = made(tmp_path / "s", by_rate, trials=_with_rates((1e-5, 5e-5)))
    table = importance.importance_table(importance.prepare_importance(selection))
    assert table["setting"].iloc[0] == "learning rate"


def test_every_bar_but_the_rest_has_an_interval_around_it(tmp_path: Path) -> None:
    info = importance.prepare_importance(made(tmp_path / "s"))
    table = info[0].found.table.set_index("factor")
    known = table.drop(index=["residual", "shared"], errors="ignore")
    assert "seed" not in table.index
    assert table["eta_sq"].sum() == pytest.approx(1)
    assert (known["low"] <= known["eta_sq"]).all()
    assert (known["eta_sq"] <= known["high"]).all()
    bar = strictly(importance.draw_importance(info, LIGHT))["data"][0]
    assert bar["error_x"]["array"][-1] is None


def test_two_corpora_have_a_panel_of_their_own_and_one_together(tmp_path: Path) -> None:
    trials = [*specs(data={"name": "a"}), *specs(data={"name": "b", "fingerprint": "b" * 64})]
    info = importance.prepare_importance(made(tmp_path / "s", trials=trials))
    assert [(panel.title, panel.found.n) for panel in info] == [("a", 30), ("all corpora of the sweep", 60)]
    assert "corpus" in info[1].found.table["factor"].tolist()


def test_many_trials_are_analysed_in_part_and_that_is_told(tmp_path: Path) -> None:
    trials = specs(train_sizes=range(100, 1100, 100), seeds=range(13))
    panel = importance.prepare_importance(made(tmp_path / "s", Invented(evaluations=1), trials=trials))[0]
    assert panel.found.n == 8 * 50
    assert panel.note == "400 of 650 trials: the first 8 seeds"


def test_equal_scores_have_nothing_to_explain(tmp_path: Path) -> None:
    flat = Invented(noise=0.0, score=lambda spec: 0.9)
    assert "all scores are equal" in drawn(importance.IMPORTANCE, made(tmp_path / "s", flat)).why_empty


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
