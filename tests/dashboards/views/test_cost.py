"""Savings: the share of each cost that each setting saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.views import savings
from dashboards.views.kit.drawing import LIGHT
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import Select, made, strictly

QUIET = Invented(noise=0.0)
PARAMS = "?cost=trainable_params"
TIME = "?cost=training_cost_s"


def test_savings_have_a_row_a_cell_and_cost(small: Select) -> None:
    info = savings.prepare_savings(small())
    counted = info.table[info.table["cost"] == "trainable_params"]
    assert counted["freeze"].tolist() == ["first 2", "alternating", "first 4", "all"]
    assert counted["saved"].iloc[0] == pytest.approx(2 * 7_087_872 / 134_352_401)
    assert info.note == (
        "Not available: peak memory (not measured: resident memory of a warm worker), energy (baseline not measured)."
    )


def test_a_cost_of_two_devices_is_told_in_place_of_a_figure(tmp_path: Path) -> None:
    apart = Invented(device=lambda spec: "T4" if spec.freeze.depth == 6 else "cpu")
    info = savings.prepare_savings(made(tmp_path / "s", apart, trials=specs(train_sizes=(200,))))
    figure = strictly(savings.draw_savings(info, LIGHT))
    words = next(trace for trace in figure["data"] if trace["mode"] == "text")
    assert words["text"] == [" training time: different devices: T4 and cpu"]
    assert [round(y) for y in words["y"]] == [3]
