"""What a trial yields: an `EpochRecord` at every evaluation.

A field declares in its metadata what the store does with it: the column's description, whether each evaluation has it,
and how a trial's value follows from those of its evaluations. The store's schema, its rows and its data dictionary are
derived from that, so a new measurement is declared here and filled in by `trials.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from trials.metrics.table import TagScore


@dataclass(frozen=True, slots=True)
class SplitReport:
    """Results on one split with the weights of the best epoch.

    Attributes:
        split: ``dev`` or ``test``.
        tags: Support, precision, recall and F1 of every label.
        contributions: What each sentence or text contributes to the score, in the corpus's order; their mean is the
            score (`trials.metrics.pseudo_values`). Empty where that is not known.
        names: The labels that `gold` and `predicted` index; empty where predictions are not stored, and for numbers.
        gold: One label for each word or text, in the corpus's order; a number in a regression.
        predicted: The same; -1 where a word was cut off.
        probability: Of the predicted label; None where there is none.
    """

    split: str
    tags: tuple[TagScore, ...]
    contributions: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    gold: tuple[float, ...] = ()
    predicted: tuple[float, ...] = ()
    probability: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class RecordColumn:
    """How the store holds one field of a record.

    Attributes:
        about: The description in the store's data dictionary.
        per_epoch: Whether the table of evaluations has the column.
        per_trial: How the table of trials combines the evaluations; None if it has no such column.
        bits: Width of an integer.
    """

    about: str
    per_epoch: bool = True
    per_trial: Literal["sum", "max", "last"] | None = None
    bits: Literal[32, 64] = 64


def _column(about: str, **options: Any) -> dict[str, RecordColumn]:
    return {"column": RecordColumn(about, **options)}


def _of_trial(about: str, **options: Any) -> dict[str, RecordColumn]:
    return _column(about, per_epoch=False, per_trial="last", **options)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One evaluation on dev. Times and energy cover what happened since the previous record.

    Attributes:
        metrics: All metrics of the task on dev, by name; words cut off by `max_length` count as errors.
        test_score: The selecting metric on test with the weights of the best dev score; only in the last record, and
            only where the corpus has a test split. It selects nothing.
        test_metrics: All metrics of the task on test, likewise.
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
        metadata=_column("Seconds of set-up (data, model, optimiser); in the first evaluation.", per_trial="sum")
    )
    prefix_s: float = field(
        metadata=_column("Seconds of computing states of frozen layers that were not cached yet.", per_trial="sum")
    )
    prefix_layers: int = field(metadata=_of_trial("Frozen layers that were not run: their output is cached.", bits=32))
    train_s: float = field(metadata=_column("Seconds inside optimiser steps.", per_trial="sum"))
    eval_s: float = field(metadata=_column("Seconds of evaluation on dev, and once on test.", per_trial="sum"))
    energy_j: float | None = field(
        metadata=_column(
            "Joules that the device itself counted during train_s: of a GPU's board, or of all CPU packages of the "
            "machine, idle power included, without memory modules. Empty where a counter cannot be read, where trials "
            "shared the GPU, and where other processes did over a tenth of the CPUs' work.",
            per_trial="sum",
        )
    )
    peak_memory_bytes: int = field(
        metadata=_column("Largest memory of the process; on a GPU, of torch's allocator there.", per_trial="max")
    )
    device: str = field(metadata=_of_trial("The device, e.g. `cpu AMD EPYC` or `NVIDIA H200`."))
    gpus: float = field(metadata=_of_trial("GPUs; a fraction where other trials ran on the same one."))
    accumulation: int = field(metadata=_of_trial("Parts that a batch was split into, for want of memory.", bits=32))
    threads: int = field(metadata=_of_trial("CPU threads; other numbers may change the last digits.", bits=32))
    test_score: float | None
    test_metrics: Mapping[str, float] | None
    reports: tuple[SplitReport, ...]
    last: bool
    total_params: int
    trainable_params: int
    time: float

    def on_gpus(self, gpus: float) -> EpochRecord:
        """The record of a trial with so many GPUs; a shared GPU's counter does not say whose the energy is."""
        return replace(self, gpus=gpus, energy_j=None if 0 < gpus < 1 else self.energy_j)


RECORD_COLUMNS: dict[str, RecordColumn] = {
    each.name: each.metadata["column"] for each in fields(EpochRecord) if "column" in each.metadata
}
"""The columns that the store derives from a record, in their order there."""


def known_sum(parts: Iterable[float | None]) -> float | None:
    """The sum; None if any part is unknown, as the sum of the others would look like the whole."""
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


_COMBINE: dict[str, Callable[[list[Any]], Any]] = {"sum": known_sum, "max": max, "last": lambda values: values[-1]}


def trial_totals(records: Sequence[EpochRecord]) -> dict[str, Any]:
    """The columns of a trial that follow from its records: sums, maxima and last values."""
    return {
        name: _COMBINE[column.per_trial]([getattr(record, name) for record in records])
        for name, column in RECORD_COLUMNS.items()
        if column.per_trial
    }
