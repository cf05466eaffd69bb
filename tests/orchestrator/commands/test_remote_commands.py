"""The commands on a store in S3: a sweep runs, goes on where it was, and is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.commands.app import app
from orchestrator.store import open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.s3 import ENVIRONMENT, S3Process

SWEEP = """
trial:
  data: {folder: bank}
  optim: {lr: 1e-3, epochs: 1, batch_size: 8}
  train_size: 16
space:
  freeze: [{strategy: first_k, depth: 4, embeddings: true}]
seeds: [0]
name: far
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    write_tagged_treebank(tmp_path / "bank")
    return write_sweep(tmp_path / "far.yaml", SWEEP.replace("folder: ", f"folder: {tmp_path}/"))


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert not any(secret in done.output for secret in ENVIRONMENT.values())
    return done.stdout


def test_a_sweep_is_launched_and_looked_at_in_s3(sweep: Path, s3: S3Process, prefix: str) -> None:
    address = s3.address(prefix)
    launch = ("launch", "--sweep", sweep, "--cluster", "inline", "--json", "--store", address)
    first = json.loads(run(*launch))
    second = json.loads(run(*launch, "--set", "seeds=[0,1]"))
    assert (first["store"], first["completed"], first["skipped"]) == (address, 1, 0)
    assert (second["completed"], second["skipped"]) == (1, 1)
    assert f"2 trials in {address}" in run("status", "--store", address)
    assert len(json.loads(run("status", "--store", address, "--json", "--trials"))["trials"]) == 2
    assert len(open_store(s3.address(prefix)).epochs()) == 2
