"""The contract of a trial, second half: what it gives, an `EpochRecord` at every evaluation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One evaluation on dev. Times cover what happened since the record before.

    Attributes:
        step: Optimiser steps so far.
        epoch: Passes over the train subset so far; a fraction where `eval_every` is one.
        step_losses: Training loss of every step since the record before.
        train_loss: Their mean.
        dev_loss: Mean cross-entropy a labelled dev subword.
        score: The task's primary metric on dev; larger is better.
        accuracy: Token accuracy on dev; words cut off by `max_length` count as errors.
        examples_seen: Train sentences so far, repeats included.
        lr: Learning rate of the last step.
        setup_s: Seconds of set-up (data, model, optimiser); only the first record has any.
        train_s: Seconds inside optimiser steps.
        eval_s: Seconds of evaluation on dev, and on test in the last record.
        peak_memory_bytes: Largest memory of the process (on a GPU: of torch's allocator there) in this trial.
        test_score: The primary metric on test with the weights of the best dev score; only in the last record, and
            only where the corpus has a test split. It selects nothing.
        last: Whether the trial is complete with this record.
        total_params: Parameters of encoder and head.
        trainable_params: Those of them that learn.
        device: What it ran on, e.g. ``cpu`` or ``NVIDIA H200``.
        time: Unix time at the end of the evaluation.
    """

    step: int
    epoch: float
    step_losses: tuple[float, ...]
    train_loss: float
    dev_loss: float
    score: float
    accuracy: float
    examples_seen: int
    lr: float
    setup_s: float
    train_s: float
    eval_s: float
    peak_memory_bytes: int
    test_score: float | None
    last: bool
    total_params: int
    trainable_params: int
    device: str
    time: float
