"""Curves: means by evaluation, losses by step, epochs to nearly the best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dashboards.views import curves, speed, step_losses
from dashboards.views.kit.theme import LIGHT
from tests.dashboards.stores import STRATEGIES, Invented, specs
from tests.dashboards.views.made import Select, made, strictly

QUIET = Invented(noise=0.0)


def test_a_curve_is_the_mean_over_the_seeds_of_a_cell(quiet: Select) -> None:
    info = curves.prepare_quality(quiet())
    assert len(info.lines) == 10 * 5
    assert set(info.lines["n"]) == {3}
    last = info.lines[info.lines["epoch"] == 5.0].merge(info.cells, on="cell")
    expected = 0.9 - 0.002 * last["depth"] ** 1.7 - 1 / last["train_size"]
    assert last["mean"].to_numpy() == pytest.approx(expected.to_numpy())


@pytest.mark.parametrize(("seeds", "bands"), [(2, 0), (3, 5)])
def test_a_band_needs_three_seeds(seeds: int, bands: int, tmp_path: Path) -> None:
    trials = specs(seeds=range(seeds), train_sizes=(200,))
    info = curves.prepare_quality(made(tmp_path / "s", trials=trials))
    figure = strictly(curves.draw_curves(info, LIGHT))
    assert sum(trace.get("fill") == "toself" for trace in figure["data"]) == bands
    assert info.lines["low"].notna().any() == bool(bands)


def test_the_baseline_has_the_colour_of_the_text_and_strategies_a_dash(small: Select) -> None:
    figure = curves.draw_curves(curves.prepare_quality(small()), LIGHT)
    lines = {trace["name"]: trace["line"] for trace in figure["data"] if trace["mode"] == "lines+markers"}
    assert lines["□ □□□□□□ none"]["color"] == LIGHT.text
    assert {name: line["dash"] for name, line in lines.items()} == {
        "□ □□□□□□ none": "solid", "□ ■■□□□□ first 2": "solid", "□ ■■■■□□ first 4": "solid",
        "□ ■□■□■□ alternating": "dot", "□ ■■■■■■ all": "dashdot",
    }  # fmt: skip
    assert len({line["color"] for line in lines.values()}) == 5


def test_seconds_are_the_mean_time_in_steps_up_to_an_evaluation(usual: Select) -> None:
    selection = usual("?axis=train_s")
    info = curves.prepare_quality(selection)
    last = info.lines[info.lines["epoch"] == 5.0].set_index("cell")["x"]
    mean = selection.trials.groupby("cell")["train_s"].mean()
    assert last.to_numpy() == pytest.approx(mean[last.index].to_numpy())
    assert info.x_title == "mean time in optimiser steps (s)"
    assert curves.curves_table(info).columns[4] == "mean time in optimiser steps (s)"


# --- Steps


def test_each_step_has_its_loss_and_its_number(tmp_path: Path) -> None:
    trials = specs(train_sizes=(200,), seeds=(0,), strategies=STRATEGIES[:1])
    info = step_losses.prepare_steps(made(tmp_path / "s", Invented(evaluations=2, epochs=2.0), trials=trials))
    assert info.losses["step"].tolist() == [*range(5, 13), *range(17, 25)]  # 12 steps, of which 8 kept their loss
    first = 0.1 + 2 * np.exp(-2)
    assert info.losses["loss"].tolist()[:2] == pytest.approx([first + 0.1, first + 0.05])


def test_a_smoothed_loss_is_the_mean_of_the_window_around_it(usual: Select) -> None:
    info = step_losses.prepare_steps(usual())
    assert info.window == 5
    one = info.losses[info.losses["trial_id"] == info.losses["trial_id"].iloc[0]]
    loss, smooth = one["loss"].to_numpy(), one["smooth"].to_numpy()
    assert smooth[5] == pytest.approx(loss[3:8].mean())
    assert smooth[0] == pytest.approx(loss[:3].mean())
    assert "mean of 5 steps" in info.note


def test_no_more_than_eight_cells_have_their_steps_drawn(tmp_path: Path) -> None:
    trials = specs(train_sizes=(200,), embeddings=(False, True))
    info = step_losses.prepare_steps(made(tmp_path / "s", trials=trials))
    assert len(info.cells) == 8
    assert info.cells["freeze"].iloc[0] == "none"
    assert "Not drawn: 1 more setting" in info.note


def test_a_long_line_is_thinned_but_keeps_its_peaks() -> None:
    values = np.sin(np.arange(10_000.0))
    values[1234], values[7777] = 50.0, -50.0
    kept = step_losses._extremes(values, 600)
    assert len(kept) <= 600
    assert {1234, 7777} <= set(kept.tolist())


# --- Speed


def test_epochs_to_nearly_the_best_are_those_of_the_evaluation_that_reaches_it(tmp_path: Path) -> None:
    info = speed.prepare_speed(made(tmp_path / "s", Invented(noise=0.0, evaluations=10, epochs=10.0)))
    share = 1 - np.exp(-4 * np.arange(1, 11) / 10)
    first = 1 + int(np.argmax(share / share[-1] >= 0.95))
    assert set(info.dots.loc[info.dots["panel"] == 0, "epoch"]) == {float(first)}
    assert set(info.means["n"]) == {3}


def test_what_never_comes_near_the_baseline_is_counted_not_averaged(tmp_path: Path) -> None:
    weak = Invented(score=lambda spec: 0.5 if spec.freeze.depth == 6 else 0.9, evaluations=10)
    info = speed.prepare_speed(made(tmp_path / "s", weak))
    table = speed.speed_table(info)
    lost = table[(table["frozen"] == "all") & (table["epochs to 95 % of"] == "the baseline's best")]
    assert lost["trials that reach it"].tolist() == [0, 0]
    assert lost["trials"].tolist() == [3, 3]
    assert (
        "6 trials never reach 95 % of the baseline's best"
        in speed.draw_speed(info, LIGHT)["layout"]["xaxis"]["title"]["text"]
    )
    assert pd.isna(lost["mean (epochs)"]).all()
