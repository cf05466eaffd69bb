"""`permafrost answer`: one object for each corpus, model and train size, in words and as JSON, without Ray."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from tests.dashboards.stores import Invented, specs, write_store

CLEAR = Invented(noise=0.001, score=lambda spec: 0.9 - (0.03 if spec.freeze.depth > 2 else 0.001 * spec.freeze.depth))
FIELDS = [
    "task", "corpus", "model", "train_size", "setup", "tolerance", "cost", "min_saving", "outcome", "decided", "freeze",
    "about", "loss", "low", "high", "saved", "saved_flops", "saved_time", "collapsed", "runs", "baseline_collapsed",
    "baseline_runs", "collapse_possible", "loss_all", "n_seeds", "n_sentences", "n_documents", "baseline_learned",
    "excluded", "further_seeds", "trade_offs", "settings", "headline", "lines", "notes", "sentence",
    "frozen_dropout", "yaml", "own_training", "runner_up",
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two train sizes, five freezes, five seeds, with contributions of 300 sentences."""
    folder, trials = tmp_path_factory.mktemp("answer") / "store", specs(seeds=range(5))
    made = write_store(folder, trials, CLEAR)
    rng, shared = np.random.default_rng(0), np.random.default_rng(1).normal(0, 0.2, 300)
    for row in made.trials().to_pylist():
        values = shared + rng.normal(0, 0.02, 300)
        values += row["best_score"] - values.mean()
        key = {"trial_id": row["trial_id"], "attempt": row["attempt"], "split": "dev"}
        made.append("contributions", [{**key, "values": values.tolist()}])
    return folder


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["answer", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_json_has_an_object_for_each_train_size_and_the_words_are_its(store: Path) -> None:
    found = json.loads(run("--store", str(store), "--json"))
    assert [(each["train_size"], each["freeze"], each["decided"]) for each in found] == [
        (800, "first 2", True),
        (200, "first 2", True),
    ]
    first, words = found[0], " ".join(run("--store", str(store)).split())
    assert list(first) == FIELDS
    assert first["low"] < first["loss"] < first["high"] <= 1.0
    assert (first["n_seeds"], first["n_sentences"]) == (5, 300)
    assert first["yaml"] == "trial:\n  freeze: {strategy: first_k, depth: 2}\n  frozen_dropout: true\n"
    assert all(" ".join(line.split()) in words for each in found for line in each["lines"])
    whole = run("--store", str(store), "--full")
    full = " ".join(whole.split())
    assert all(note in full for each in found for note in each["notes"])
    assert all(each["own_training"] and each["own_training"].rstrip() in whole for each in found)  # to be copied
    assert not any(note in words for each in found for note in each["notes"])
    assert all(line in each["sentence"] for each in found for line in (each["headline"], *each["notes"]))
    for tighter in json.loads(run("--store", str(store), "--json", "--tolerance", "0.2")):
        assert not tighter["decided"]
        assert tighter["headline"] in ("Not decided", "Not decided yet")
        assert "which is not shown to be at most 0.2 points" in tighter["lines"][1]


def test_a_sweep_that_is_not_there_and_an_unknown_cost_are_refused(store: Path) -> None:
    assert "has no sweep 'other'; it has made-up." in run("--store", str(store), "--sweep", "other", code=5)
    assert "--cost: 'money' is not one of" in run("--store", str(store), "--cost", "money", code=2)
