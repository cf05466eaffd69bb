"""Cost: score against cost, shares saved, training time."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.views import costed, pareto, shares_saved
from dashboards.views.kit.theme import LIGHT
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import Select, drawn, made, strictly

QUIET = Invented(noise=0.0)
PARAMS = "?cost=trainable_params"
TIME = "?cost=training_cost_s"


def test_the_front_holds_what_nothing_beats_in_score_and_parameters(quiet: Select) -> None:
    info = costed.prepare_pareto(quiet(PARAMS))
    assert info.table["freeze"].tolist() == ["none", "first 2", "alternating", "first 4", "all"]
    assert info.table["on_front"].all()
    assert info.table["cost"].tolist() == [134352401, 120176657, 113088785, 106000913, 91825169]
    assert info.note.startswith("5 of 10 settings are drawn: train size 800.")


def test_a_cell_that_scores_less_and_costs_more_is_not_on_the_line(tmp_path: Path) -> None:
    worse = Invented(noise=0.0, score=lambda spec: 0.5 if spec.freeze.depth == 2 else 0.9)
    info = costed.prepare_pareto(made(tmp_path / "s", worse, search=PARAMS))
    assert info.table.loc[info.table["on_front"], "freeze"].tolist() == ["all"]
    line = pareto.draw_pareto(info, LIGHT)["data"][0]
    assert (line["x"], line["y"]) == ([91825169], [90.0])


def test_a_cost_that_was_not_measured_is_told(usual: Select) -> None:
    words = drawn(pareto.PARETO, usual("?cost=energy_j")).why_empty
    assert words.startswith("No completed trial with train size 800 has its energy recorded. 5 of 10 settings")


def test_markers_carry_words_and_intervals(usual: Select) -> None:
    info = costed.prepare_pareto(usual())
    figure = strictly(pareto.draw_pareto(info, LIGHT))
    baseline = figure["data"][1]
    assert (baseline["text"], baseline["marker"]["color"], baseline["mode"]) == (
        ["□ □□□□□□ none"],
        LIGHT.text,
        "markers+text",
    )
    assert all(value is not None for bars in ("error_x", "error_y") for value in baseline[bars]["array"])
    assert baseline["customdata"] == [[3]]
    assert "type" not in figure["layout"]["xaxis"]


def test_names_of_settings_that_stand_close_dodge_and_what_finds_no_room_is_in_the_legend(quiet: Select) -> None:
    info = costed.prepare_pareto(quiet())
    at_one_place = info._replace(table=info.table.assign(cost=1.0, cost_high=2.0, mean=0.9, low=0.9, high=0.9))
    markers = strictly(pareto.draw_pareto(at_one_place, LIGHT))["data"]
    named = [trace["textposition"] for trace in markers if trace["mode"] == "markers+text"]
    assert len(named) == len(set(named)) == 4
    assert [trace["showlegend"] for trace in markers[1:]] == [False] * 4 + [True]


# --- Shares saved


def test_savings_have_a_row_a_cell_and_cost(small: Select) -> None:
    info = shares_saved.prepare_savings(small())
    counted = info.table[info.table["cost"] == "trainable_params"]
    assert counted["freeze"].tolist() == ["first 2", "alternating", "first 4", "all"]
    assert counted["saved"].iloc[0] == pytest.approx(2 * 7_087_872 / 134_352_401)
    assert info.note == (
        "Not available: peak memory: not measured: resident memory of a warm worker; energy: baseline not measured."
    )


def test_a_cost_of_two_devices_is_told_in_place_of_a_figure(tmp_path: Path) -> None:
    apart = Invented(device=lambda spec: "T4" if spec.freeze.depth == 6 else "cpu")
    info = shares_saved.prepare_savings(made(tmp_path / "s", apart, trials=specs(train_sizes=(200,))))
    figure = strictly(shares_saved.draw_savings(info, LIGHT))
    words = next(trace for trace in figure["data"] if trace["mode"] == "text")
    assert words["text"] == [" training time: different devices: T4 and cpu"]
    assert [round(y) for y in words["y"]] == [3]
