"""How much each setting explains, the scores by one setting, and the lines of trials through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dashboards.views import matters, parallel, slices
from dashboards.views.theme import LIGHT
from dashboards.views.varied import evenly
from tests.dashboards.stores import STRATEGIES, Invented, specs
from tests.dashboards.views.made import made, strictly
from trials.spec import TrialSpec


def _with_rates(rates: Sequence[float]) -> list[TrialSpec]:
    trials = specs(strategies=STRATEGIES[:3], train_sizes=(200,))
    return [s.model_copy(update={"optim": s.optim.model_copy(update={"lr": rate})}) for rate in rates for s in trials]


def test_a_score_that_only_depth_moves_is_explained_by_depth(tmp_path: Path) -> None:
    by_depth = Invented(noise=1e-6, score=lambda spec: 0.9 - 0.01 * spec.freeze.depth)
    table = matters.importance_table(matters.prepare_importance(made(tmp_path / "s", by_depth)))
    assert table["setting"].iloc[0] == "frozen layers"
    assert table["share of the variance (%)"].iloc[0] > 99.9
    left_out = table[table["note"].str.startswith("left out")].set_index("setting")["note"]
    assert left_out["strategy"] == "left out: fixed by frozen layers"
    assert left_out["embeddings"] == "left out: one level"


def test_a_setting_that_only_some_sweeps_vary_is_a_bar_and_a_panel_and_an_axis(tmp_path: Path) -> None:
    by_rate = Invented(noise=1e-4, score=lambda spec: 0.9 if spec.optim.lr > 1e-5 else 0.8)
    selection = made(tmp_path / "s", by_rate, trials=_with_rates((1e-5, 5e-5)))
    table = matters.importance_table(matters.prepare_importance(selection))
    assert table["setting"].iloc[0] == "learning rate"
    panel = next(each for each in slices.prepare_slices(selection).panels if each.label == "learning rate")
    assert panel.names == ["1e-05", "5e-05"]
    assert panel.means == pytest.approx([0.8, 0.9], abs=1e-3)
    assert "learning rate" in [each.label for each in parallel.prepare_parallel(selection).axes]


def test_every_bar_but_the_rest_has_an_interval_around_it(tmp_path: Path) -> None:
    info = matters.prepare_importance(made(tmp_path / "s"))
    table = info.panels[0].found.table.set_index("factor")
    known = table.drop(index="residual")
    assert (known["low"] <= known["eta_sq"]).all()
    assert (known["eta_sq"] <= known["high"]).all()
    bar = strictly(matters.draw_importance(info, LIGHT))["data"][0]
    assert bar["error_x"]["array"][-1] is None


def test_two_corpora_have_a_panel_of_their_own_and_one_together(tmp_path: Path) -> None:
    trials = [*specs(data={"name": "a"}), *specs(data={"name": "b", "fingerprint": "b" * 64})]
    info = matters.prepare_importance(made(tmp_path / "s", trials=trials))
    assert [(panel.title, panel.found.n) for panel in info.panels] == [("a", 30), ("all corpora of the sweep", 60)]
    assert "corpus" in info.panels[1].found.table["factor"].tolist()


def test_many_trials_are_analysed_in_part_and_that_is_told(tmp_path: Path) -> None:
    trials = specs(train_sizes=range(100, 1100, 100), seeds=range(13))
    panel = matters.prepare_importance(made(tmp_path / "s", Invented(evaluations=1), trials=trials)).panels[0]
    assert panel.found.n == 8 * 50
    assert panel.note == "400 of 650 trials: the first 8 seeds"


def test_equal_scores_have_nothing_to_explain(tmp_path: Path) -> None:
    flat = Invented(noise=0.0, score=lambda spec: 0.9)
    words = matters.why_no_importance(matters.prepare_importance(made(tmp_path / "s", flat)))
    assert "all scores are equal" in words


def test_each_trial_is_a_dot_in_each_panel_of_the_slices(tmp_path: Path) -> None:
    selection = made(tmp_path / "s")
    info = slices.prepare_slices(selection)
    dots = strictly(slices.draw_slices(info, LIGHT))["data"][::2]
    assert len(dots) == len(info.panels)
    assert all({point[0] for point in trace["customdata"]} == set(selection.trials["trial_id"]) for trace in dots)


def test_many_lines_are_thinned_evenly_with_the_best_and_the_worst_and_that_is_told(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", Invented(evaluations=1), trials=specs(seeds=range(50)))
    info = parallel.prepare_parallel(selection)
    assert len(info.trials) == parallel.MAX_LINES
    scores = selection.completed["score"]
    assert (info.trials["y"].min(), info.trials["y"].max()) == (scores.min(), scores.max())
    assert "200 of 500 trials are drawn" in str(strictly(parallel.draw_parallel(info, LIGHT))["layout"]["xaxis"])
    assert len(info.table) == 500


def test_the_best_trials_stand_out_by_colour_and_width(tmp_path: Path) -> None:
    selection = made(tmp_path / "s")
    traces = strictly(parallel.draw_parallel(parallel.prepare_parallel(selection), LIGHT))["data"]
    best = next(trace for trace in traces if trace.get("name") == "the 5 best")
    top = selection.completed.nlargest(5, "score")["trial_id"]
    assert {point[0] for point in best["customdata"]} == set(top)
    assert best["line"]["width"] > 2 * traces[0]["line"]["width"]


def test_places_are_taken_evenly_by_rank() -> None:
    scores = pd.Series(np.arange(100.0)[::-1])
    assert list(evenly(scores, 3)) == [99, 49, 0]
