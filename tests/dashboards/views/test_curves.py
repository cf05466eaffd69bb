"""Curves: means by evaluation, losses by step, epochs to nearly the best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dashboards.data.frames import Frames
from dashboards.data.page_query import parse_query
from dashboards.data.selection import select
from dashboards.views import curves, speed, step_losses
from dashboards.views.kit.theme import LIGHT
from tests.dashboards.stores import STRATEGIES, Invented, append, specs, write_store
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


def test_no_two_lines_of_a_panel_look_the_same(tmp_path: Path) -> None:
    strategies = [
        ("none", ()),
        *(("first_k", tuple(range(depth))) for depth in (1, 2, 3, 4)),
        ("alternating", (0, 2, 4)),
    ]
    trials = specs(train_sizes=(200, 800), strategies=strategies, embeddings=(False, True))
    figure = strictly(curves.draw_curves(curves.prepare_quality(made(tmp_path / "s", trials=trials)), LIGHT))
    lines = [trace for trace in figure["data"] if trace["mode"] == "lines+markers"]
    looks = {(t["yaxis"], t["line"]["color"], t["line"]["dash"], t["marker"]["symbol"]) for t in lines}
    assert len(looks) == len(lines) == 22
    assert {trace["yaxis"] for trace in lines} == {"y", "y2"}
    assert len([trace for trace in lines if trace["showlegend"]]) == 11


def test_a_curve_that_stopped_early_ends(tmp_path: Path) -> None:
    trials = specs(train_sizes=(200,), strategies=STRATEGIES[:1])
    store = write_store(tmp_path / "s", trials[:2], Invented(evaluations=5))
    append(store, trials[2:], Invented(evaluations=3, epochs=3.0))
    info = curves.prepare_quality(select(Frames(store).refresh(), parse_query("?sweep=all%20trials")[0]))
    assert info.lines["n"].tolist() == [3, 3, 3, 2, 2]
    assert info.lines["low"].isna().tolist() == [False, False, False, True, True]


def test_seconds_are_the_mean_time_in_steps_up_to_an_evaluation(usual: Select) -> None:
    selection = usual("?axis=train_s")
    info = curves.prepare_quality(selection)
    last = info.lines[info.lines["epoch"] == 5.0].set_index("cell")["x"]
    mean = selection.trials.groupby("cell")["train_s"].mean()
    assert last.to_numpy() == pytest.approx(mean[last.index].to_numpy())
    assert info.x_title == "mean time in optimiser steps (s)"
    assert curves.curves_table(info).columns[4] == "mean time in optimiser steps (s)"


def test_seconds_of_two_devices_are_not_drawn_together(tmp_path: Path) -> None:
    made_on = Invented(device=lambda spec: "T4" if spec.seed == 2 else "cpu")
    info = curves.prepare_quality(made(tmp_path / "s", made_on, search="?axis=train_s"))
    assert set(info.lines["n"]) == {2}
    assert info.note == "Only trials on cpu are drawn, not those on T4 (10 trials)."


def test_another_metric_has_its_own_curve(quiet: Select) -> None:
    info = curves.prepare_quality(quiet("?metric=macro_f1"))
    own = curves.prepare_quality(quiet())
    assert info.lines["mean"].to_numpy() == pytest.approx(0.9 * own.lines["mean"].to_numpy())
    assert info.panels == ("dev macro F1 (%)",)


def test_of_many_cells_the_largest_train_sizes_are_drawn_and_that_is_told(tmp_path: Path) -> None:
    sizes = range(100, 1100, 100)
    info = curves.prepare_quality(made(tmp_path / "s", trials=specs(train_sizes=sizes, seeds=(0,))))
    assert len(info.cells) == 30
    assert info.cells["train_size"].min() == 500
    assert info.note.startswith("30 of 50 settings are drawn: train sizes 500, 600")


def test_both_losses_have_a_panel(small: Select) -> None:
    info = curves.prepare_loss(small())
    figure = strictly(curves.draw_curves(info, LIGHT))
    assert {trace["yaxis"] for trace in figure["data"]} == {"y", "y2"}
    both = info.lines.pivot(index=["cell", "epoch"], columns="panel", values="mean")
    assert both[1].to_numpy() == pytest.approx(1.1 * both[0].to_numpy())
    assert [figure["layout"][name]["title"]["text"] for name in ("yaxis", "yaxis2")] == ["training loss", "dev loss"]


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


def test_steps_show_the_baseline_and_the_strategies_that_were_chosen(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", search="?strategy=alternating", trials=specs(seeds=range(5)))
    info = step_losses.prepare_steps(selection)
    assert info.cells["freeze"].tolist() == ["none", "alternating"]
    assert info.losses.groupby("cell")["seed"].unique().map(sorted).tolist() == [[0, 1, 2]] * 2
    assert set(info.cells["train_size"]) == {800}


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
