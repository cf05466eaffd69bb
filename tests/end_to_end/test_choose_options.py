"""What `choose` can be asked beside the depths: another dev split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.store import open_store
from tests.own_corpora import treebank

pytestmark = pytest.mark.slow
N_TRAIN, N_DEV = 90, 30


def test_with_folds_every_example_serves_and_the_answer_says_that_seeds_share_them() -> None:
    folder = treebank(Path("bank"))
    (folder / "dev.conllu").unlink()
    path = folder / "train.conllu"
    path.write_text("\n\n".join(path.read_text(encoding="utf-8").split("\n\n")[:260]) + "\n\n", encoding="utf-8")
    words = ("--folds", "5", "--tolerance", "1", "--max-hours", "0.03", "--cluster", "inline", "--json")
    done = CliRunner().invoke(app, ["choose", "bank", *words])
    assert done.exit_code == 0, done.output
    assert "bank: 260 sentences in 5 folds and " in done.stderr
    found = json.loads(done.stdout)
    (answer,) = found["answers"]
    specs = open_store("results").sweeps()[0].specs
    assert {spec.data.fold for spec in specs} == {0, 1, 2, 3, 4}
    assert {spec.seed % 5 == spec.data.fold for spec in specs} == {True}
    assert {spec.data.sizes for spec in specs} == {(208, 52, 0)}
    assert answer["n_sentences"] == 260
    assert any(row["n_pairs"] for row in answer["settings"])
    assert answer["decided"] or found["next"]
    checked = CliRunner().invoke(app, ["store", "verify", "--store", "results"])
    assert checked.exit_code == 0, checked.output
