"""Picked trials side by side: which can be compared, and what is paired."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dashboards.data.selection import Selection
from dashboards.views import compare
from dashboards.views.compare import picks_of
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import compute
from orchestrator.store import ResultStore
from tests.dashboards.stores import STRATEGIES, Invented, specs, write_store
from tests.dashboards.views.made import html_of, selected, strictly

TRIALS = specs(seeds=(0, 1), strategies=STRATEGIES[:2])
IDS = {(spec.freeze.depth, spec.train_size, spec.seed): spec.trial_id for spec in TRIALS}
BASE, FROZEN = IDS[0, 800, 0], IDS[2, 800, 0]
WORDS, GOLD = ["the", "dog", "barks"], ["DET", "NOUN", "VERB"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    store = write_store(tmp_path_factory.mktemp("compare") / "s", TRIALS, Invented(noise=0.001))
    store.append("predictions", [*_rows(BASE, ["DET", "NOUN", "VERB"]), *_rows(FROZEN, ["DET", "VERB", "VERB"])])
    return store


def _rows(trial_id: str, predicted: list[str]) -> list[dict[str, Any]]:
    same = {"trial_id": trial_id, "attempt": 1, "split": "dev", "forms": WORDS, "gold": GOLD}
    return [{**same, "sentence": 0, "predicted": predicted}, {**same, "sentence": 1, "predicted": GOLD}]


def _picked(store: ResultStore, *trial_ids: str) -> Selection:
    return selected(store, f"?trials={','.join(trial_ids)}")


@pytest.mark.parametrize(
    ("picked", "words"),
    [
        ((), "No trial is picked yet. Tick two to six"),
        ((BASE,), "Only one trial is picked"),
        (("f" * 16, BASE), f"This store has no trial {'f' * 16!r}"),
        (tuple(IDS.values())[:7], "7 trials are picked, and at most 6 fit"),
    ],
)
def test_what_cannot_be_compared_is_said_with_the_next_step(
    store: ResultStore, picked: tuple[str, ...], words: str
) -> None:
    selection = _picked(store, *picked)
    assert words in picks_of(selection).why_not
    assert "Trials" in picks_of(selection).why_not
    assert all(words in compute(part, selection, LIGHT).why_empty for part in compare.VIEW.parts)


def test_an_unknown_trial_among_known_ones_is_named_and_the_others_are_compared(store: ResultStore) -> None:
    picks = picks_of(_picked(store, BASE, "0" * 16, FROZEN))
    assert (picks.why_not, picks.trials["trial_id"].tolist()) == ("", [BASE, FROZEN])
    assert "0" * 16 in picks.note


def test_trials_of_one_seed_are_paired_and_others_say_why_not(store: ResultStore) -> None:
    table = compare.prepare_scores(_picked(store, BASE, FROZEN, IDS[2, 800, 1], IDS[0, 200, 0]))
    said = ["reference", "yes, by seed", "no: other seed", "not compared: other train size"]
    assert table["paired with 1"].tolist() == said
    scores, differences = table["dev score (%)"].tolist(), table["difference to 1 (points)"].tolist()
    assert differences[:3] == pytest.approx([0, scores[1] - scores[0], scores[2] - scores[0]])
    assert differences[3] != differences[3]


def test_two_pairs_have_an_interval_and_one_has_none(store: ResultStore) -> None:
    one = compare.prepare_pairs(_picked(store, BASE, FROZEN)).iloc[0]
    assert (one["pairs"], one["note"]) == (1, "one seed: an interval needs two")
    two = compare.prepare_pairs(_picked(store, BASE, FROZEN, IDS[0, 800, 1], IDS[2, 800, 1])).iloc[0]
    assert two["pairs"] == 2
    assert two["95 % from (points)"] < two["difference (points)"] < two["95 % to (points)"]


def test_unpaired_trials_have_no_paired_difference_and_say_what_to_pick(store: ResultStore) -> None:
    words = compute(compare.PAIRS, _picked(store, BASE, IDS[2, 800, 1]), LIGHT).why_empty
    assert "Pick trials of the same seed" in words


def test_only_settings_that_differ_come_first(store: ResultStore) -> None:
    table = compare.prepare_settings(_picked(store, BASE, FROZEN))
    assert table.loc[table["differs"], "setting"].tolist() == ["freeze.strategy", "freeze.layers"]
    assert "that are the same in all" in str(compare.settings_body(table))


def test_each_line_of_the_curves_is_named_at_its_end_apart_from_the_others(store: ResultStore) -> None:
    info = compare.prepare_curves(_picked(store, *list(IDS.values())[:6]))
    figure = strictly(compare.draw_curves(info, LIGHT))
    lines = [trace for trace in figure["data"] if trace["yaxis"] == "y"]
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in lines}) == 6
    labels = [note for note in figure["layout"]["annotations"] if note["yref"] == "y"]
    assert {note["text"][0] for note in labels} == set("123456")
    assert all(b["y"] > a["y"] for a, b in pairwise(labels))


def test_the_list_of_picked_trials_is_made_of_text(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    hostile = specs(seeds=(0, 1), train_sizes=(200,), data={"name": script}, model={"name": script})
    selection = _picked(write_store(tmp_path / "s", hostile), *(spec.trial_id for spec in hostile[:3]))
    assert script not in html_of(compare.picked_list(selection))
