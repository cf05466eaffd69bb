"""The answer cards: what they show of an answer, and what to run next."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
from plotly.io.json import to_json_plotly

from dashboards.data.selection import Selection
from dashboards.views.kit.answers import answers_of_sweep, card_of, interval_bar, next_command
from dashboards.views.overview import first_glance
from orchestrator.analysis.answer import Answer
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import made
from trials.settings import Seeds

CLEAR = Invented(noise=0.001, score=lambda spec: 0.9 - (0.02 if spec.freeze.depth > 2 else 0.001 * spec.freeze.depth))
COSTLY = Invented(noise=0.001, score=lambda spec: 0.9 - 0.05 * (spec.freeze.depth > 0))


def _answers(selection: Selection) -> list[Answer]:
    return answers_of_sweep(selection, 24)[0]


def _text(component: Any) -> str:
    return json.dumps(json.loads(to_json_plotly(component)), ensure_ascii=False)


def test_a_decided_card_shows_the_strip_the_loss_the_saving_and_the_yaml(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", CLEAR, trials=specs(seeds=range(5)))
    assert selection.sweep is not None
    words = _text(card_of(_answers(selection)[0], selection.sweep, "results"))
    for part in ("□ ■■□□□□", "Freeze the first 2 of 6 layers", "Loses 0.2 points", "% of the training", "depth: 2"):
        assert part in words
    assert "permafrost launch" not in words


def test_where_all_settings_cost_too_much_the_card_shows_the_one_that_costs_least(tmp_path: Path) -> None:
    answer = _answers(made(tmp_path / "s", COSTLY, trials=specs(seeds=range(5))))[0]
    row = answer.recommendation.subject
    assert answer.freeze == "none"
    assert row is not None
    assert row["loss"] > 0.01


def test_an_undecided_card_shows_the_command_with_the_seeds_that_would_probably_decide(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=specs(train_sizes=(200,)))
    answer = _answers(selection)[0]
    assert selection.sweep is not None
    assert answer.further_seeds
    command = next_command(answer.further_seeds, selection.sweep, "s3://bucket/a b")
    assert command is not None
    assert json.dumps(command, ensure_ascii=False) in _text(card_of(answer, selection.sweep, "s3://bucket/a b"))
    words = shlex.split(command)
    assert words[words.index("--store") + 1] == "s3://bucket/a b"
    assert words[words.index("--set") + 1] == f"seeds=[{','.join(map(str, range(3 + answer.further_seeds)))}]"


def test_crossed_seeds_have_no_command(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=specs(train_sizes=(200,)))
    assert selection.sweep is not None
    selection.sweep.trials["seed"] = Seeds.of(0, 1).key
    assert next_command(2, selection.sweep, "results") is None


@pytest.mark.parametrize(
    ("low", "high", "side"),
    [(-0.01, 0.005, "within"), (0.02, 0.03, "beyond"), (0.0, 0.02, "across"), (math.nan, math.nan, "across")],
)
def test_the_bar_says_on_which_side_of_the_tolerance_the_interval_lies(low: float, high: float, side: str) -> None:
    bar = interval_bar(
        {"loss": 0.0 if math.isnan(low) else (low + high) / 2, "low_decides": low, "high_decides": high}, tolerance=1.0
    )
    assert bar.className == f"interval {side}"
    places = [float(value[:-1]) for child in bar.children for value in (child.style or {}).values()]
    assert all(0 <= place <= 100 for place in places)


def test_the_overview_answers_every_corpus_model_and_size_whatever_is_selected(tmp_path: Path) -> None:
    trials = [*specs(seeds=range(5)), *specs(seeds=range(5), train_sizes=(300,))]
    words = _text(first_glance(made(tmp_path / "s", CLEAR, trials=trials, search="?size=200")))
    assert [f"{size} for training" in words for size in (200, 300, 800)] == [True] * 3


def test_with_more_answers_than_cards_those_of_the_largest_sizes_are_computed(tmp_path: Path) -> None:
    found, n = answers_of_sweep(made(tmp_path / "s", CLEAR, trials=specs(train_sizes=(100, 200, 300))), 2)
    assert ([answer.train_size for answer in found], n) == ([300, 200], 3)


def test_the_cost_and_the_budget_of_the_page_count_for_the_whole_sweep(tmp_path: Path) -> None:
    trials = specs(seeds=range(5))
    freezes = [
        _answers(made(tmp_path / str(n), CLEAR, trials=trials, search=search))[0].freeze
        for n, search in enumerate(("", "?cost=trainable_params&budget=1e8"))
    ]
    assert freezes == ["first 2", "none"]
