"""Tags: confusion, F1 by label, entity errors, beside the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboards.data.selection import PageQuery, Selection
from dashboards.views import error_counts, errors
from dashboards.views.kit.drawing import LIGHT
from tests.dashboards.stores import STRATEGIES, Invented, specs, write_store
from tests.dashboards.views.made import Select, drawn, made, selected, strictly
from trials.spec import TrialSpec

Labels = Sequence[str]


def _kept(
    folder: Path,
    predicted: Callable[[TrialSpec], Labels],
    gold: Labels = ("NOUN", "NOUN", "VERB", "X"),
    search: str = "",
    **changes: Any,
) -> Selection:
    """A store with one sentence of predictions on dev for every trial."""
    trials = specs(train_sizes=(200,), strategies=(STRATEGIES[0], STRATEGIES[1], STRATEGIES[4]), **changes)
    store = write_store(folder, trials)
    rows = [
        {
            "trial_id": spec.trial_id, "attempt": 1, "split": "dev", "sentence": 0, "forms": ["w"] * len(gold),
            "gold": list(gold), "predicted": [label or None for label in predicted(spec)],
        }
        for spec in trials
    ]  # fmt: skip
    store.append("predictions", rows)
    return selected(store, search)


def _worse_if_frozen(spec: TrialSpec) -> Labels:
    return ("NOUN", "VERB" if spec.freeze.depth else "NOUN", "VERB", "")


@pytest.fixture(scope="module")
def worse(tmp_path_factory: pytest.TempPathFactory) -> Selection:
    """Trials that take a noun for a verb where anything is frozen."""
    return _kept(tmp_path_factory.mktemp("worse") / "s", _worse_if_frozen)


def test_confusion_is_a_share_of_each_gold_label_and_its_change(worse: Selection) -> None:
    info = error_counts.prepare_confusion(worse)
    assert (info.labels, info.columns) == (("NOUN", "VERB", "X"), ("NOUN", "VERB", "X", "(cut off)"))
    assert info.shares.tolist() == [[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert info.difference[0].tolist() == [-0.5, 0.5, 0, 0]
    assert (info.counts.sum(), info.cells.name) == (3 * 4, "first 2")


def test_a_freeze_without_a_completed_trial_is_told(worse: Selection) -> None:
    info = error_counts.prepare_confusion(
        replace(worse, query=worse.query.but(freeze="first 9"), url_query=PageQuery(freeze="first 9"))
    )
    assert info.note == "No trial with 'first 9' frozen has completed."
    assert info.cells.name == "all"


def test_rare_labels_are_put_together(tmp_path: Path) -> None:
    gold = [f"T{n:02}" for n in range(40) for _ in range(41 - n)]
    info = error_counts.prepare_confusion(_kept(tmp_path / "s", lambda spec: gold, gold))
    assert info.labels == (*(f"T{n:02}" for n in range(30)), "(others)")
    assert np.diag(info.shares).tolist() == [1.0] * 31
    assert info.note == "10 rarer labels combined as (others)."


def test_predictions_that_were_not_kept_are_told_with_the_way_out(usual: Select) -> None:
    for part in (error_counts.CONFUSION, error_counts.ENTITIES):
        words = drawn(part, usual()).why_empty
        assert words.startswith("No predictions on dev are stored")
        assert "predictions: all" in words


def test_differences_are_paired_by_seed_and_label(tmp_path: Path) -> None:
    quiet = Invented(noise=0.0, score=lambda spec: 0.9 - 0.01 * spec.freeze.depth)
    info = errors.prepare_tags(made(tmp_path / "s", quiet))
    assert info.table["tag"].tolist() == ["NOUN", "VERB", "X"]
    assert info.table["support"].tolist() == [500, 300, 20]
    assert info.table["loss"].to_numpy() == pytest.approx([2] * 3)
    assert (info.level, info.cells.name, info.cells.train_size) == ("token", "first 2", 800)
    assert set(info.table["n_pairs"]) == {3}


def test_entity_errors_are_means_of_a_trial(tmp_path: Path) -> None:
    gold = ("B-LOC", "I-LOC", "O", "B-PER", "O")

    def predicted(spec: TrialSpec) -> Labels:
        return gold if not spec.freeze.depth else ("B-PER", "I-PER", "B-LOC", "O", "O")

    info = error_counts.prepare_entities(_kept(tmp_path / "s", predicted, gold))
    means = info.means.pivot(index="cell", columns="kind", values="mean")
    assert means.loc[info.cells.baseline].tolist() == [0, 0, 0, 0]
    assert means.loc[info.cells.cell, ["missed", "spurious", "wrong_type", "wrong_boundary"]].tolist() == [1, 1, 1, 0]
    figure = strictly(error_counts.draw_entities(info, LIGHT))
    assert [trace["type"] for trace in figure["data"]] == ["bar", "scatter"] * 2
    assert figure["data"][2]["y"] == [1, 1, 1, 0]
