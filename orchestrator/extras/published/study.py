"""The numbers of published studies, as data: `configs/published/*.yaml`.

    study = load_study("emekaeze_pos")
    for number in study.numbers(): ...

A file defines its metrics, corpora and freezes once; its tables then have one row per freeze. A column is a metric,
with `@3` for its value after epoch 3 and `.std` for a statistic over the seeds. A cell is a number, `null` (not given)
or `[low, high]`. What a study does not state is left out or `unknown`, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, model_validator

from orchestrator.config.command_line import configs_folder
from orchestrator.config.yaml_document import Document, faults
from trials.errors import ConfigError, unknown_name
from trials.spec import Frozen, Positive

UNKNOWN: Literal["unknown"] = "unknown"
FOLDER = configs_folder("published")
STUDIES: tuple[str, ...] = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
ALWAYS_SET = (
    "lr", "weight_decay", "schedule", "warmup", "batch_size", "epochs", "max_grad_norm", "precision", "max_length",
    "lowercase", "eval_every", "frozen_dropout", "batching",
)  # fmt: skip
NOT_USED = ("head_lr", "layer_decay", "dropout", "thaw_every", "lora")  # by a study that does not name them
COLUMN = re.compile(r"(?P<metric>\w+)(@(?P<epoch>[1-9]\d*))?(\.(?P<statistic>mean|median|std|min|max))?")

Unknown = Literal["unknown"]
Cell = float | tuple[float, float] | None


def _setting(name: str) -> str:
    if name not in (settings := (*ALWAYS_SET, *NOT_USED)):
        raise ValueError(unknown_name(name, settings))
    return name


class PublishedCorpus(Frozen):
    """A corpus of a study.

    Attributes:
        name: Its name in the study.
        version: Its release.
        task: Our name of the task.
        sizes: Sentences or texts of train, dev and test; null for an unused split.
        lookalikes: Corpora of the same counts (part of a name, lower case), and the splits in which they differ.
    """

    name: str
    version: str = UNKNOWN
    task: str
    sizes: tuple[int, int, int | None] | Unknown
    lookalikes: dict[str, tuple[Literal["train", "dev", "test"], ...]] = {}

    @property
    def full_name(self) -> str:
        """`UD_English-EWT 2.16`."""
        return self.name if self.version == UNKNOWN else f"{self.name} {self.version}"


class Metric(Frozen):
    """A metric of a study, and ours that corresponds to it.

    Attributes:
        called: Its name in the study.
        columns: Ours: a metric of the store or a number derived from its rows; several if the study does not say which
            one it means, none if we have no such metric.
        split: The split that was scored, for quality metrics.
        epoch: The reported evaluation.
    """

    called: str
    columns: tuple[str, ...]
    split: Literal["dev", "test", "unknown"] = "dev"
    epoch: Literal["last", "best", "unknown"] = "last"


class PublishedFreeze(Frozen):
    """What a study froze.

    Attributes:
        label: Its name in the study.
        layers: Indices of the frozen encoder layers.
        embeddings: Whether the embeddings were frozen as well.
    """

    label: str
    layers: tuple[int, ...] | Unknown
    embeddings: bool | Unknown


class Number(NamedTuple):
    """One published number: one run's, a mean over seeds with its spread, or a range.

    Attributes:
        table, freeze, metric: Keys of the study's tables, freezes and metrics.
        at_epoch: Epochs before the value, for a curve.
        low, high: Twice the number itself, or the ends of a range; shares are 0..1.
        statistics: Over the seeds, by name: `median`, `std`, `min`, `max`.
    """

    table: str
    freeze: str
    metric: str
    at_epoch: int | None
    low: float
    high: float
    statistics: dict[str, float]


class Erratum(Frozen):
    """An error or an open question of a study, or what its procedure does otherwise than ours whatever the settings.

    Attributes:
        text: What is wrong, unclear or different, as `compare` prints it.
        tables: Keys of the tables with numbers that it affects; empty for all tables, as in the next two for all
            columns and freezes. Without any of the three it affects the text alone.
        columns: Keys of the study's metrics.
        freezes: Keys of its freezes.
    """

    text: str
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    freezes: tuple[str, ...] = ()

    @property
    def is_of_text(self) -> bool:
        """Whether it affects no number."""
        return not (self.tables or self.columns or self.freezes)

    def affects(self, number: Number) -> bool:
        """Whether it affects a number."""
        places = ((self.tables, number.table), (self.columns, number.metric), (self.freezes, number.freeze))
        return not self.is_of_text and all(not names or name in names for names, name in places)


class PublishedTable(Frozen):
    """One table, with a fixed corpus and train size.

    Attributes:
        source: Where in the study it is.
        corpus: A key of the study's corpora; null if the numbers do not depend on one.
        train_size: Null means the whole train split.
        columns: The meaning of each cell of a row.
        rows: Key of the study's freezes -> its cells.
    """

    source: str
    corpus: str | None = None
    train_size: Positive | None = None
    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    rows: dict[str, tuple[Cell, ...]]

    @model_validator(mode="after")
    def _rows_fit(self) -> PublishedTable:
        for column in self.columns:
            if not COLUMN.fullmatch(column):
                raise ValueError(f"column {column!r}: must be a metric, optionally with @EPOCH and .STATISTIC")
            alone, _, statistic = column.partition(".")
            if statistic and not {alone, f"{alone}.mean"} & set(self.columns):
                raise ValueError(f"column {column!r}: needs the column {alone}.mean beside it")
        for freeze, cells in self.rows.items():
            if len(cells) != len(self.columns):
                raise ValueError(f"row {freeze!r} has {len(cells)} cells for {len(self.columns)} columns")
        return self

    def numbers(self, key: str) -> Iterator[Number]:
        """Its numbers by column, then row; the statistics of one metric are one number. `key` is its own."""
        found: dict[tuple[str, str], Number] = {}
        for place, column in enumerate(self.columns):
            match = COLUMN.fullmatch(column)
            assert match is not None
            for freeze, cells in self.rows.items():
                number_key, cell = (column.partition(".")[0], freeze), cells[place]
                if cell is None:
                    continue
                low, high = cell if isinstance(cell, tuple) else (cell, cell)
                epoch = int(match["epoch"]) if match["epoch"] else None
                number = found.setdefault(number_key, Number(key, freeze, match["metric"], epoch, low, high, {}))
                if match["statistic"] in (None, "mean"):
                    found[number_key] = number._replace(low=low, high=high)
                else:
                    number.statistics[match["statistic"]] = low
        yield from found.values()


class Study(Frozen):
    """A study: its protocol as far as it is known, its errata, and its numbers.

    Attributes:
        citation: Authors, year, title, where it is.
        model: Name of the checkpoint in the study.
        n_layers: Number of encoder layers.
        n_seeds: Runs per number.
        hardware: The device.
        settings: How it trained, by the keys of [a trial](trial.md). What is left out is not stated; of `head_lr`,
            `layer_decay`, `dropout`, `thaw_every` and `lora`, not used.
        corpora, metrics, freezes: What its tables refer to, by a key for each.
        errata: Errors and open questions.
        tables: Its numbers, by a key for each table.
    """

    citation: str
    model: str
    n_layers: Positive | Unknown = UNKNOWN
    n_seeds: Positive | Unknown = UNKNOWN
    hardware: str = UNKNOWN
    settings: dict[Annotated[str, AfterValidator(_setting)], bool | int | float | str | None] = {}
    corpora: dict[str, PublishedCorpus]
    metrics: dict[str, Metric]
    freezes: dict[str, PublishedFreeze]
    errata: tuple[Erratum, ...] = ()
    tables: dict[str, PublishedTable]

    @model_validator(mode="after")
    def _words_are_known(self) -> Study:
        tables, errata = self.tables.values(), self.errata
        columns = [*(table.columns for table in tables), *(erratum.columns for erratum in errata)]
        freezes = [*(table.rows for table in tables), *(erratum.freezes for erratum in errata)]
        used: list[tuple[str, Iterable[str], Iterable[str]]] = [
            ("corpus", self.corpora, (table.corpus for table in tables if table.corpus)),
            ("metric", self.metrics, (re.split("[@.]", name)[0] for names in columns for name in names)),
            ("freeze", self.freezes, (name for names in freezes for name in names)),
            ("table", self.tables, (name for erratum in errata for name in erratum.tables)),
        ]
        wrong = [f"{kind} {unknown_name(name, own)}" for kind, own, names in used for name in names if name not in own]
        if wrong:
            raise ValueError("; ".join(dict.fromkeys(wrong)))
        return self

    def setting(self, name: str) -> object:
        """Its value; `unknown` if the study does not state it."""
        return self.settings.get(name, UNKNOWN if name in ALWAYS_SET else None)

    def numbers(self) -> Iterator[Number]:
        """Every number, in the order of the file."""
        for key, table in self.tables.items():
            yield from table.numbers(key)


def load_study(name: str) -> Study:
    """The study of that name.

    Raises:
        ConfigError: no such study, or its file is not valid; all errors with file, line and key.
    """
    if name not in STUDIES:
        raise ConfigError(f"--study: {unknown_name(name, STUDIES)}")
    return read_study(FOLDER / f"{name}.yaml")


def read_study(path: Path) -> Study:
    """A study from a file. Raises ConfigError."""
    document = Document.read(path, list(Study.model_fields))
    try:
        return Study.model_validate(document.content)
    except ValidationError as error:
        raise ConfigError([document.place(fault.path) + fault.text for fault in faults(error, Study)]) from error
