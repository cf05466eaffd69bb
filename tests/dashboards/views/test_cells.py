"""Which settings a figure shows, and over which trials."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dashboards.views import depth_strip, scores
from dashboards.views.kit import cells
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import compute
from tests.dashboards.stores import specs
from tests.dashboards.views.made import made


def test_the_cells_shown_are_those_of_whole_train_sizes_the_largest_first(tmp_path: Path) -> None:
    trials = made(tmp_path / "s", trials=specs(train_sizes=(100, 200, 400), seeds=(0,))).trials
    assert cells.shown_cells(trials).note == ""
    few = cells.shown_cells(trials, 12)
    assert few.table["train_size"].tolist() == [200] * 5 + [400] * 5
    assert few.note == "10 of 15 settings are drawn: train sizes 200, 400. Select train sizes to see others."
    assert len(cells.shown_cells(trials, 3).table) == 3


def test_counted_costs_need_no_device() -> None:
    trials = pd.DataFrame({"device": ["cpu", "T4", None]})
    assert len(cells.one_device(trials, "trainable_params").table) == 3
    alone = cells.one_device(trials.iloc[[0, 0, 1, 2]], "train_s")
    assert alone.table["device"].tolist() == ["cpu", "cpu"]
    assert alone.note.endswith("on cpu are drawn, not those on T4 (1 trial), an unrecorded device (1 trial).")
    assert cells.one_device(trials.iloc[[2]], "train_s").note == "No trial has its device recorded."


@pytest.mark.parametrize(("seeds", "few"), [((0,), True), ((0, 1, 2, 3), False)])
def test_losses_without_an_interval_say_that_seeds_are_too_few(
    seeds: tuple[int, ...], few: bool, tmp_path: Path
) -> None:
    table = scores.prepare_losses(made(tmp_path / "s", trials=specs(seeds=seeds, train_sizes=(200,))))
    assert table["from (points)"].isna().all() == few
    assert table["verdict"].str.contains("seed").all() == few


@pytest.mark.parametrize(("seeds", "means"), [((0, 1), 0), ((0, 1, 2), 5)])
def test_below_three_seeds_there_are_only_dots(seeds: tuple[int, ...], means: int, tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=specs(seeds=seeds, train_sizes=(200,)))
    figure = compute(depth_strip.STRIP, selection, LIGHT).figure
    assert figure is not None
    assert sum(len(trace["x"]) for trace in figure["data"] if trace["name"].startswith("mean")) == means
