"""Run the command line: in a process of its own, as a person does, or in this one, where torch is loaded already."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestrator.commands.app import app
from tests.builders import write_sweep, write_tagged_treebank

BUNDLED = "[UD_English-EWT-sample, UD_Naija-NSC-sample]"

# Two corpora, two strategies, two seeds of the starter model: eight trials of a few steps.
SMALL = f"""
trial:
  optim: {{lr: 1e-3, epochs: 2, batch_size: 8}}
  lowercase: true
  frozen_dropout: false
space:
  data: {BUNDLED}
  train_size: [24]
  freeze: [none, {{strategy: first_k, depth: 4, embeddings: true}}]
seeds: [0, 1]
"""

Command = Callable[..., subprocess.CompletedProcess[str]]
Here = Callable[..., Result]
TIMES = {
    "setup_s",
    "prefix_s",
    "prefix_paid_s",
    "train_s",
    "eval_s",
    "energy_j",
    "peak_memory_bytes",
    "worker_memory_bytes",
    "worker_slots",
    "time",
}  # what two runs of one trial may differ in


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """The small sweep's file, over two treebanks of 24 train, 8 dev and 8 test sentences."""
    return write_small_sweep(tmp_path)


def write_small_sweep(folder: Path) -> Path:
    """`small.yaml` and its two treebanks."""
    for n, name in enumerate(("one", "two")):
        write_tagged_treebank(folder / name, seed=n)
    return write_sweep(folder / "small.yaml", SMALL.replace(BUNDLED, "[{folder: one}, {folder: two}]"))


@pytest.fixture
def permafrost(tmp_path: Path) -> Command:
    """Run `permafrost <command> ...` and return what it printed."""

    return functools.partial(run_in, tmp_path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """Run `permafrost ...` in this process, from a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return run_here


def run_here(*words: object) -> Result:
    """Run `permafrost ...` in this process."""
    return CliRunner().invoke(app, list(map(str, words)))


def run_in(folder: Path, command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `permafrost <command> ...` from a folder."""
    words = [str(Path(sys.executable).with_name("permafrost")), command, *map(str, arguments)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment())


def environment() -> dict[str, str]:
    """This process's environment, with plain output and the checkout importable from any folder."""
    checkout = str(Path(__file__).parents[2])
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", "PYTHONPATH": checkout, "PYTHONWARNINGS": "default"}


def printed_commands(said: str) -> tuple[list[str], list[str]]:
    """The commands that an interrupted launch prints: the one that resumes it, and the one that shows its results."""
    lines = said.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("results "))
    return shlex.split(lines[at - 1]), shlex.split(lines[at].partition("with: ")[2])
