"""Sweeps with `keep: weights`: models are exported from the store, without training again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load
from typer.testing import CliRunner

from orchestrator.commands.app import app
from orchestrator.store import ResultStore
from orchestrator.store.stored_tensors import WEIGHTS, find_weights
from tests.small_sweeps import launched, write_bank, write_reviews

SWEEP = """
trial: {lowercase: true, optim: {lr: 1e-3, head_lr: 1e-2, epochs: 1}}
space:
  cases:
    - {task: pos, data: {folder: bank}, freeze: {strategy: first_k, depth: 4, embeddings: true}, frozen_dropout: false}
    - {task: pos, data: {folder: bank}, freeze: {strategy: first_k, depth: 2}, lora: {rank: 4, targets: linear}}
    - {task: classification, data: {folder: reviews}, freeze: {strategy: first_k, depth: 5, embeddings: true}}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    folder = tmp_path_factory.mktemp("kept")
    write_bank(folder / "bank", train=24, dev=8, test=8)
    write_reviews(folder / "reviews")
    return launched(folder, f"{SWEEP}keep: weights\n")


def export(store: ResultStore, trial_id: str, out: Path) -> str:
    """Export a model; what the command said."""
    words = ["export", "model", "--trial", trial_id, "--store", str(store.root), "-o", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stderr


def test_an_exported_model_is_that_of_training_again_to_the_bit(store: ResultStore, tmp_path: Path) -> None:
    without = ResultStore(Path(shutil.copytree(store.root, tmp_path / "without")))
    shutil.rmtree(without.root / WEIGHTS)
    for row in store.trials().to_pylist():
        trial_id = row["trial_id"]
        assert "rerun" not in export(store, trial_id, tmp_path / "kept" / trial_id)
        assert "so the trial is trained again (" in export(without, trial_id, tmp_path / "again" / trial_id)
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            kept, again = (tmp_path / which / trial_id / name for which in ("kept", "again"))
            assert kept.read_bytes() == again.read_bytes(), (row["task"], name)


def test_only_trained_tensors_are_stored(store: ResultStore) -> None:
    for row in store.trials().to_pylist():
        content = find_weights(store.storage, row["trial_id"])
        assert content is not None
        tensors = load(content)
        assert sum(tensor.numel() for tensor in tensors.values()) == row["trainable_params"]
        header_bytes = 8 + int.from_bytes(content[:8], "little")
        assert len(content) == header_bytes + 4 * row["trainable_params"]
