"""Copies of the tree, in which files are missing, and commands that run there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SWEEP = """
name: small
trial: {train_size: 40, lowercase: true, frozen_dropout: false, optim: {lr: 1e-3, head_lr: 5e-3, epochs: 2}}
space:
  data: [UD_English-EWT-sample]
  freeze: [none, {strategy: first_k, depth: 4, embeddings: true}]
seeds: [0, 1]
"""
COMMAND = "from dashboards.cli import app; app()"


def copied(tree: Path, *without: str) -> Path:
    """The tree with its compiled modules, so that no process has to compile them."""
    for root in ("orchestrator", "trials", "dashboards", "configs"):
        shutil.copytree(ROOT / root, tree / root)
    for name in without:
        shutil.rmtree(tree / "orchestrator" / name)
    return tree


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, "-P", *words], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
