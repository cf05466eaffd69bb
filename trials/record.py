"""What a trial yields: an `EpochRecord` at every evaluation; and how an attempt at it ended.

A field declares in its metadata what the store does with it: the column's description, whether each evaluation has it,
and how a trial's value follows from those of its evaluations. The store's schema, its rows and its data dictionary are
derived from that, and so are the names, units and places of a cost in pages, answers, searches, forecasts, metrics and
checkpoints: a new measurement is declared here and filled in by `trials.run`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from trials.metrics.label_table import TagScore

MISMATCHED = "_mismatched"  # ends the name of a metric on the mismatched split, as in GLUE's MNLI


class State(enum.StrEnum):
    """How an attempt ended. Only `completed` may enter a mean; after `lost` and `unavailable` it is tried again."""

    COMPLETED = "completed"
    PRUNED = "pruned"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    LOST = "lost"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SplitReport:
    """Results on one split with the weights of the best epoch.

    Attributes:
        split: ``dev``, ``test`` or ``mismatched``.
        tags: Support, precision, recall and F1 of every label.
        contributions: What each sentence or text contributes to the score, in the corpus's order; their mean is the
            score (`trials.metrics.metric`). Empty where that is not known.
        documents: The document of each, from 0; empty where the corpus knows none.
        words: The words of each where the score is a share of all words; empty for other scores.
        constant_score: The score of the best constant prediction; what a run that learned nothing has.
        names: The labels that `gold` and `predicted` index; empty where predictions are not stored, and for numbers.
        gold: One label for each word or text, in the corpus's order; a number in a regression.
        predicted: The same; -1 where a word was cut off.
        probability: Of the predicted label; None where there is none.
    """

    split: str
    tags: tuple[TagScore, ...]
    contributions: tuple[float, ...] = ()
    constant_score: float | None = None
    names: tuple[str, ...] = ()
    gold: tuple[float, ...] = ()
    predicted: tuple[float, ...] = ()
    probability: tuple[float | None, ...] = ()
    documents: tuple[int, ...] = ()
    words: tuple[int, ...] = ()


@dataclass(frozen=True)
class RecordColumn:
    """How the store holds one field of a record.

    Attributes:
        about: The description in the store's data dictionary.
        per_epoch: Whether the table of evaluations has the column.
        per_trial: How the table of trials combines the evaluations; None if it has no such column.
        label: What a page calls it among a trial's costs, with the unit that it is shown in; empty if it is no cost.
        unit: How many of the column's units make one of the label's.
        saved: What a sentence calls it as something that freezing saves; empty if savings of it are not shown.
        accrues: Whether it adds up within optimiser steps, beside `train_s`: checkpoints hold what has accrued since
            the last evaluation, and forecasts estimate it from seconds of training.
    """

    about: str
    per_epoch: bool = True
    per_trial: Literal["sum", "max", "last"] | None = None
    bits: Literal[32, 64] = 64
    label: str = ""
    unit: float = 1.0
    saved: str = ""
    accrues: bool = False


def _column(about: str, **options: Any) -> dict[str, RecordColumn]:
    return {"column": RecordColumn(about, **options)}


def _of_trial(about: str, **options: Any) -> dict[str, RecordColumn]:
    return _column(about, per_epoch=False, per_trial="last", **options)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One evaluation on dev. Times, energy and operations cover what happened since the previous record.

    All times are what this trial's own worker spent, except `prefix_s`, a price that every user of the states reports.

    Attributes:
        metrics: All metrics of the task on dev, by name; words cut off by `max_length` count as errors.
        test_score: The selecting metric on test with the weights of the best dev score; only in the last record, and
            only where the corpus has a test split. It selects nothing.
        test_metrics: All metrics of the task on test, likewise, and those on the mismatched split: see `final_metrics`.
        reports: On dev, and on test where there is one, with the weights of the best dev score; only in the last
            record.
        last: Whether the trial is complete with this record.
        total_params: Parameters of encoder and head.
        trainable_params: Those of them that are trained.
        time: Unix time at the end of the evaluation.
    """

    step: int = field(metadata=_column("Optimiser steps so far."))
    epoch: float = field(metadata=_column("Passes over the train subset so far; a fraction inside an epoch."))
    train_loss: float = field(metadata=_column("Mean training loss since the last evaluation."))
    step_losses: tuple[float, ...] = field(metadata=_column("Training loss of each step since the last evaluation."))
    dev_loss: float = field(metadata=_column("Mean loss per label on dev."))
    score: float = field(metadata=_column("The metric that selects the best epoch, on dev; larger is better."))
    metrics: Mapping[str, float]
    examples_seen: int = field(metadata=_column("Train examples so far, repeats included."))
    lr: float = field(metadata=_column("Learning rate of the last step."))
    setup_s: float = field(
        metadata=_column(
            "Seconds of set-up (data, model, optimiser); in the first evaluation.", per_trial="sum", label="set-up (s)"
        )
    )
    prefix_s: float = field(
        metadata=_column(
            "Seconds that it takes to compute the train subset's states of frozen layers once, measured by whichever "
            "trial computed them; in the first evaluation. Where prefix_paid_s is empty, what this trial computed.",
            per_trial="sum",
            label="frozen layers, computed once (s)",
        )
    )
    prefix_paid_s: float | None = field(
        metadata=_column(
            "Seconds that this trial itself spent on those states; 0 if all were cached. Those of dev and test are in "
            "eval_s.",
            per_trial="sum",
            label="frozen layers, computed by this trial (s)",
        )
    )
    prefix_layers: int = field(
        metadata=_of_trial("Frozen layers that were not run: their output is cached; at the end of training.", bits=32)
    )
    train_s: float = field(
        metadata=_column(
            "Seconds inside optimiser steps.",
            per_trial="sum",
            label="training (s)",
            saved="time of the optimiser steps",
        )
    )
    eval_s: float = field(
        metadata=_column(
            "Seconds of evaluation on dev, and once on test; in the first evaluation also of their states of frozen "
            "layers that were not cached yet.",
            per_trial="sum",
            label="evaluation (s)",
        )
    )
    training_flops: float | None = field(
        metadata=_column(
            "Floating-point operations of training, counted and not measured: the matrix products of the forward and "
            "backward passes by what is frozen, with padding if there was any, and once those of cached states of "
            "frozen layers.",
            per_trial="sum",
            label="training FLOPs",
            saved="training FLOPs",
        )
    )
    energy_j: float | None = field(
        metadata=_column(
            "Joules that a GPU's board itself counted during train_s, idle power included. Empty on a CPU, where the "
            "counter cannot be read, and where trials shared the GPU.",
            per_trial="sum",
            label="energy (J)",
            saved="energy",
            accrues=True,
        )
    )
    peak_memory_bytes: int | None = field(
        metadata=_column(
            "Largest memory of torch's allocator on a GPU, without states of frozen layers that lie there to be read. "
            "Empty on a CPU, where only the worker's is known.",
            per_trial="max",
            label="peak memory (MiB)",
            unit=2.0**20,
            saved="peak memory",
        )
    )
    worker_memory_bytes: int | None = field(
        metadata=_column(
            "Largest resident memory of the worker process during the trial, with what earlier trials left in it.",
            per_trial="max",
            label="memory of the worker (MiB)",
            unit=2.0**20,
        )
    )
    device: str = field(metadata=_of_trial("The device, e.g. `cpu AMD EPYC` or `NVIDIA H200`."))
    gpus: float = field(metadata=_of_trial("GPUs; a fraction where other trials ran on the same one."))
    accumulation: int = field(metadata=_of_trial("Parts that a batch was split into, for want of memory.", bits=32))
    padding_free: int | None = field(
        metadata=_of_trial(
            "1 if batches lay end to end, without padding; 0 if they were padded.",
            bits=32,
        )
    )
    threads: int = field(metadata=_of_trial("CPU threads; other numbers may change the last digits.", bits=32))
    dev_cut_off: int | None = field(
        metadata=_of_trial("Words of dev beyond `max_length`, each an error; texts of which it cut the end.", bits=32)
    )
    train_cut_off: int | None = field(metadata=_of_trial("The same of the train subset, not learnt.", bits=32))
    worker_slots: int | None = field(
        metadata=_of_trial(
            "Trials that could run at the same time on the machine; of those that shared a GPU the mean number that "
            "did, if that is under three quarters of these. Empty where unknown.",
            bits=32,
        )
    )
    test_score: float | None
    test_metrics: Mapping[str, float] | None
    reports: tuple[SplitReport, ...]
    last: bool
    total_params: int
    trainable_params: int
    time: float
    frozen_layers: int | None = field(  # with a default, as older checkpoints lack it
        default=None,
        metadata=_column(
            "Encoder layers that were frozen in the last step. It falls with gradual unfreezing.",
            per_trial="last",
            bits=32,
        ),
    )
    mean_frozen_layers: float | None = field(  # likewise a default
        default=None,
        metadata=_column("Mean number of frozen encoder layers over all steps so far.", per_trial="last"),
    )
    step_mode: str | None = field(  # likewise a default
        default=None,
        metadata=_of_trial(
            "How training steps ran: `rows` (sentences end to end, on a CPU), `padded` (padded batches), `graphs` (the "
            "same, each step replayed as a CUDA graph), `plain` (padded, attention without a fused kernel)."
        ),
    )
    refused_modes: str | None = field(  # likewise a default
        default=None,
        metadata=_of_trial(
            "Faster ways of running steps that were not used, as their gradient was found wrong on this node; empty "
            "where there is none."
        ),
    )
    checkpoint_error: str | None = field(  # likewise a default, as older checkpoints lack it
        default=None,
        metadata=_column(
            "Why a checkpoint since the last evaluation could not be written; the trial went on.", per_trial="max"
        ),
    )

    def with_placement(self, *, gpus: float, worker_slots: int) -> EpochRecord:
        """The record of a trial that was given this share or number of GPUs, on a machine with this many slots.

        A shared GPU's counter does not say whose the energy is.
        """
        energy_j = None if 0 < gpus < 1 else self.energy_j
        return replace(self, gpus=gpus, worker_slots=worker_slots, energy_j=energy_j)

    @property
    def spent_s(self) -> float:
        """Seconds that the trial's worker spent since the previous record."""
        paid = self.prefix_s if self.prefix_paid_s is None else self.prefix_paid_s
        return self.setup_s + paid + self.train_s + self.eval_s


RECORD_COLUMNS: dict[str, RecordColumn] = {
    attribute.name: attribute.metadata["column"] for attribute in fields(EpochRecord) if "column" in attribute.metadata
}
"""The columns that the store derives from a record, in their order there."""
COSTS: dict[str, RecordColumn] = {name: column for name, column in RECORD_COLUMNS.items() if column.label}
"""The columns that are costs of a trial."""
ACCRUED: dict[str, RecordColumn] = {name: column for name, column in RECORD_COLUMNS.items() if column.accrues}
"""The columns that add up within optimiser steps, beside `train_s`."""
MEASURED = (
    "best_score", "test_score", *COSTS, "total_params", "trainable_params", "constant_score", "loss_fall",
    "frozen_layers", "mean_frozen_layers",
)  # fmt: skip
"""What is measured of a trial, by column of the store's `trials` table and of a frame."""
TRAINING_COST, MEMORY = "training_cost_s", "peak_memory_bytes"
_SAVED = {
    TRAINING_COST: "training time",
    "trainable_params": "trainable parameters",
    **{name: column.saved for name, column in COSTS.items() if column.saved},
}
_FIRST = ("training_flops", TRAINING_COST, "train_s", "trainable_params", MEMORY)
SAVED = {name: _SAVED[name] for name in (*_FIRST, *_SAVED)}
"""What a sentence calls each cost that freezing may save, by column of a frame."""


def spent_s(row: Mapping[str, Any]) -> float:
    """Seconds that a trial's worker spent on it, from its row: in older stores `prefix_s` is what it paid itself."""
    return float(row["setup_s"] + paid_prefix_s(row) + row["train_s"] + row["eval_s"])


def paid_prefix_s(row: Mapping[str, Any]) -> float:
    """Seconds of computing states of frozen layers that a trial spent itself, from its row."""
    paid = row.get("prefix_paid_s")
    return float((row["prefix_s"] if paid is None else paid) or 0.0)


def known_sum(parts: Iterable[float | None]) -> float | None:
    """The sum; None if any part is unknown, as the sum of the others would look like the whole."""
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


_COMBINE: dict[str, Callable[[list[Any]], Any]] = {
    "sum": known_sum,
    "max": lambda values: max((value for value in values if value is not None), default=None),  # of those known
    "last": lambda values: values[-1],
}


def trial_totals(records: Sequence[EpochRecord]) -> dict[str, Any]:
    """The columns of a trial that follow from its records: sums, maxima and last values."""
    return {
        name: _COMBINE[column.per_trial]([getattr(record, name) for record in records])
        for name, column in RECORD_COLUMNS.items()
        if column.per_trial
    }


def final_metrics(
    test: Mapping[str, float] | None = None, mismatched: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The metrics of the splits that are scored once, at the end, in one mapping: `accuracy`, `accuracy_mismatched`."""
    return {**(test or {}), **{f"{name}{MISMATCHED}": value for name, value in (mismatched or {}).items()}}


def loss_fall(losses: Sequence[float]) -> float | None:
    """By what share of the mean of its first tenth the mean of the last tenth of a training loss lies lower.

    -1 if the loss is not finite at the end, None if there are fewer than two steps.
    """
    steps = np.asarray(losses, dtype=np.float64)
    if len(steps) < 2:
        return None
    tenth = max(1, len(steps) // 10)
    first, last = float(steps[:tenth].mean()), float(steps[-tenth:].mean())
    return 1 - last / first if np.isfinite(last) and first > 0 else -1.0
