"""The sweep file of a question, with comments for people who want to edit it."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.config.quantities import counted
from orchestrator.config.yaml_document import Document
from orchestrator.own_data.corpus_guess import CorpusGuess
from orchestrator.sweeps.named_paths import each_path, seen_from
from orchestrator.sweeps.sweep import MOST_NAME_BYTES
from trials.errors import ConfigError, RefusedError
from trials.escaping import composed
from trials.outside.plain_files import read_text
from trials.tasks import TASKS

SEEDS = 15  # at the last look: after 40 trials 89 % of simulated searches are right, 41 % with ten (`choose_depth`)
RATE_SEEDS = (1000, 1001)  # that choose rates, and no answer uses
NOTHING = -1  # the depth of a baseline
_OF_NAMES = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"}  # letters with their marks, and digits
_ASKED = "# Made by: "
_FOR_HOURS = "# On a part of train, for --max-hours "  # with more, all of it may be used
# With it a later question about the same data may replace the file; whoever edits the file keeps it.
_SEAL = "# As it was written, if the SHA-256 of all above begins with "
_WAY_OUT = "Give --out another folder, or delete the file."
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


def sweep_name(data: Mapping[str, Any], suffix: str = "") -> str:
    """The name of the sweep that asks about the key `data` of a sweep file: `choose-`, the corpus and a suffix."""
    word = data.get("name") or data.get("bundled") or data.get("ud") or data.get("config") or data.get("hub")
    word = Path(str(word or Path(str(data["folder"])).resolve().name)).name + (f"-{suffix}" if suffix else "")
    safe = "".join(c if unicodedata.category(c) in _OF_NAMES or c in "_.-" else "-" for c in composed(word))
    return f"choose-{safe or 'data'}"[:80].encode()[:MOST_NAME_BYTES].decode(errors="ignore")


def sweep_text(question: Question) -> str:
    """The sweep file that answers a question."""
    loss = counted(question.tolerance, "point")
    header = _ASKED + question.asked + ("" if question.hours is None else f"\n{_FOR_HOURS}{question.hours:g}")
    return f"""{header}
# How deep may I freeze? Runs a curve of depths, then adds seeds where they decide: the deepest freeze that loses at
# most {loss} against training everything under the same seeds, or what is missing.
name: {question.name}

trial:
{_lines(question.trial)}
space:
{_space(question)}
seeds: {list(range(SEEDS))}      # at most; few are needed where the case is clear

goal:
  choose_depth: {{tolerance: {question.tolerance:g}, confidence: 0.95}}
"""


def _space(question: Question) -> str:
    """The freezes: the embeddings, then every depth; with rates of their own each as a case."""
    if not question.rates:
        return """  freeze:
    - none
    - {strategy: first_k, depth: {int_uniform: [0, layers]}, embeddings: true}   # the embeddings, then every depth
"""
    cases = (f"    - {{freeze: {_freeze(depth)}, optim.lr: {rate!r}}}\n" for depth, rate in question.rates.items())
    return f"  cases:                 # each depth at its own best learning rate\n{''.join(cases)}"


def _freeze(depth: int) -> str:
    return "none" if depth == NOTHING else f"{{strategy: first_k, depth: {depth}, embeddings: true}}"


def rates_text(question: Question, rates: Sequence[float], depths: Sequence[int]) -> str:
    """The sweep that tries learning rates, with nothing frozen and at these depths, on seeds of its own."""
    freezes = ", ".join(_freeze(depth) for depth in (NOTHING, *depths))
    return _beside(question, "rates-", [f"freeze: [{freezes}]", f"optim.lr: {list(rates)}"], RATE_SEEDS)


def baseline_text(question: Question, seeds: Sequence[int]) -> str:
    """The sweep of nothing frozen under the first seeds of a question, which its own sweep uses again."""
    return _beside(question, "baseline-", ["cases:", _nothing_frozen(question)], seeds)


def lora_text(question: Question, rank: int, rate: float, seeds: Sequence[int]) -> str:
    """The sweep of adapters in every layer, all other weights but the head's frozen, beside nothing frozen."""
    adapters = f"  - {{freeze: {_freeze(0)}, lora: {{rank: {rank}}}, optim.lr: {rate!r}}}"
    return _beside(question, "lora-", ["cases:", _nothing_frozen(question), adapters], seeds)


def _nothing_frozen(question: Question) -> str:
    rate = question.rates.get(NOTHING, question.recipe["optim"]["lr"])
    return f"  - {{freeze: none, optim.lr: {rate!r}}}"


def _beside(question: Question, word: str, space: Sequence[str], seeds: Sequence[int]) -> str:
    """A sweep with the recipe of a question, named after it, over lines of YAML as its space."""
    lines = "\n".join(f"  {line}" for line in space)
    return f"""name: {question.name.replace("choose-", word, 1)}

trial:
{_lines(question.trial)}
space:
{lines}
seeds: {list(seeds)}
"""


def rates_in(path: Path) -> dict[int, float]:
    """The rates by depth in a sweep file that answers a question; empty where all have one. Raises ConfigError."""
    space = Document.read(path).content.get("space")
    cases = space.get("cases", ()) if isinstance(space, Mapping) else ()
    return {
        NOTHING if case["freeze"] == "none" else int(case["freeze"]["depth"]): float(case["optim.lr"]) for case in cases
    }


def rate_in(path: Path) -> float | None:
    """The learning rate of all trials in a sweep file. Raises ConfigError."""
    rate = _optim_in(path).get("lr")
    return float(rate) if isinstance(rate, int | float) else None


def epochs_in(path: Path) -> int | None:
    """The epochs of all trials in a sweep file as `choose` wrote it; None in an edited one. Raises ConfigError."""
    epochs = _optim_in(path).get("epochs") if _is_untouched(path) else None
    return epochs if isinstance(epochs, int) else None


def hours_in(path: Path) -> float | None:
    """The `--max-hours` for which a sweep file has a part of train; None for all of it, or where it was edited."""
    if not _is_untouched(path):
        return None
    line = read_text(path, errors="replace").split("\n")[1]
    return float(line.removeprefix(_FOR_HOURS)) if line.startswith(_FOR_HOURS) else None


def size_in(path: Path) -> int | None:
    """The train size in a sweep file that answers a question; None for all, or without one. Raises ConfigError."""
    size = _trial_in(path).get("train_size")
    return size if isinstance(size, int) else None


def _optim_in(path: Path) -> Mapping[str, Any]:
    optim = _trial_in(path).get("optim")
    return optim if isinstance(optim, Mapping) else {}


def _trial_in(path: Path) -> Mapping[str, Any]:
    trial = Document.read(path).content.get("trial")
    return trial if isinstance(trial, Mapping) else {}


def _lines(settings: Mapping[str, Any]) -> str:
    shown = {key: json.dumps(value, ensure_ascii=False) for key, value in settings.items()}  # JSON is YAML too
    lines = [f"  {key}: {value}" for key, value in shown.items()]
    width = min(50, max(map(len, lines)))
    comments = {"task": f"one of {', '.join(TASKS)}", **_COMMENTS}
    notes = [comments.get(key, "") for key in shown]
    return "".join(
        f"{line:{width}}  # {note}\n" if note else f"{line}\n" for line, note in zip(lines, notes, strict=True)
    )


def refuse_others(folder: Path, name: str, asked: str) -> None:
    """Check, before anything runs, that the file of a question replaces none that a person wrote or edited.

    Raises:
        RefusedError: A file is there that asks something else and is not as `choose` wrote it.
    """
    path = folder / f"{name}.yaml"
    if path.exists() and _first_line(path) != _ASKED + asked and not _is_untouched(path):
        raise RefusedError(
            f"{path}: already exists and is not as `permafrost choose` wrote it for this question. {_WAY_OUT}"
        )


def asks(path: Path, asked: str) -> bool:
    """Whether a sweep file is there that `choose` or a person keeps for this question. Raises RefusedError."""
    return path.exists() and _first_line(path) == _ASKED + asked


def asks_alike(path: Path, asked: str) -> bool:
    """Whether a sweep file is there for this question at any tolerance: its trials serve all. Raises RefusedError."""
    kept = _first_line(path) if path.exists() else ""
    return kept.startswith(_ASKED) and _at_any(kept.removeprefix(_ASKED)) == _at_any(asked)


def _at_any(asked: str) -> list[str]:
    """The words of a question without its tolerance."""
    words = asked.split(" ")
    at = words.index("--tolerance") if "--tolerance" in words else len(words)
    return words[:at] + words[at + 2 :]


def _is_untouched(path: Path) -> bool:
    """Whether a file is as `write_sweep` left it."""
    text, seal, digest = read_text(path, errors="replace").rpartition(_SEAL)
    return bool(seal) and digest.strip() == _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pins_in(path: Path, asked: str) -> dict[str, str]:
    """The sources of data and model that the sweep file of a question, at any tolerance, has at an exact version, by
    key; empty without such a file. Raises ConfigError: it is not YAML.
    """
    if not path.is_file() or not asks_alike(path, asked):
        return {}
    trial, pins = _trial_in(path), dict[str, str]()
    for key in ("data", "model"):
        kept = trial.get(key)
        if isinstance(kept, Mapping) and kept.get("hub") and kept.get("revision"):
            config = f"/{kept['config']}" if kept.get("config") else ""
            pins[key] = f"hub:{kept['hub']}{config}@{kept['revision']}"
        elif isinstance(kept, Mapping) and kept.get("ud") and kept.get("release"):
            pins[key] = f"ud:{kept['ud']}@{kept['release']}"
    return pins


def holds(path: Path, question: Question) -> bool:
    """Whether a sweep file holds a question, apart from comments; kept weights may differ. Raises ConfigError."""
    actual = Document.read(path).content
    expected = Document.of_text(path, sweep_text(question)).content
    for content in (actual, expected):
        content.pop("keep", None)
    return bool(actual == expected)


def refuse_edited(path: Path, question: Question) -> None:
    """Check that a sweep file is as `choose` wrote it, or holds the question.

    Raises:
        ConfigError: It is not YAML.
        RefusedError: Somebody has edited it.
    """
    if not _is_untouched(path) and not holds(path, question):
        raise RefusedError(
            f"{path}: was edited since `permafrost choose` wrote it. Run it with `permafrost launch --sweep`, give "
            "--out another folder, or delete the file."
        )


def _first_line(path: Path) -> str:
    try:
        return read_text(path, errors="replace").partition("\n")[0]
    except OSError as error:
        raise RefusedError(f"{path}: already exists and cannot be read ({error.strerror}). {_WAY_OUT}") from error


def write_sweep(path: Path, text: str) -> None:
    """Write a sweep file. Raises ConfigError: it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}{_SEAL}{_digest(text)}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}). Give --out another folder.") from error
