"""The curve of an answer in characters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.analysis.answer_text import Loss, curve_lines, plot, tolerance_lines
from orchestrator.analysis.decide import TradeOff
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.setting_phrases import takes_text
from orchestrator.analysis.wording import AnswerWords, interim_line
from tests.orchestrator.analysis.frames import freeze_of


def setting(freeze: str, loss: float, low: float | None, high: float | None, **others: Any) -> dict[str, Any]:
    values = {"n_pairs": 3, "saved": 0.31, "saved_flops": 0.31, "saved_time": None, "saved_memory": None}
    values["chance"] = None
    return {"freeze": freeze, "loss": loss, "low": low, "high": high, **values, **others}


def answer(*settings: dict[str, Any], tolerance: float = 1.0, **others: Any) -> Any:
    values = {"n_layers": 6, "cost": "training_flops", "freeze": None, "decided_by": bought()}
    values["freezes"] = [freeze_of(row["freeze"]) for row in settings]
    return SimpleNamespace(settings=settings, tolerance=tolerance, **{**values, **others})


def bought(*trade_offs: TradeOff) -> Any:
    return SimpleNamespace(n_beyond=0, trade_offs=trade_offs)


def test_losses_stand_on_one_scale_with_zero_and_the_tolerance() -> None:
    near, far = plot([Loss(0.5, 0.0, 1.0), Loss(2.0, 1.5, 2.5)], 1.0, width=27)
    assert (near.index("●"), far.index("●")) == (6, 21)
    assert near.index("├") == far.index("│") == 1
    assert near.index("┤") == far.index("┊") == 11
    assert near.count("─") == 8
    without = plot([Loss(0.0, None, None), None], 1.0)
    assert [line.count("●") for line in without] == [1, 0]
    assert all("─" not in line and "┊" in line for line in without)
    (beyond,) = plot([Loss(1.0, 0.5, 300.0)], 1.0)
    assert ("├" in beyond, "┤" in beyond, beyond[-1]) == (True, False, "─")
    assert plot([None], 1.0) == [""]


def test_each_setting_has_its_strip_seeds_loss_and_savings() -> None:
    lines = curve_lines(
        answer(setting("first 2+E", 0.85, -0.1, 1.9, saved_time=0.28), setting("all+E", 9.0, None, None))
    )
    assert lines[1].startswith("■ ■■□□□□ first 2  3      0.85 (-0.10 to 1.90)  31 % FLOPs, 28 % time")
    assert lines[2].startswith("■ ■■■■■■ all      3      9.00")


def test_what_is_not_decided_has_its_chance_in_a_column_that_others_leave_empty() -> None:
    lines = curve_lines(answer(setting("first 2+E", 0.85, -0.1, 1.9, chance=0.62), setting("all+E", 9.0, 8.0, 10.0)))
    assert lines[0].split()[:5] == ["freeze", "seeds", "loss", "(interval)", "chance"]
    assert ["62 %" in line for line in lines[1:3]] == [True, False]
    assert "chance: that what is not decided is within the tolerance; no verdict" in lines


def test_the_plot_takes_the_room_that_is_left_or_stands_below_the_table() -> None:
    settings = [setting(f"first {k}+E", k / 2, k / 2 - 1, k / 2 + 1) for k in range(1, 7)]
    assert max(map(len, curve_lines(answer(*settings), 80))) <= 80
    wide = setting("first 5+E", 25.79, -13.05, 103.47, saved_time=0.51, saved_memory=0.4)
    lines = curve_lines(answer(wide), 80)
    assert lines[1].endswith("31 % FLOPs, 51 % time, 40 % memory")
    assert lines[2] == "freeze            loss in points"
    assert "●" in lines[3]
    assert max(map(len, lines)) <= 80
    assert max(map(len, curve_lines(answer(wide, *settings), 56))) <= 56
    assert curve_lines(answer(setting("first 2+E", 0.0, None, None, n_pairs=0))) == []


@pytest.mark.parametrize(
    ("tolerance", "first"),
    [(1.0, "  within 1 point: not decided"), (5.0, "  within 2.1 points: ■ ■□□□□□ first 1, saves 18 %")],
)
def test_what_each_tolerance_buys_begins_with_the_one_that_was_asked_for(tolerance: float, first: str) -> None:
    first_1 = TradeOff(2.03, "1", freeze_of("first 1+E"), 0.18, 1.0)
    first_2 = TradeOff(4.94, "2", freeze_of("first 2+E"), 0.31, 2.0)
    lines = tolerance_lines(answer(tolerance=tolerance, decided_by=bought(first_1, first_2)))
    assert lines[1] == first
    assert lines[-1] == "  within 5 points: ■ ■■□□□□ first 2, saves 31 %"
    assert tolerance_lines(answer()) == ["what each tolerance buys:", "  within 1 point: not decided"]


def test_while_a_sweep_runs_the_line_is_what_the_tolerance_buys_so_far() -> None:
    words = AnswerWords("Freeze the first 1 of 6 layers", "freeze the first 1 of 6 layers", "", ", within 3 points", "")
    chosen: Any = SimpleNamespace(choice={"saved": 0.18})
    assert (
        interim_line("EWT", words, chosen) == "so far  EWT: freeze the first 1 of 6 layers, within 3 points, saves 18 %"
    )
    undecided: Any = SimpleNamespace(
        choice=None,
        plan=DecisionPlan(tolerance=1.0),
        n_layers=6,
        trade_offs=(TradeOff(2.03, "cell", freeze_of("first 1+E"), 0.18, 1.0),),
    )
    assert interim_line(
        "EWT", AnswerWords("Not decided yet", "about 9 more seeds to decide", "", "", ""), undecided
    ) == ("so far  EWT: not decided yet within 1 point; within 2.1 points ■ ■□□□□□ first 1, saves 18 %")


def test_what_is_missing_is_a_whole_number_also_in_a_row_of_floats() -> None:
    row = {"further_seeds": 4.0, "further_sentences": 1007.0, "seeds_share": 0.2, "n_documents": 10.0, "n_folds": None}
    assert takes_text(row) == "1,007 more dev documents or 4 more seeds"
