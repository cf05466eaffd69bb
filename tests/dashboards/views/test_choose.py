"""Choose: what to freeze, with what it rests on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dashboards.views import choose, non_inferiority
from dashboards.views.kit.answers import headline
from dashboards.views.kit.theme import LIGHT
from orchestrator.analysis.answer import freeze_yaml
from tests.builders import SPEC
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import made, strictly, without_baseline
from trials.draft import FreezeDraft
from trials.settings import FreezeSpec, ModelSpec

CLEAR = Invented(noise=0.001, score=lambda spec: 0.9 - (0.02 if spec.freeze.depth > 2 else 0.001 * spec.freeze.depth))


def test_the_answer_is_the_largest_saving_within_the_tolerance(tmp_path: Path) -> None:
    info = choose.prepare_answers(made(tmp_path / "s", CLEAR, trials=specs(seeds=range(5))))
    assert [answer.train_size for answer in info.answers] == [800, 200]
    assert {(a.decided, a.freeze, headline(a)) for a in info.answers} == {
        (True, "first 2", "Freeze the first 2 of 6 layers")
    }
    assert info.answers[0].sentence.startswith("Freeze the first 2 of 6 layers")
    assert info.answers[0].yaml == "trial:\n  freeze: {strategy: first_k, depth: 2}\n  frozen_dropout: true\n"


def test_what_cannot_be_decided_says_how_many_seeds_would_do(tmp_path: Path) -> None:
    info = choose.prepare_answers(made(tmp_path / "s", trials=specs(train_sizes=(200,))))
    answer = info.answers[0]
    assert (answer.decided, answer.freeze, answer.yaml) == (False, None, "")
    assert answer.further_seeds
    assert headline(answer) == "Not decided yet"


def test_a_page_has_the_sentence_on_its_card_only_and_files_in_the_table(tmp_path: Path) -> None:
    info = choose.prepare_answers(made(tmp_path / "s", CLEAR, trials=specs(seeds=range(5))))
    on_page = json.loads(getattr(choose.answers_body(info), "data-rows"))["head"]
    assert [*choose.answers_table(info).columns] == [*on_page, "answer", "YAML snippet"]


def test_a_budget_is_in_the_unit_of_the_cost(tmp_path: Path) -> None:
    trials = specs(seeds=range(5), train_sizes=(200,))
    search = "?cost=trainable_params&budget=1e8"
    answer = choose.prepare_answers(made(tmp_path / "s", CLEAR, trials=trials, search=search)).answers[0]
    assert (answer.freeze, "over the budget" in answer.sentence) == ("none", True)
    assert (
        choose.prepare_answers(made(tmp_path / "t", CLEAR, trials=trials, search=f"{search}0")).answers[0].freeze
        == "first 2"
    )


def test_no_more_train_sizes_are_answered_than_there_is_time_for(tmp_path: Path) -> None:
    info = choose.prepare_answers(made(tmp_path / "s", trials=specs(train_sizes=range(100, 1100, 100))))
    assert [answer.train_size for answer in info.answers] == [1000, 900, 800, 700, 600, 500]
    assert info.note == "The 6 largest of 10 train sizes are answered; select others above."


def test_without_a_baseline_there_is_no_answer(tmp_path: Path) -> None:
    answer = choose.prepare_answers(without_baseline(made(tmp_path / "s"))).answers[0]
    assert answer.sentence == "Not decided: the baseline (freeze: none) has no completed trial yet."


def test_two_trials_of_one_seed_are_told_not_averaged(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=specs(train_sizes=(200,)))
    doubled = replace(selection, trials=selection.trials.assign(seed=0))
    assert "two completed trials of seed 0" in choose.prepare_answers(doubled).note
    assert "two completed trials of seed 0" in non_inferiority.why_no_non_inferiority(
        non_inferiority.prepare_non_inferiority(doubled)
    )


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


def test_choosing_on_test_is_refused(tmp_path: Path) -> None:
    info = choose.prepare_answers(made(tmp_path / "s", search="?split=test"))
    assert info == choose.SizeAnswers((), "No answer: the test split is shown once and selects nothing; choose on dev.")


# --- The figure


def test_the_tolerance_is_a_band_and_a_filled_marker_passes(tmp_path: Path) -> None:
    info = non_inferiority.prepare_non_inferiority(
        made(tmp_path / "s", CLEAR, trials=specs(seeds=range(5), train_sizes=(200,)))
    )
    figure = strictly(non_inferiority.draw_non_inferiority(info, LIGHT))
    band = figure["layout"]["shapes"][0]
    assert (band["type"], band["x0"], band["x1"]) == ("rect", -1.0, 0)
    marks = dict(zip(info.table["freeze"], figure["data"][0]["marker"]["symbol"], strict=True))
    assert marks == {
        "first 2": "diamond", "alternating": "diamond-open", "first 4": "diamond-open", "all": "diamond-open",
    }  # fmt: skip


def test_a_cell_passes_only_with_its_bound_inside_the_tolerance(tmp_path: Path) -> None:
    info = non_inferiority.prepare_non_inferiority(made(tmp_path / "s", CLEAR, trials=specs(seeds=range(6))))
    inside = info.table["low_all"] >= -info.tolerance / 100
    assert (inside == info.table["shown"]).all()
    assert info.table["shown"].sum() == 2
    tested = info.table[info.table["tested"]]
    assert (tested["low_all"] <= tested["low"]).all()


def test_what_was_not_tested_says_why(tmp_path: Path) -> None:
    strict = Invented(noise=0.001, score=lambda spec: 0.9 - 0.02 * spec.freeze.depth)
    info = non_inferiority.prepare_non_inferiority(
        made(tmp_path / "s", strict, trials=specs(seeds=range(5), train_sizes=(200,)))
    )
    told = dict(
        zip(
            info.table["freeze"],
            non_inferiority.draw_non_inferiority(info, LIGHT)["data"][0]["customdata"],
            strict=True,
        )
    )
    assert "not tested: a setting that freezes less has failed" in told["first 4"][1]
    assert "shown to lose more than 1 point" in told["first 2"][1]
