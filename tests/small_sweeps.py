"""Sweeps of the starter model that take seconds, run in this process, and corpora cut from the bundled sample."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from orchestrator.commands.launch_command import launch
from orchestrator.store import ResultStore, open_store
from tests.builders import write_sweep
from trials.starter import treebank_path

SAMPLE = treebank_path("UD_English-EWT-sample")

POS = """
trial:
  data: {folder: bank}
  lowercase: true
  optim: {lr: 1e-3, head_lr: 1e-2, epochs: 2}
space:
  freeze: [{strategy: first_k, depth: 4, embeddings: true}]
seeds: [0, 1]
"""


def write_bank(folder: Path, *, train: int, dev: int, test: int) -> Path:
    """The first sentences of the bundled sample's splits, comments and multi-word tokens included, and a licence."""
    folder.mkdir(parents=True)
    for split, size in (("train", train), ("dev", dev), ("test", test)):
        blocks = (SAMPLE / f"{split}.conllu").read_text(encoding="utf-8").split("\n\n")
        (folder / f"{split}.conllu").write_text("\n\n".join(blocks[:size]) + "\n\n", encoding="utf-8")
    (folder / "LICENSE.txt").write_text("Free for tests\n", encoding="utf-8")
    return folder


def write_entities(folder: Path) -> Path:
    """Column files whose names of persons and places are a matter of the word before them."""
    folder.mkdir(parents=True)
    names = ("king", "queen", "doctor", "captain", "lady", "house", "river", "stone", "garden", "city")
    for split, start, size in (("train", 0, 60), ("dev", 3, 10), ("test", 5, 10)):
        numbers = range(start, start + size)
        (folder / f"{split}.bio").write_text("\n".join(_journey(names[n % 10], names[n // 3 % 10]) for n in numbers))
    return folder


def _journey(first: str, last: str) -> str:
    words = (("Mr", "O"), (first, "B-PER"), (last, "I-PER"), ("went", "O"), ("to", "O"), (first, "B-LOC"), (".", "O"))
    return "".join(f"{word} {tag}\n" for word, tag in words)


def write_reviews(folder: Path) -> Path:
    """Texts whose class is a matter of one word, and a number that goes with it."""
    folder.mkdir(parents=True)
    subjects = ("film", "book", "play", "song", "dinner", "story")
    for split, start, size in (("train", 0, 80), ("dev", 100, 12), ("test", 200, 12)):
        rows = ["text\tlabel\tscore"]
        for n in range(start, start + size):
            word, label, score = ("good", "praise", 1.5) if n % 2 else ("bad", "blame", -0.5)
            rows.append(f"A {word} {subjects[n % 6]}, number {n}.\t{label}\t{score}")
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def launched(folder: Path, text: str, name: str = "small") -> ResultStore:
    """Run a sweep whose paths are relative to the folder, and return the folder's store."""
    absolute = text.replace("folder: ", f"folder: {folder}/")
    sweep = write_sweep(folder / f"{name}.yaml", f"{absolute.rstrip()}\nname: {name}\n")
    with pytest.raises(typer.Exit) as ended:
        launch(sweep, "inline", str(folder / "results"))
    assert ended.value.exit_code == 0
    return open_store(folder / "results")
