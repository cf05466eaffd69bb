"""The numbers of published studies, as data: `configs/published/*.yaml`.

    study = load_study("emekaeze_pos")
    for result in study.results_flat(): ...

A file defines its metrics, corpora and freezes once; its tables then have one row per freeze. A column is a metric,
with `@3` for its value after epoch 3 and `.std` for a statistic over the seeds. A cell is a number, `null` (not given)
or `[low, high]`. What a study does not state is `unknown`, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from orchestrator.config.command_line import configs_folder
from orchestrator.config.yaml_document import Document, faults
from trials.errors import ConfigError, unknown
from trials.spec import Frozen, Positive, Share

UNKNOWN: Literal["unknown"] = "unknown"

Unknown = Literal["unknown"]


class Protocol(Frozen):
    """How a study trained, in the names and units of `trials.spec`, with a few more settings.

    Attributes:
        model: Name of the checkpoint in the study.
        n_layers: Number of encoder layers.
        optimizer: In the study's words.
        schedule, precision, batching: The study's words, compared with a trial's.
        lr: Peak learning rate.
        weight_decay: Of decoupled weight decay.
        warmup: Share of the steps before the peak learning rate.
        batch_size: Sentences or texts per step.
        epochs: Passes over the train split.
        max_grad_norm: The norm to which gradients are clipped; null means that they are not.
        max_length: Subwords of a sentence that are read.
        lowercase: Whether words are lowercased first.
        eval_every: Epochs between evaluations.
        frozen_dropout: Whether frozen layers apply dropout.
        seeds, n_seeds: The seeds, and their number.
        hardware: The device.
        head_lr: Peak learning rate of the head, if it differs.
        layer_decay: Factor of the learning rate from each layer to the one below it.
        dropout: Probability, if it differs from the checkpoint's.
        thaw_every: Epochs after which the next layer is unfrozen.
        lora: The adapters, in words.
    """

    model: str
    n_layers: Positive | Unknown
    optimizer: str
    lr: float | Unknown
    weight_decay: float | Unknown
    schedule: str
    warmup: Share | Unknown
    batch_size: Positive | Unknown
    epochs: Positive | Unknown
    max_grad_norm: float | Unknown | None
    precision: str
    max_length: Positive | Unknown
    lowercase: bool | Unknown
    eval_every: float | Unknown
    frozen_dropout: bool | Unknown
    batching: str
    seeds: tuple[int, ...] | Unknown
    n_seeds: Positive | Unknown
    hardware: str
    head_lr: float | None = None
    layer_decay: float | None = None
    dropout: float | None = None
    thaw_every: Positive | None = None
    lora: str | None = None


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
    version: str
    task: str
    sizes: tuple[int, int, int | None] | Unknown
    lookalikes: dict[str, tuple[Literal["train", "dev", "test"], ...]] = {}


class Metric(Frozen):
    """A metric of a study, and ours that corresponds to it.

    Attributes:
        called: Its name in the study.
        columns: Ours: a metric of the store or a number derived from its rows; several if the study does not say which
            one it means, none if we have no such metric.
        split: The split that was scored, for quality metrics.
        epoch: The reported evaluation.
        unit: ``share`` is 0..1.
        to_baseline: Whether it is the difference to the study's own baseline.
    """

    called: str
    columns: tuple[str, ...]
    split: Literal["dev", "test", "unknown"] = "dev"
    epoch: Literal["last", "best", "unknown"] = "last"
    unit: Literal["share", "count", "s", "loss", "rate"] = "share"
    to_baseline: bool = False


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

    @property
    def is_exact(self) -> bool:
        """Whether the study states which parts were frozen."""
        return self.layers != UNKNOWN and self.embeddings != UNKNOWN

    @property
    def is_baseline(self) -> bool:
        """Whether nothing was frozen."""
        return self.layers == () and self.embeddings is False


class Concern(Frozen):
    """A set of numbers by table, column and freeze.

    Attributes:
        groups: Ids of tables; an empty list matches all, as in the other two.
        columns: Keys of the study's metrics.
        freezes: Keys of its freezes.
    """

    groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    freezes: tuple[str, ...] = ()


class Remark(Frozen):
    """An error or an open question of a study, or a difference between its procedure and ours whatever the settings.

    Attributes:
        text: What is wrong, unclear or different, as `compare` prints it.
        concerns: The numbers that it affects; empty if it affects only the text.
        id: A short name.
    """

    text: str
    concerns: tuple[Concern, ...] = ()
    id: str = ""

    def is_about(self, result: Published) -> bool:
        """Whether it affects a number."""
        return any(
            result.group in (concern.groups or (result.group,))
            and result.metric in (concern.columns or (result.metric,))
            and result.freeze in (concern.freezes or (result.freeze,))
            for concern in self.concerns
        )


FOLDER = configs_folder("published")
STUDIES: tuple[str, ...] = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
Cell = float | tuple[float, float] | None
COLUMN = re.compile(r"(?P<metric>\w+)(@(?P<epoch>[1-9]\d*))?(\.(?P<statistic>mean|median|std|min|max))?")


class Group(Frozen):
    """One table, with a fixed corpus and train size.

    Attributes:
        id: A short name, unique in the file.
        source: Where in the study it is.
        corpus: A key of the study's corpora; None if the numbers do not depend on one.
        train_size: None means the whole train split.
        columns: The meaning of each cell of a row.
        rows: Key of the study's freezes -> its cells.
        detail: Whether it repeats other tables, so that the terminal omits it.
    """

    id: str
    source: str
    corpus: str | None
    train_size: Positive | None = None
    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    rows: dict[str, tuple[Cell, ...]]
    detail: bool = False

    @model_validator(mode="after")
    def _rows_fit(self) -> Group:
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


class PublishedNumber(Frozen):
    """A published number: one run's, a mean over seeds with its spread, or a range.

    Attributes:
        low, high: Twice the number itself, or the ends of a range.
        median, std, min, max: Over the seeds.
    """

    low: float
    high: float
    median: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None


class Published(Frozen):
    """One published result.

    Attributes:
        group: Id of its table.
        freeze: Key of the study's freezes.
        metric: Key of the study's metrics.
        at_epoch: Epochs before the value, for a curve.
    """

    group: str
    freeze: str
    metric: str
    at_epoch: int | None
    figure: PublishedNumber


class Study(Frozen):
    """A study: its protocol as far as it is known, its errata, and its numbers.

    Attributes:
        study: The name of its file.
        title, authors, year: Of the publication.
        url, doi: Where it is; `doi` is null without one.
        sources: The texts that the numbers were copied from.
        protocol: How it trained.
        corpora, metrics, freezes: What its tables refer to, by a key for each.
        errata: Errors and open questions.
        differences: Between its procedure and ours, beyond the settings of the protocol.
        results: Its numbers, a table each.
    """

    study: str
    title: str
    authors: tuple[str, ...]
    year: int | Unknown
    url: str
    doi: str | None
    sources: dict[str, str]
    protocol: Protocol
    corpora: dict[str, PublishedCorpus]
    metrics: dict[str, Metric]
    freezes: dict[str, PublishedFreeze]
    errata: tuple[Remark, ...]
    differences: tuple[Remark, ...] = ()
    results: tuple[Group, ...]

    @model_validator(mode="after")
    def _words_are_known(self) -> Study:
        groups = [group.id for group in self.results]
        concerns = [concern for remark in (*self.errata, *self.differences) for concern in remark.concerns]
        metrics = [re.split("[@.]", column)[0] for group in self.results for column in group.columns]
        freezes = [row for group in self.results for row in group.rows]
        used = [("corpus", group.corpus, list(self.corpora)) for group in self.results if group.corpus is not None]
        used += [("metric", name, list(self.metrics)) for name in [*metrics, *(m for c in concerns for m in c.columns)]]
        used += [("freeze", name, list(self.freezes)) for name in [*freezes, *(f for c in concerns for f in c.freezes)]]
        used += [("group", name, groups) for concern in concerns for name in concern.groups]
        wrong = [f"{kind} {unknown(name, allowed)}" for kind, name, allowed in used if name not in allowed]
        if len(set(groups)) < len(groups):
            wrong.append("two tables of `results` have the same id")
        if wrong:
            raise ValueError("; ".join(dict.fromkeys(wrong)))
        return self

    @property
    def citation(self) -> str:
        """Authors, year, title."""
        year = "no year given" if self.year == UNKNOWN else self.year
        url = "" if self.url == UNKNOWN else f" {self.url}"
        return f"{', '.join(self.authors)} ({year}). {self.title}.{url}"

    def results_flat(self, only: Group | None = None) -> Iterator[Published]:
        """Every number, or those of one table, in the order of the file; the statistics of one metric are combined."""
        for group in self.results if only is None else (only,):
            for freeze, cells in group.rows.items():
                yield from _results_of_row(group, freeze, cells)


def load_study(name: str) -> Study:
    """The study of that name.

    Raises:
        ConfigError: no such study, or its file is not valid; all errors with file, line and key.
    """
    if name not in STUDIES:
        raise ConfigError(f"--study: {unknown(name, STUDIES)}")
    return read_study(FOLDER / f"{name}.yaml")


def read_study(path: Path) -> Study:
    """A study from a file. Raises ConfigError."""
    document = Document.read(path, list(Study.model_fields))
    try:
        return Study.model_validate(document.content)
    except ValidationError as error:
        raise ConfigError([document.place(fault.path) + fault.text for fault in faults(error, Study)]) from error


def _results_of_row(group: Group, freeze: str, cells: tuple[Cell, ...]) -> Iterator[Published]:
    numbers: dict[tuple[str, int | None], dict[str, float]] = {}
    for column, cell in zip(group.columns, cells, strict=True):
        match = COLUMN.fullmatch(column)
        assert match is not None
        if cell is None:
            continue
        values = numbers.setdefault((match["metric"], int(match["epoch"]) if match["epoch"] else None), {})
        if isinstance(cell, tuple):
            values |= {"low": cell[0], "high": cell[1]}
        elif match["statistic"] in (None, "mean"):
            values |= {"low": cell, "high": cell}
        else:
            values[match["statistic"]] = cell
    for (metric, epoch), values in numbers.items():
        figure = PublishedNumber.model_validate(values)
        yield Published(group=group.id, freeze=freeze, metric=metric, at_epoch=epoch, figure=figure)
