"""Answer: the sentences, the cards, and what to run next."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from plotly.io.json import to_json_plotly

from dashboards.data.selection import Selection
from dashboards.views import losses
from dashboards.views.kit.cards import (
    MOST_CARDS,
    answers_of_page,
    answers_table,
    cards_or_table,
    interval_bar,
    next_command,
    settings_of,
    short_answers,
    short_sentence,
)
from orchestrator.analysis.answer import Answer, freeze_yaml
from orchestrator.analysis.answer_text import Loss
from orchestrator.analysis.decide import decide
from tests.builders import SPEC
from tests.dashboards.stores import specs
from tests.dashboards.views.conftest import CLEAR
from tests.dashboards.views.made import Select, drawn, made
from tests.orchestrator.analysis.frames import sweep
from trials.draft import FreezeDraft
from trials.spec import FreezeSpec, ModelSpec, Seeds


def _answers(selection: Selection) -> list[Answer]:
    return answers_of_page(selection).answers


def _text(component: Any) -> str:
    return json.dumps(json.loads(to_json_plotly(component)), ensure_ascii=False)


def test_choosing_on_test_is_refused(tmp_path: Path) -> None:
    words = "No answer: the test split is shown once and selects nothing; choose on dev."
    assert drawn(losses.LOSSES, made(tmp_path / "s", search="?split=test")).why_empty == words


def test_the_answer_is_the_largest_saving_within_the_tolerance(clear: Select) -> None:
    found = _answers(clear(""))
    assert [each.train_size for each in found] == [800, 200]
    assert short_sentence(found) == "tiny: freeze the first 2 of 6 layers."
    assert found[0].yaml == "trial:\n  freeze: {strategy: first_k, depth: 2}\n  frozen_dropout: true\n"
    assert settings_of(found[0]).set_index("freeze")["qualifies"].to_dict()["first 2"]


def _named(found: list[Answer], *names: str) -> list[Answer]:
    return [replace(found[0], corpus=name) for name in names]


def test_corpora_with_the_same_answer_share_a_sentence_and_each_other_has_its_own(clear: Select) -> None:
    large, small = _answers(clear(""))
    frame = sweep(np.random.default_rng(0), {"first 2": 0.005}, 4, 0.005)
    undecided, unlearned = (replace(large, decided_by=decide(rows)) for rows in (frame, frame.assign(collapsed=1.0)))
    assert undecided.further_seeds
    told = short_answers(
        [*_named([large], "a", "b"), *_named([small], "c"), *_named([undecided], "d"), *_named([unlearned], "e")]
    )
    more = f"about {undecided.further_seeds} more seeds to decide."
    assert told == [("a, b, c", "freeze the first 2 of 6 layers."), ("d", more), ("e", "not learned.")]


def test_the_cost_and_the_budget_of_the_page_count(clear: Select) -> None:
    found = [_answers(clear(search))[0].freeze for search in ("", "?cost=trainable_params&budget=1e8")]
    assert found == ["first 2", "none"]


def test_a_decided_card_shows_the_strip_the_loss_the_saving_and_the_yaml(clear: Select) -> None:
    selection = clear("")
    assert selection.sweep is not None
    words = _text(cards_or_table(_answers(selection), selection.sweep, "results"))
    for part in ("□ ■■□□□□", "Freeze the first 2 of 6 layers", "Loses 0.2 points", "% of the training", "depth: 2"):
        assert part in words
    assert "permafrost launch" not in words


def test_from_five_answers_on_they_are_rows_of_a_table(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", CLEAR, trials=specs(train_sizes=range(100, 600, 100)))
    assert selection.sweep is not None
    found = _answers(selection)
    assert len(found) == MOST_CARDS + 1
    words = _text(cards_or_table(found, selection.sweep, "results"))
    assert words.count('"Tr"') == len(found) + 1
    assert answers_table(found)["train size (sentences)"].tolist() == [500, 400, 300, 200, 100]


def test_one_command_launches_the_seeds_that_would_probably_decide_all(tmp_path: Path) -> None:
    selection = made(tmp_path / "s")
    found = _answers(selection)
    assert selection.sweep is not None
    more = max(each.further_seeds or 0 for each in found if not each.decided)
    assert more
    command = next_command(more, selection.sweep, "s3://bucket/a b")
    assert command is not None
    assert (
        _text(cards_or_table(found, selection.sweep, "s3://bucket/a b")).count("permafrost launch") == 2
    )  # and to copy
    words = shlex.split(command)
    assert words[words.index("--store") + 1] == "s3://bucket/a b"
    assert words[words.index("--set") + 1] == f"seeds=[{','.join(map(str, range(3 + more)))}]"
    assert next(each for each in found if not each.decided).headline == "Not decided yet"


def test_crossed_seeds_have_no_command(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=specs(train_sizes=(200,)))
    assert selection.sweep is not None
    selection.sweep.trials["seed"] = Seeds.from_settings(0, 1).key
    assert next_command(2, selection.sweep, "results") is None


@pytest.mark.parametrize(
    ("low", "high", "side"),
    [(-1.0, 0.5, "within"), (2.0, 3.0, "beyond"), (0.0, 2.0, "across"), (None, None, "across")],
)
def test_the_bar_says_on_which_side_of_the_tolerance_the_interval_lies(
    low: float | None, high: float | None, side: str
) -> None:
    loss = 0.0 if low is None or high is None else (low + high) / 2
    bar = interval_bar(Loss(loss, low, high), 1.0, (-1.0, 3.0))
    assert bar.className == f"interval {side}"
    places = [float(value[:-1]) for child in bar.children for value in (child.style or {}).values()]
    assert all(0 <= place <= 100 for place in places)


@pytest.mark.parametrize(
    ("strategy", "layers", "embeddings", "text"),
    [
        ("none", (), False, "none"),
        ("none", (), True, "{strategy: first_k, depth: 0, embeddings: true}"),
        ("first_k", (0, 1), True, "{strategy: first_k, depth: 2, embeddings: true}"),
        ("last_k", (4, 5), False, "{strategy: last_k, depth: 2}"),
        ("alternating", (0, 2, 4), False, "alternating"),
        ("all_encoder", (0, 1, 2, 3, 4, 5), True, "{strategy: all_encoder, embeddings: true}"),
        ("layers", (0, 5), False, "{strategy: layers, layers: [0, 5]}"),
    ],
)
def test_a_snippet_freezes_what_it_says(strategy: str, layers: tuple[int, ...], embeddings: bool, text: str) -> None:
    freeze = FreezeSpec(strategy=strategy, layers=layers, embeddings=embeddings)
    snippet = freeze_yaml(freeze, 6)
    assert snippet == f"trial:\n  freeze: {text}\n"
    content = yaml.safe_load(snippet)["trial"]["freeze"]
    draft = FreezeDraft.model_validate({"strategy": content} if isinstance(content, str) else content)
    assert draft.resolve(ModelSpec.model_validate(SPEC["model"])) == freeze
