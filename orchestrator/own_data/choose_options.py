"""What somebody wants to find out about their own data, and where; one value from the command line down."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.config.python_arguments import checked_argument
from trials.datasets.corpus import CORPUS_FORMATS
from trials.errors import ConfigError, unknown
from trials.settings import FEWEST_FOLDS, MOST_FOLDS, Columns, Scheme
from trials.starter import STARTER
from trials.tasks import TASKS

Ask = Callable[[str, Sequence[str]], str]
"""Ask a person a question with one of several answers, which it returns."""


RIVALS = ("lora",)  # of freezing
_COLUMNS, _COLUMN = ("words", "tags", "text", "pair", "label"), "COLUMN"
_HELD = "by what the files hold"
# What a question is, in the order of its command, by which a sweep file is known again.
_ASKED = (
    "task", "model", "tolerance", "text", "label", "pair", "format", "words", "tags", "document", "scheme", "held_out",
    "folds", "rates", "train", "dev", "test",
)  # fmt: skip


def _option(name: str, about: str, metavar: str | None = None, shown: str | bool = True) -> OptionInfo:
    option: OptionInfo = typer.Option(f"--{name}", metavar=metavar, help=about, show_default=shown)
    return option


@dataclass(frozen=True, kw_only=True)
class ChooseOptions:
    """The options of `choose` and `init`, as Python and the command line take them (`asked_options.with_options`).

    What the help of an option says is not said again.

    Attributes:
        task: A registered task; None for what the files hold.
        model: `starter`, a folder, or a repository of the hub (`OWNER/NAME`); with `@` another commit than the newest.
        models: Several of these in place of `model`: the best of encoder and depth, in equal shares of the time.
        against: `lora` for a row of low-rank adapters beside the depths, for which a quarter of the time is kept; None
            for the depths alone.
        cluster: As of `launch`.
        cpus, gpus: Cores and GPUs of this machine that it uses; None for all that this process may.
        offline: Refuse to download.
        ask: Asks a person what a corpus does not say; None for nobody there.
    """

    data: Annotated[
        str,
        typer.Argument(
            metavar="[DATA]",
            show_default=False,
            help="A folder, a file, a bundled sample, a treebank (UD_English-EWT), or a dataset of the hub (imdb, "
            "nyu-mll/glue/sst2); the newest, or with @RELEASE or @REVISION another.",
        ),
    ] = ""
    task: options.Task = None
    model: options.Model = STARTER
    models: Sequence[str] = ()
    tolerance: Annotated[float, _option("tolerance", "Acceptable loss of quality in points.")] = 1.0
    format: Annotated[str | None, _option("format", "columns, conllu, tsv, csv, jsonl or parquet.", shown=_HELD)] = None
    words: Annotated[str | None, _option("words", "The column of words: position from 0, or name.", _COLUMN)] = None
    tags: Annotated[str | None, _option("tags", "The column of their tags; in CoNLL-U upos or xpos.", _COLUMN)] = None
    text: Annotated[str | None, _option("text", "A table's column of texts: name, or position from 0.", _COLUMN)] = None
    pair: Annotated[str | None, _option("pair", "The column of each pair's second text; `none` for none.", _COLUMN)] = (
        None
    )
    label: Annotated[str | None, _option("label", "A table's column of labels.", _COLUMN)] = None
    document: Annotated[
        str | None,
        _option(
            "document",
            "A table's column that names what a row is a part of: an article, a thread; `none` for none.",
            _COLUMN,
            "one called doc_id, document or the like",
        ),
    ] = None
    scheme: Annotated[
        str | None, _option("scheme", "How span tags are written: iob1, iob2, bioes or io.", shown=_HELD)
    ] = None
    train: Annotated[
        Sequence[str], _option("train", "The file of the train split; repeat it for several. Also in DATA.", "FILE")
    ] = ()
    dev: Annotated[Sequence[str], _option("dev", "Likewise, of the dev split.", "FILE")] = ()
    test: Annotated[Sequence[str], _option("test", "Likewise, of the test split.", "FILE")] = ()
    held_out: Annotated[
        float | None,
        _option(
            "held-out",
            "Let this share of train, and of a dev split's files, serve as dev.",
            "SHARE",
            "0.1 without a dev split",
        ),
    ] = None
    folds: Annotated[
        int | None,
        _option(
            "folds",
            "Cross-validation instead: each seed has one of K parts of train, and of a dev split's files, as dev.",
            "K",
        ),
    ] = None
    rates: Annotated[
        str | None,
        _option(
            "rates",
            "Try these learning rates first, as 2e-5,5e-5,1e-4 or auto, so that each depth has its own best.",
            "LIST",
        ),
    ] = None
    against: str | None = None
    max_hours: Annotated[
        float,
        _option(
            "max-hours",
            "Limit of the launch; where it forbids all of train, a part is used, and the price of all said.",
            "H",
        ),
    ] = 1.0
    store: options.Store = DEFAULT_STORE
    out: Annotated[str | None, _option("out", "Where sweep files go.", "DIR", "beside the store")] = None
    cluster: options.Cluster = "local"
    cpus: options.Cpus = None
    gpus: options.Gpus = None
    export: Annotated[
        str | None,
        _option(
            "export",
            "Also train the recommended setting on all of train, and write the model to a new folder; `best` for what "
            "the curve recommends where nothing is decided.",
            "FOLDER",
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the sweep and forecast it; run nothing.")] = False
    offline: options.Offline = False
    ask: Ask | None = None

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if name in _COLUMNS and isinstance(value, int) and not isinstance(value, bool):
                value = str(value)  # a position
            object.__setattr__(self, name, checked_argument(name, value, hint))

    def check(self) -> None:
        """Raise ConfigError if a value is invalid; columns and names are checked when they are looked up."""
        choices: dict[str, tuple[str | None, Sequence[str]]] = {
            "--task": (self.task, [*TASKS]), "--format": (self.format, [*CORPUS_FORMATS]),
            "--scheme": (self.scheme, get_args(Scheme)), "--against": (self.against, RIVALS),
        }  # fmt: skip
        for option, (word, allowed) in choices.items():
            if word is not None and word not in allowed:
                raise ConfigError(f"{option}: {unknown(word, allowed)}")
        if not 0 < self.tolerance < 100:
            raise ConfigError(f"--tolerance {self.tolerance:g}: must be above 0 and below 100 points.")
        self._check_dev()
        if self.models:
            self._check_models()
        if (self.text is None) != (self.label is None):
            raise ConfigError("--text and --label go together. Give both, by name or by position from 0.")
        if self.text is not None and (self.words or self.tags) is not None:
            raise ConfigError(
                "--text and --words ask for two things: texts with a label, or words with tags. Give one."
            )
        if not self.data and not self.train:
            raise ConfigError("no data. Give a folder, a file or a name, or --train FILE.")

    def _check_dev(self) -> None:
        if self.held_out is not None and not 0 < self.held_out <= 0.5:
            raise ConfigError(f"--held-out {self.held_out:g}: must be above 0 and at most 0.5, a share of train.")
        if self.folds is not None and not FEWEST_FOLDS <= self.folds <= MOST_FOLDS:
            raise ConfigError(f"--folds {self.folds}: must be from {FEWEST_FOLDS} to {MOST_FOLDS}.")
        if self.folds is not None and self.held_out is not None:
            raise ConfigError("--folds and --held-out both make a dev split of train. Give one.")

    def _check_models(self) -> None:
        names = [model_word(model) for model in self.models]
        if len(set(names)) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"--model {', '.join(self.models)}: give two or more, each with a name of its own.")
        alone = {"--rates": self.rates, "--against": self.against, "--export": self.export}
        if given := [name for name, value in alone.items() if value is not None]:
            raise ConfigError(f"{given[0]}: goes with one --model. Choose the model first, then ask again with it.")

    @property
    def suffix(self) -> str:
        """What the name of its sweep ends with: the model, where there are several."""
        return model_word(self.model) if self.models else ""

    @property
    def columns(self) -> Columns | None:
        """The columns that somebody has said; a number is a position. `pair` may be `none`."""
        given = {"tokens": self.words, "tags": self.tags, "text": self.text, "pair": self.pair, "label": self.label}
        given["document"] = self.document
        columns = {key: name_or_position(word) for key, word in given.items() if word is not None}
        return Columns(**columns) if columns else None

    @property
    def question(self) -> str:
        """The command that asks this, without the options that change where and when it runs only."""
        values = {name: getattr(self, name) or None for name in _ASKED} | {"model": self.models or self.model}
        return shlex.join(["permafrost", "choose", *([self.data] if self.data else []), *_words(values)])

    def command(self, **changes: object) -> str:
        """The whole command that asks this with some options changed."""
        asked = replace(self, **changes)  # type: ignore[arg-type]
        values = {name: getattr(asked, name) for name in ("against", "max_hours", "store", "out", "export")}
        given = [*_words(values), *asked.machine, *(["--offline"] if asked.offline else [])]
        return shlex.join([*shlex.split(asked.question), *given])

    @property
    def machine(self) -> list[str]:
        """The words of a command that runs where this one does."""
        cluster = self.cluster if self.cluster != "local" else None
        return _words({"cpus": self.cpus, "gpus": self.gpus, "cluster": cluster})


def _words(options: Mapping[str, object]) -> list[str]:
    """Options by attribute, as a command line has them; none for what nobody has said."""
    arguments = []
    for name, value in options.items():
        for item in value if isinstance(value, list | tuple) else [] if value is None else [value]:
            arguments += [f"--{name.replace('_', '-')}", f"{item:g}" if isinstance(item, float) else str(item)]
    return arguments


def model_word(name: str) -> str:
    """A model's name without its owner, folder and revision."""
    return Path(name.removeprefix("hub:").partition("@")[0]).name


def name_or_position(word: str) -> str | int:
    """A column as a command line names it: a position is a number."""
    return int(word) if word.lstrip("-").isdigit() else word
