"""The contract of a trial, second half: what it gives, an `EpochRecord` at every evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trials.metrics.table import TagScore


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What the weights of the best epoch do on a split.

    Attributes:
        split: ``dev`` or ``test``.
        tags: Support, precision, recall and F1 of every label.
        names: The labels that `gold` and `predicted` count in; empty where predictions are not kept, and for numbers.
        gold: A label a word, or one a text, in the corpus's order; a number of a regression.
        predicted: The same; -1 where a word was cut off.
        probability: Of the predicted label; None where there is none.
    """

    split: str
    tags: tuple[TagScore, ...]
    names: tuple[str, ...] = ()
    gold: tuple[float, ...] = ()
    predicted: tuple[float, ...] = ()
    probability: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One evaluation on dev. Times cover what happened since the record before.

    Attributes:
        step: Optimiser steps so far.
        epoch: Passes over the train subset so far; a fraction where `eval_every` is one.
        step_losses: Training loss of every step since the record before.
        train_loss: Their mean.
        dev_loss: Mean loss a label of dev.
        score: The metric that selects the best epoch, on dev; larger is better.
        metrics: All metrics of the task on dev, by name; words cut off by `max_length` count as errors.
        examples_seen: Train sentences so far, repeats included.
        lr: Learning rate of the last step.
        setup_s: Seconds of set-up (data, model, optimiser); only the first record has any.
        prefix_s: Seconds of computing the states of frozen layers that were not kept yet; only in the first record.
        train_s: Seconds inside optimiser steps.
        eval_s: Seconds of evaluation on dev, and on test in the last record.
        energy_j: Joules that the device's own counter took in during those optimiser steps: of a GPU's board, or of the
            CPU packages and all that ran on them. None where it cannot be read; see `trials.hardware.energy`.
        peak_memory_bytes: Largest memory of the process (on a GPU: of torch's allocator there) in this trial.
        test_score: The primary metric on test with the weights of the best dev score; only in the last record, and
            only where the corpus has a test split. It selects nothing.
        test_metrics: All metrics of the task on test, likewise.
        reports: Of dev, and of test where there is one, with the weights of the best dev score; only in the last
            record.
        last: Whether the trial is complete with this record.
        total_params: Parameters of encoder and head.
        trainable_params: Those of them that learn.
        device: What it ran on, e.g. ``cpu`` or ``NVIDIA H200``.
        prefix_layers: Frozen layers that were not run, as their output is kept.
        threads: CPU threads of its arithmetic; another number may change the last digits.
        gpus: GPUs it had; a fraction where others ran on the same one, so that its times are not those of a whole one.
        accumulation: Parts that a batch was taken in; more than one where memory did not suffice for a whole one.
        time: Unix time at the end of the evaluation.
    """

    step: int
    epoch: float
    step_losses: tuple[float, ...]
    train_loss: float
    dev_loss: float
    score: float
    metrics: Mapping[str, float]
    examples_seen: int
    lr: float
    setup_s: float
    prefix_s: float
    train_s: float
    eval_s: float
    energy_j: float | None
    peak_memory_bytes: int
    test_score: float | None
    test_metrics: Mapping[str, float] | None
    reports: tuple[SplitReport, ...]
    last: bool
    total_params: int
    trainable_params: int
    device: str
    prefix_layers: int
    threads: int
    gpus: float
    accumulation: int
    time: float


def known_sum(parts: Iterable[float | None]) -> float | None:
    """The sum of figures; None if any of them is not known, as the sum of the others would look like the whole."""
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
