"""The question about somebody's data: a corpus and a model at an exact version, the recipe that suits both, the texts
of the sweeps that answer it, and their file.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.config.quantities import amount
from orchestrator.config.yaml_document import Document
from orchestrator.own_data.choose_options import ChooseOptions, draft_of
from orchestrator.own_data.corpus_guess import CorpusGuess, guess_corpus
from orchestrator.store.plans import MOST_NAME_BYTES
from orchestrator.sweeps.corpus_words import corpus_lines
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import sweep_of_text
from orchestrator.sweeps.named_paths import each_path, relative_word
from orchestrator.sweeps.notes import plan_notes
from trials.corpora.corpus import Corpus, Text, item_words
from trials.draft import Lookup
from trials.errors import ConfigError, RefusedError
from trials.escaping import compose
from trials.outside.plain_files import read_json, read_text
from trials.sources.places.corpus_draft import DataDraft
from trials.sources.places.model_draft import ModelDraft, named_model
from trials.spec import ModelSpec
from trials.starter import model_path
from trials.tasks import TASKS
from trials.tasks.task_corpus import read_corpus

SEEDS = 10  # planned seeds if it is unknown how many trials fit the time (`planned_question.seeds_that_fit`)
RATE_SEEDS = (1000, 1001)  # that choose rates, and no answer uses
NOTHING = -1  # the depth of a baseline
_OF_NAMES = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd"}  # letters with their marks, and digits
_MADE_BY = "# Made by: "
_PART = "# On a part of it, for --max-hours "  # with more, all of train and every depth may be used
_HOURS = re.compile(r"--max-hours ([0-9.]*[0-9])")
_COMMENTS = {
    "data": "paths are relative to this file",
    "model": "starter, a folder, or a repository of the hub at its commit",
    "train_size": "the first so many of the shuffled train split; without it all",
    "lowercase": "the starter is uncased",
    "max_length": "longest input in subwords; words beyond it count as errors",
    "frozen_dropout": "frozen layers run without dropout, so their output is computed once",
    "optim": "AdamW",
}
_WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")
_BASE_WIDTH = 512  # hidden size from which on an encoder counts as BERT-sized
_FEW = 5_000  # train items, up to which an epoch is short
_SUBWORDS_A_WORD = 1.5  # English text in a vocabulary of 30,000; other languages have more
_LENGTHS = (128, 256, 512)  # subwords
# With it a later question about the same data may replace the file; whoever edits the file keeps it.
_SEAL = "# As it was written, if the SHA-256 of all above begins with "
_WAY_OUT = "Give --out another folder, or delete the file."


class PartOfQuestion(NamedTuple):
    """Why only a part of the data or depths is used: the `--max-hours` given, and the hours that all of it takes."""

    given: float
    of_all: float

    @property
    def line(self) -> str:
        """The comment about this part in the sweep file."""
        return f"{_PART}{self.given:g}; all of it takes --max-hours {self.of_all:g}"


@dataclass(frozen=True)
class Question:
    """What to find out.

    Attributes:
        model: The key `model` of a sweep file.
        recipe: The other keys of `trial`.
        tolerance: Acceptable loss in points.
        train_size: Train items to use; None for all.
        seeds: The seeds that are planned, fixed before the first loss is seen.
        depths: The freezes to try; empty for the embeddings and every depth.
        rates: Learning rate by depth, `NOTHING` being the baseline's; empty for that of the recipe.
        part: The time for which a part of train, or of the depths, was taken; None for all.
        folder: Where its file goes. Its paths are relative to that; those of `corpus` and `model`, to where one is.
    """

    corpus: CorpusGuess
    model: str | Mapping[str, Any]
    recipe: Mapping[str, Any]
    tolerance: float
    train_size: int | None = None
    seeds: int = SEEDS
    depths: tuple[int, ...] = ()
    part: PartOfQuestion | None = None
    command: str = ""
    rates: Mapping[int, float] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def name(self) -> str:
        """The name of its sweep."""
        return sweep_name(self.corpus.data)

    @property
    def trial(self) -> dict[str, Any]:
        """The key `trial`."""
        size = {} if self.train_size is None else {"train_size": self.train_size}
        trial = {"task": self.corpus.task, "data": self.corpus.data, "model": self.model, **size, **self.recipe}
        relative: dict[str, Any] = each_path(trial, lambda word, _: relative_word(word, self.folder))
        return relative

    def sweep_text(self) -> str:
        """The sweep file that answers it."""
        loss = amount(self.tolerance, "point")
        header = _MADE_BY + self.command + ("" if self.part is None else f"\n{self.part.line}")
        return f"""{header}
# How deep may I freeze? Runs a curve of depths, then adds seeds where they decide: the deepest freeze that loses at
# most {loss} against training everything under the same seeds, or what is missing.
name: {self.name}

trial:
{_lines(self.trial)}
space:
{self._space()}
seeds: {list(range(self.seeds))}      # planned before the first loss; fewer run where the case is clear

goal:
  choose_depth: {{tolerance: {self.tolerance:g}, confidence: 0.95}}
"""

    def rates_text(self, rates: Sequence[float], depths: Sequence[int]) -> str:
        """The sweep that tries learning rates, with nothing frozen and at these depths, on seeds of its own."""
        freezes = ", ".join(_freeze(depth) for depth in (NOTHING, *depths))
        return self._sweep_text_over("rates-", [f"freeze: [{freezes}]", f"optim.lr: {list(rates)}"], RATE_SEEDS)

    def baseline_text(self, seeds: Sequence[int]) -> str:
        """The sweep of nothing frozen under the first seeds, which the question's own sweep uses again."""
        return self._sweep_text_over("baseline-", ["cases:", self._nothing_frozen()], seeds)

    def _space(self) -> str:
        """The freezes: the embeddings, then every depth; with rates of their own each as a case."""
        if not self.rates and self.depths:
            return "  freeze:\n" + "".join(f"    - {_freeze(depth)}\n" for depth in (NOTHING, *self.depths))
        if not self.rates:
            return """  freeze:
    - none
    - {strategy: first_k, depth: {int_uniform: [0, layers]}, embeddings: true}   # the embeddings, then every depth
"""
        rates = {
            depth: rate for depth, rate in self.rates.items() if not self.depths or depth in (NOTHING, *self.depths)
        }
        cases = (f"    - {{freeze: {_freeze(depth)}, optim.lr: {rate!r}}}\n" for depth, rate in rates.items())
        return f"  cases:                 # each depth at its own best learning rate\n{''.join(cases)}"

    def _nothing_frozen(self) -> str:
        rate = self.rates.get(NOTHING, self.recipe["optim"]["lr"])
        return f"  - {{freeze: none, optim.lr: {rate!r}}}"

    def _sweep_text_over(self, word: str, space: Sequence[str], seeds: Sequence[int]) -> str:
        """A sweep file with the recipe of the question, named after it, whose space is the given lines of YAML."""
        lines = "\n".join(f"  {line}" for line in space)
        return f"""name: {self.name.replace("choose-", word, 1)}

trial:
{_lines(self.trial)}
space:
{lines}
seeds: {list(seeds)}
"""


def sweep_name(data: Mapping[str, Any]) -> str:
    """The name of the sweep that asks about the key `data` of a sweep file: `choose-` and the corpus."""
    word = data.get("name") or data.get("bundled") or data.get("ud") or data.get("config") or data.get("hub")
    word = Path(str(word or Path(str(data["folder"])).resolve().name)).name
    safe = "".join(c if unicodedata.category(c) in _OF_NAMES or c in "_.-" else "-" for c in compose(word))
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


@dataclass(frozen=True)
class SweepFile:
    """The file at a path, which `choose` or a person wrote. What reads it raises ConfigError where it is not YAML."""

    path: Path

    def is_for(self, command: str) -> bool:
        """Whether it is there and `choose` or a person keeps it for this question. Raises RefusedError."""
        return self.path.exists() and self._first_line() == _MADE_BY + command

    def is_for_any_tolerance(self, command: str) -> bool:
        """Whether it is there for this question at any tolerance: its trials serve all. Raises RefusedError."""
        kept = self._first_line() if self.path.exists() else ""
        return kept.startswith(_MADE_BY) and _other_words(kept.removeprefix(_MADE_BY)) == _other_words(command)

    def holds(self, question: Question) -> bool:
        """Whether it holds a question, apart from comments; kept weights may differ."""
        actual = Document.read(self.path).content
        expected = Document.of_text(self.path, question.sweep_text()).content
        for content in (actual, expected):
            content.pop("keep", None)
        return bool(actual == expected)

    def pins(self, command: str) -> dict[str, str]:
        """The sources of data and model that it has at an exact version for a question at any tolerance, by key; empty
        where it is not there.
        """
        if not self.path.is_file() or not self.is_for_any_tolerance(command):
            return {}
        trial, pins = self._trial(), dict[str, str]()
        for key in ("data", "model"):
            kept = trial.get(key)
            if isinstance(kept, Mapping) and kept.get("hub") and kept.get("revision"):
                config = f"/{kept['config']}" if kept.get("config") else ""
                pins[key] = f"hub:{kept['hub']}{config}@{kept['revision']}"
            elif isinstance(kept, Mapping) and kept.get("ud") and kept.get("release"):
                pins[key] = f"ud:{kept['ud']}@{kept['release']}"
        return pins

    def rates(self) -> dict[int, float]:
        """The rates by depth; empty where all have one."""
        space = Document.read(self.path).content.get("space")
        cases = space.get("cases", ()) if isinstance(space, Mapping) else ()
        return {
            NOTHING if case["freeze"] == "none" else int(case["freeze"]["depth"]): float(case["optim.lr"])
            for case in cases
        }

    def rate(self) -> float | None:
        """The learning rate of all trials."""
        rate = self._optim().get("lr")
        return float(rate) if isinstance(rate, int | float) else None

    def epochs(self) -> int | None:
        """The epochs of all trials as `choose` wrote them; None in an edited file."""
        epochs = self._optim().get("epochs") if self._is_untouched() else None
        return epochs if isinstance(epochs, int) else None

    def part(self) -> PartOfQuestion | None:
        """Why the question is asked on a part of train; None if it is not, or the file was edited."""
        if not self._is_untouched():
            return None
        line = read_text(self.path, errors="replace").split("\n")[1]
        return PartOfQuestion(*map(float, _HOURS.findall(line))) if line.startswith(_PART) else None

    def seeds(self) -> int:
        """The seeds that it plans."""
        seeds = Document.read(self.path).content.get("seeds")
        return len(seeds) if isinstance(seeds, list) else SEEDS

    def depths(self) -> tuple[int, ...]:
        """The freezes that it lists; empty for the embeddings and every depth."""
        space = Document.read(self.path).content.get("space")
        listed = space.get("freeze", ()) if isinstance(space, Mapping) else ()
        if cases := self.rates():
            return () if NOTHING + 1 in cases else tuple(depth for depth in cases if depth != NOTHING)
        depths = [freeze.get("depth") for freeze in listed if isinstance(freeze, Mapping)]
        return tuple(depth for depth in depths if isinstance(depth, int))

    def train_size(self) -> int | None:
        """The train items that it takes; None for all."""
        size = self._trial().get("train_size")
        return size if isinstance(size, int) else None

    def refuse_other(self, command: str) -> None:
        """Check, before anything runs, that a question replaces no file that a person wrote or edited.

        Raises:
            RefusedError: The file is there, asks something else and is not as `choose` wrote it.
        """
        if self.path.exists() and self._first_line() != _MADE_BY + command and not self._is_untouched():
            raise RefusedError(
                f"{self.path}: already exists and is not as `permafrost choose` wrote it for this question. {_WAY_OUT}"
            )

    def refuse_edited(self, question: Question) -> None:
        """Check that the file is as `choose` wrote it, or holds the question.

        Raises:
            RefusedError: Somebody has edited it.
        """
        if not self._is_untouched() and not self.holds(question):
            raise RefusedError(
                f"{self.path}: was edited since `permafrost choose` wrote it. Run it with `permafrost launch --sweep`, "
                "give --out another folder, or delete the file."
            )

    def write(self, text: str) -> None:
        """Write the sweep. Raises ConfigError: it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(f"{text}{_SEAL}{_digest(text)}\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be written ({error.strerror}). Give --out another folder."
            ) from error

    def _optim(self) -> Mapping[str, Any]:
        optim = self._trial().get("optim")
        return optim if isinstance(optim, Mapping) else {}

    def _trial(self) -> Mapping[str, Any]:
        trial = Document.read(self.path).content.get("trial")
        return trial if isinstance(trial, Mapping) else {}

    def _is_untouched(self) -> bool:
        """Whether it is as `write` left it."""
        text, seal, digest = read_text(self.path, errors="replace").rpartition(_SEAL)
        return bool(seal) and digest.strip() == _digest(text)

    def _first_line(self) -> str:
        try:
            return read_text(self.path, errors="replace").partition("\n")[0]
        except OSError as error:
            reason = error.strerror
            raise RefusedError(f"{self.path}: already exists and cannot be read ({reason}). {_WAY_OUT}") from error


def _other_words(text: str) -> list[str]:
    """The words of a question without its tolerance."""
    words = text.split(" ")
    position = words.index("--tolerance") if "--tolerance" in words else len(words)
    return words[:position] + words[position + 2 :]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def question_of(options: ChooseOptions, lookup: Lookup, say: Callable[[str], None]) -> Question:
    """The question about all of train, with the corpus, model and recipe looked up, both at an exact version.

    Raises as `choose`.
    """
    corpus = guess_corpus(options, lookup)
    data, model = DataDraft.model_validate(corpus.data), named_model(options.model)
    data = data.pin(corpus.spec.source)
    model = model.pin(lookup.model(model).source)
    for line in lookup.resolved.values():
        say(f"pinned  {line}")
    lookup.resolved.clear()  # what follows has exact versions
    for line in (*corpus.lines, *corpus_lines(corpus.task, corpus.spec)):
        say(f"data    {line}")
    corpus = replace(corpus, data=data.model_dump(mode="json", exclude_defaults=True))
    key = model.folder or model.model_dump(mode="json", exclude_defaults=True)
    return with_size(Question(corpus, key, {}, options.tolerance, command=options.question), lookup, None)


def write_question(options: ChooseOptions, lookup: Lookup, say: Callable[[str], None]) -> Path:
    """Write the sweep file that `choose` would launch on all of train, to be edited; returns its path.

    Raises:
        RefusedError: The file exists.
        ConfigError, DataError, ModelError, MissingError: As `choose`.
    """
    options.check()
    folder = Path(options.out or "")
    made_by = options.question.replace(" choose", " init", 1)
    question = replace(question_of(options, lookup, say), command=made_by, folder=folder)
    path = folder / f"{question.name}.yaml"
    if path.exists():
        raise RefusedError(f"{path}: already exists. Give --out another folder, or delete the file.")
    sweep, document = sweep_of_text(path, question.sweep_text())
    SweepFile(path).write(question.sweep_text())
    trials = expand(sweep, document, lookup)
    printed = {f"{question.corpus.spec.name}: {line}" for line in question.corpus.lines}
    for note in plan_notes(sweep, trials, lookup):
        if note not in printed:
            say(f"note    {note}")
    return path


def with_pinned_versions(options: ChooseOptions, folder: Path, say: Callable[[str], None]) -> ChooseOptions:
    """The options with the versions that the sweep file of the same question pins, if it is there."""
    data, model = draft_of(options), named_model(options.model)
    path = folder / f"{sweep_name(data.model_dump())}.yaml"
    pins = SweepFile(path).pins(options.question)
    if "data" in pins and not data.is_pinned:
        say(f"pinned  data {pins['data']}, as in {path}")
        options = replace(options, data=pins["data"])
    if "model" in pins and not model.is_pinned:
        say(f"pinned  model {pins['model']}, as in {path}")
        options = replace(options, model=pins["model"])
    return options


def with_size(question: Question, lookup: Lookup, size: int | None) -> Question:
    """The question on `size` train items (None for all), with the recipe for that size."""
    key, corpus = question.model, question.corpus
    spec = lookup.model(ModelDraft(folder=key) if isinstance(key, str) else ModelDraft(**key))
    read = read_corpus(corpus.task, lookup.data(DataDraft.model_validate(corpus.data), corpus.task))
    return replace(question, train_size=size, recipe=recipe(spec, read, size))


def recipe(model: ModelSpec, corpus: Corpus, train_size: int | None = None) -> dict[str, Any]:
    """The key `trial` of a sweep file without task, data and model.

    The starter tags words as its own sweeps do. A text is read off one place, and at that rate no run on 1,500 texts of
    SST-2 learned anything, with or without warm-up (dev accuracy 50.9 after 3 epochs, one seed a rate); at 3e-4 it
    reached 52.5, 60.9 and 66.3 after 1, 2 and 3 epochs, at 5e-4 59.2 after 3. Encoders of BERT's width take 5e-5, the
    largest of the rates that Devlin et al. 2019 (appendix A.3) searched; narrower ones 1e-4, from the rates that Turc
    et al. 2019 searched for compact models (3e-5 to 3e-4). Frozen layers run without dropout, so that their output is
    computed once.

    Args:
        model: The model.
        corpus: The data.
        train_size: Train items to use; None for all.
    """
    epochs = 5 if (train_size or len(corpus.train)) <= _FEW else 3
    optim: dict[str, Any] = {"batch_size": 16, "epochs": epochs}
    settings: dict[str, Any] = {}
    if Path(model.path) == model_path():
        settings["lowercase"] = True
        if isinstance(corpus.train[0], Text):
            optim = {"lr": 3e-4, **optim, "warmup": 0.1}
        else:
            optim = {"lr": 1e-3, "head_lr": 5e-3, **optim, "epochs": 3}
    else:
        optim = {"lr": 5e-5 if _width(model) >= _BASE_WIDTH else 1e-4, **optim, "warmup": 0.1}
    return {**settings, "max_length": _max_length(model, corpus), "frozen_dropout": False, "optim": optim}


def _width(model: ModelSpec) -> int:
    config: Mapping[str, Any] = read_json(Path(model.path) / "config.json")
    return int(next((config[key] for key in _WIDTHS if isinstance(config.get(key), int)), _BASE_WIDTH))


def _max_length(model: ModelSpec, corpus: Corpus) -> int:
    """The shortest of the usual lengths that about 99 % of the train items fit in, within the model's positions."""
    n_words = sorted(len(item_words(item)) for item in corpus.train)
    needed = _SUBWORDS_A_WORD * n_words[int(0.99 * (len(n_words) - 1))] + 2
    fitting = next((length for length in _LENGTHS if length >= needed), _LENGTHS[-1])
    return min(fitting, model.n_positions)
