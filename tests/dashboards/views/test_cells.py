"""Which settings a figure shows, and over which trials."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dashboards.views.kit import cells
from tests.dashboards.stores import specs
from tests.dashboards.views.made import made


def test_the_cells_shown_are_those_of_whole_train_sizes_the_largest_first(tmp_path: Path) -> None:
    trials = made(tmp_path / "s", trials=specs(train_sizes=(100, 200, 400), seeds=(0,))).trials
    assert cells.shown_cells(trials).note == ""
    few = cells.shown_cells(trials, 12)
    assert few.table["train_size"].tolist() == [200] * 5 + [400] * 5
    assert few.note == "10 of 15 settings are drawn: train sizes 200, 400. Select train sizes to see others."
    assert len(cells.shown_cells(trials, 3).table) == 3
    assert set(cells.shown_cells(trials, sizes=1).table["train_size"]) == {400}


def test_counted_costs_need_no_device() -> None:
    trials = pd.DataFrame({"device": ["cpu", "T4", None]})
    assert len(cells.one_device(trials, "trainable_params").trials) == 3
    alone = cells.one_device(trials.iloc[[0, 0, 1, 2]], "train_s")
    assert alone.trials["device"].tolist() == ["cpu", "cpu"]
    assert alone.note.endswith("on cpu are drawn, not those on T4 (1 trial), an unrecorded device (1 trial).")
    assert cells.one_device(trials.iloc[[2]], "train_s").note == "No trial has its device recorded."
