"""Curves: means by evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.views import training
from dashboards.views.kit.drawing import LIGHT
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import Select, made, strictly

QUIET = Invented(noise=0.0)


def test_a_curve_is_the_mean_over_the_seeds_of_a_cell(quiet: Select) -> None:
    info = training.prepare_quality(quiet())
    assert len(info.lines) == 10 * 5
    assert set(info.lines["n"]) == {3}
    last = info.lines[info.lines["epoch"] == 5.0].merge(info.cells, on="cell")
    expected = 0.9 - 0.002 * last["depth"] ** 1.7 - 1 / last["train_size"]
    assert last["mean"].to_numpy() == pytest.approx(expected.to_numpy())


@pytest.mark.parametrize(("seeds", "bands"), [(2, 0), (3, 5)])
def test_a_band_needs_three_seeds(seeds: int, bands: int, tmp_path: Path) -> None:
    trials = specs(seeds=range(seeds), train_sizes=(200,))
    info = training.prepare_quality(made(tmp_path / "s", trials=trials))
    figure = strictly(training.draw_curves(info, LIGHT))
    assert sum(trace.get("fill") == "toself" for trace in figure["data"]) == bands
    assert info.lines["low"].notna().any() == bool(bands)


def test_the_baseline_has_the_colour_of_the_text_and_strategies_a_dash(small: Select) -> None:
    figure = training.draw_curves(training.prepare_quality(small()), LIGHT)
    lines = {trace["name"]: trace["line"] for trace in figure["data"] if trace["mode"] == "lines+markers"}
    assert lines["□ □□□□□□ none"]["color"] == LIGHT.text
    assert {name: line["dash"] for name, line in lines.items()} == {
        "□ □□□□□□ none": "solid", "□ ■■□□□□ first 2": "solid", "□ ■■■■□□ first 4": "solid",
        "□ ■□■□■□ alternating": "dot", "□ ■■■■■■ all": "dashdot",
    }  # fmt: skip
    assert len({line["color"] for line in lines.values()}) == 5


def test_seconds_are_the_mean_time_in_steps_up_to_an_evaluation(usual: Select) -> None:
    selection = usual("?axis=train_s")
    info = training.prepare_quality(selection)
    last = info.lines[info.lines["epoch"] == 5.0].set_index("cell")["x"]
    mean = selection.trials.groupby("cell")["train_s"].mean()
    assert last.to_numpy() == pytest.approx(mean[last.index].to_numpy())
    assert info.x_title == "mean time in optimiser steps (s)"
    assert training.curves_table(info).columns[4] == "mean time in optimiser steps (s)"
