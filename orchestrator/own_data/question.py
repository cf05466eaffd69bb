"""The question that a person asks of a corpus, and the texts of the sweeps that answer it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.config.quantities import counted
from orchestrator.own_data.corpus_guess import CorpusGuess
from orchestrator.sweeps.named_paths import each_path, seen_from
from orchestrator.sweeps.sweep import MOST_NAME_BYTES
from trials.escaping import composed
from trials.tasks import TASKS

SEEDS = 15  # at the last look: after 40 trials 89 % of simulated searches are right, 41 % with ten (`choose_depth`)
RATE_SEEDS = (1000, 1001)  # that choose rates, and no answer uses
NOTHING = -1  # the depth of a baseline
_OF_NAMES = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"}  # letters with their marks, and digits
MADE_BY = "# Made by: "
FOR_HOURS = "# On a part of train, for --max-hours "  # with more, all of it may be used
_COMMENTS = {
    "data": "paths are relative to this file",
    "model": "starter, a folder, or a repository of the hub at its commit",
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
        model: The key `model` of a sweep file.
        recipe: The other keys of `trial`.
        tolerance: Acceptable loss in points.
        train_size: Train items to use; None for all.
        rates: Learning rate by depth, `NOTHING` being the baseline's; empty for that of the recipe.
        hours: The `--max-hours` for which a part of train was taken; None for all of it.
        suffix: What its name ends with, after the corpus.
        folder: Where its file goes. Its paths are relative to that; those of `corpus` and `model`, to where one is.
    """

    corpus: CorpusGuess
    model: str | Mapping[str, Any]
    recipe: Mapping[str, Any]
    tolerance: float
    train_size: int | None = None
    hours: float | None = None
    asked: str = ""
    rates: Mapping[int, float] = field(default_factory=dict)
    folder: Path = Path()
    suffix: str = ""

    @property
    def name(self) -> str:
        """The name of its sweep."""
        return sweep_name(self.corpus.data, self.suffix)

    @property
    def trial(self) -> dict[str, Any]:
        """The key `trial`."""
        size = {} if self.train_size is None else {"train_size": self.train_size}
        trial = {"task": self.corpus.task, "data": self.corpus.data, "model": self.model, **size, **self.recipe}
        relative: dict[str, Any] = each_path(trial, lambda word, _: seen_from(word, self.folder))
        return relative

    def sweep_text(self) -> str:
        """The sweep file that answers it."""
        loss = counted(self.tolerance, "point")
        header = MADE_BY + self.asked + ("" if self.hours is None else f"\n{FOR_HOURS}{self.hours:g}")
        return f"""{header}
# How deep may I freeze? Runs a curve of depths, then adds seeds where they decide: the deepest freeze that loses at
# most {loss} against training everything under the same seeds, or what is missing.
name: {self.name}

trial:
{_lines(self.trial)}
space:
{self._space()}
seeds: {list(range(SEEDS))}      # at most; few are needed where the case is clear

goal:
  choose_depth: {{tolerance: {self.tolerance:g}, confidence: 0.95}}
"""

    def rates_text(self, rates: Sequence[float], depths: Sequence[int]) -> str:
        """The sweep that tries learning rates, with nothing frozen and at these depths, on seeds of its own."""
        freezes = ", ".join(_freeze(depth) for depth in (NOTHING, *depths))
        return self._beside("rates-", [f"freeze: [{freezes}]", f"optim.lr: {list(rates)}"], RATE_SEEDS)

    def baseline_text(self, seeds: Sequence[int]) -> str:
        """The sweep of nothing frozen under the first seeds, which the question's own sweep uses again."""
        return self._beside("baseline-", ["cases:", self._nothing_frozen()], seeds)

    def lora_text(self, rank: int, rate: float, seeds: Sequence[int]) -> str:
        """The sweep of adapters in every layer, all other weights but the head's frozen, beside nothing frozen."""
        adapters = f"  - {{freeze: {_freeze(0)}, lora: {{rank: {rank}}}, optim.lr: {rate!r}}}"
        return self._beside("lora-", ["cases:", self._nothing_frozen(), adapters], seeds)

    def _space(self) -> str:
        """The freezes: the embeddings, then every depth; with rates of their own each as a case."""
        if not self.rates:
            return """  freeze:
    - none
    - {strategy: first_k, depth: {int_uniform: [0, layers]}, embeddings: true}   # the embeddings, then every depth
"""
        cases = (f"    - {{freeze: {_freeze(depth)}, optim.lr: {rate!r}}}\n" for depth, rate in self.rates.items())
        return f"  cases:                 # each depth at its own best learning rate\n{''.join(cases)}"

    def _nothing_frozen(self) -> str:
        rate = self.rates.get(NOTHING, self.recipe["optim"]["lr"])
        return f"  - {{freeze: none, optim.lr: {rate!r}}}"

    def _beside(self, word: str, space: Sequence[str], seeds: Sequence[int]) -> str:
        """A sweep with the recipe of the question, named after it, over lines of YAML as its space."""
        lines = "\n".join(f"  {line}" for line in space)
        return f"""name: {self.name.replace("choose-", word, 1)}

trial:
{_lines(self.trial)}
space:
{lines}
seeds: {list(seeds)}
"""


def sweep_name(data: Mapping[str, Any], suffix: str = "") -> str:
    """The name of the sweep that asks about the key `data` of a sweep file: `choose-`, the corpus and a suffix."""
    word = data.get("name") or data.get("bundled") or data.get("ud") or data.get("config") or data.get("hub")
    word = Path(str(word or Path(str(data["folder"])).resolve().name)).name + (f"-{suffix}" if suffix else "")
    safe = "".join(c if unicodedata.category(c) in _OF_NAMES or c in "_.-" else "-" for c in composed(word))
    return f"choose-{safe or 'data'}"[:80].encode()[:MOST_NAME_BYTES].decode(errors="ignore")


def _freeze(depth: int) -> str:
    return "none" if depth == NOTHING else f"{{strategy: first_k, depth: {depth}, embeddings: true}}"


def _lines(settings: Mapping[str, Any]) -> str:
    shown = {key: json.dumps(value, ensure_ascii=False) for key, value in settings.items()}  # JSON is YAML too
    lines = [f"  {key}: {value}" for key, value in shown.items()]
    width = min(50, max(map(len, lines)))
    comments = {"task": f"one of {', '.join(TASKS)}", **_COMMENTS}
    notes = [comments.get(key, "") for key in shown]
    return "".join(
        f"{line:{width}}  # {note}\n" if note else f"{line}\n" for line, note in zip(lines, notes, strict=True)
    )
