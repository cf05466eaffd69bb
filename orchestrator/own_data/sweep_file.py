"""The sweep file of a question, with comments for people who want to edit it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.own_data.corpus_guess import CorpusGuess
from trials.errors import ConfigError
from trials.settings import FreezeSpec

SEEDS = 10
_ASKED = "# Made by: "
_COMMENTS = {
    "task": "pos, ner, classification, or a task of GLUE",
    "data": "paths are relative to the folder you launch from",
    "model": "starter, a folder that transformers loads, or {hub: OWNER/NAME, revision: ...}",
    "train_size": "the first so many of the shuffled train split; without it all",
    "lowercase": "the starter is uncased",
    "max_length": "longest input in subwords; words beyond it count as errors",
    "frozen_dropout": "frozen layers run without dropout, so their output is computed once",
    "optim": "AdamW",
}


@dataclass(frozen=True)
class Question:
    """What to find out.

    Attributes:
        corpus: The data and the task.
        model: The key `model` of a sweep file.
        recipe: The other keys of `trial`.
        tolerance: Acceptable loss in points.
        train_size: Train items to use; None for all.
        keep_weights: Whether to keep the trained weights, for an export without training again.
        asked: The command that asks it.
    """

    corpus: CorpusGuess
    model: str | Mapping[str, Any]
    recipe: Mapping[str, Any]
    tolerance: float
    train_size: int | None = None
    keep_weights: bool = False
    asked: str = ""

    @property
    def name(self) -> str:
        """The name of its sweep: `choose-` and the corpus."""
        data = self.corpus.data
        word = data.get("name") or data.get("bundled") or data.get("ud") or data.get("config") or data.get("hub")
        word = Path(str(word or Path(str(data["folder"])).resolve().name)).name
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in word)
        return f"choose-{safe or 'data'}"[:80]

    @property
    def trial(self) -> dict[str, Any]:
        """The key `trial`."""
        size = {} if self.train_size is None else {"train_size": self.train_size}
        return {"task": self.corpus.task, "data": self.corpus.data, "model": self.model, **size, **self.recipe}


def sweep_text(question: Question) -> str:
    """The sweep file that answers a question."""
    weights = "keep: weights                # of every trial, so that export-model need not train\n"
    loss = f"{question.tolerance:g} point{'s' * (question.tolerance != 1)}"
    return f"""{_ASKED}{question.asked}
# How deep may I freeze? Adds seeds and depths one by one until it knows the deepest freeze that loses at most
# {loss} against training everything under the same seeds, or says what is missing.
name: {question.name}

trial:
{_lines(question.trial)}
space:
  freeze:
    - none
    - {{strategy: first_k, depth: {{int_uniform: [0, layers]}}, embeddings: true}}   # the embeddings, then every depth

seeds: {list(range(SEEDS))}      # at most; few are needed where the case is clear

goal:
  choose_depth: {{tolerance: {question.tolerance:g}, confidence: 0.95}}
{weights if question.keep_weights else ""}"""


def training_text(question: Question, freeze: FreezeSpec) -> str:
    """The sweep file of one trial that trains with a freeze on all train items."""
    settings = {**question.trial, "freeze": {"strategy": "layers", "layers": list(freeze.layers)}}
    if freeze.is_baseline:
        settings["freeze"] = "none"
    elif not freeze.layers:
        settings["freeze"] = {"strategy": "first_k", "depth": -1, "embeddings": True}
    else:
        settings["freeze"]["embeddings"] = freeze.embeddings
    settings.pop("train_size", None)
    return f"""# The chosen freeze on the whole train split, its weights kept for `permafrost export-model`.
name: {question.name.replace("choose-", "train-", 1)}

trial:
{_lines(settings)}
seeds: [0]
keep: weights
"""


def _lines(settings: Mapping[str, Any]) -> str:
    shown = {key: json.dumps(value, ensure_ascii=False) for key, value in settings.items()}  # JSON is YAML too
    lines = [f"  {key}: {value}" for key, value in shown.items()]
    width = min(50, max(map(len, lines)))
    notes = [_COMMENTS.get(key, "") for key in shown]
    return "".join(
        f"{line:{width}}  # {note}\n" if note else f"{line}\n" for line, note in zip(lines, notes, strict=True)
    )


def write_sweep(path: Path, text: str) -> bool:
    """Write a sweep file; whether it was written: one that the same command made before is left as it is.

    Raises:
        ConfigError: Another file is there.
    """
    if path.exists():
        if path.read_text(encoding="utf-8").partition("\n")[0] == text.partition("\n")[0]:
            return False
        raise ConfigError(f"{path}: already exists and asks something else. Give --out another folder, or delete it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True
