"""`permafrost layers` on a small sweep of the starter: measured once, stored, and shown as on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.extras.layer_probing.layer_curves import findings
from orchestrator.extras.layer_probing.layers_page import layers_table, prepare_layers
from orchestrator.extras.store_care.check import check_store
from orchestrator.store import open_store
from tests.dashboards.views.made import selected
from tests.small_sweeps import launched, write_bank

SWEEP = """
trial:
  data: {folder: bank}
  train_size: 16
  lowercase: true
  frozen_dropout: false
  optim: {lr: 1e-3, head_lr: 1e-2, epochs: 1}
space:
  freeze: [none, {strategy: first_k, depth: 4, embeddings: true}]
seeds: [0]
keep: weights
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A launched sweep whose layers were measured."""
    folder = tmp_path_factory.mktemp("layers")
    write_bank(folder / "bank", train=20, dev=6, test=2)
    launched(folder, SWEEP)
    layers(folder)
    return folder


def run(*words: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["layers", *map(str, words)])
    assert result.exit_code == code, result.output
    return result


def layers(folder: Path, *words: str) -> Any:
    return run("--sweep", folder / "small.yaml", "--store", folder / "results", *words)


def test_every_depth_has_a_probe_a_drift_and_where_it_was_frozen_a_loss(folder: Path) -> None:
    found = json.loads(layers(folder, "--json").stdout)
    assert [row["depth"] for row in found] == list(range(7))
    assert all(0 < row["probe"] < 1 and row["n_probes"] == row["n_drifts"] == 1 for row in found)
    assert all(row["drift"] > 0 for row in found)
    assert [row["depth"] for row in found if row["loss"] is not None] == [4]


def test_what_is_stored_is_not_measured_again(folder: Path) -> None:
    before = open_store(folder / "results")
    counts = len(before.probes()), len(before.drifts())
    assert counts == (7, 2 * 7)
    assert "added" not in layers(folder).stderr
    assert (len(before.probes()), len(before.drifts())) == counts
    assert check_store(before.storage).ok


def test_the_table_says_what_the_page_says(folder: Path) -> None:
    words = layers(folder).stdout
    info = prepare_layers(selected(open_store(folder / "results")))
    page = layers_table(info)
    assert all(f"{said}." in words for said in findings(info.table, 0.01).values())
    for probe, moved in zip(page["probe (%)"], page["weights moved (%)"], strict=True):
        assert f"{probe:.2f}" in words
        assert f"{moved:.2f} %" in words
    assert "■ ■■■■□□" in words


@pytest.mark.slow
def test_data_without_a_sweep_is_probed_with_three_train_subsets(folder: Path, tmp_path: Path) -> None:
    done = run("--data", folder / "bank", "--store", tmp_path / "store")
    assert "21 probes and 0 rows of drift added" in done.stderr
    assert "bank, 20 train items, accuracy" in done.stdout


def test_either_a_sweep_or_data_is_asked_for() -> None:
    assert "give either --sweep FILE or --data DATA" in run("--sweep", "a.yaml", "--data", "bank", code=2).stderr


@pytest.mark.slow
def test_trials_without_weights_are_named_with_what_would_keep_them(tmp_path: Path) -> None:
    write_bank(tmp_path / "bank", train=20, dev=6, test=2)
    launched(tmp_path, SWEEP.replace("keep: weights", ""))
    assert "2 completed trials without stored weights: drift needs `keep: weights`" in layers(tmp_path).stderr
