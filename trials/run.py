"""One trial, top to bottom: a generator of epoch records.

To stop a trial early, stop iterating. Nothing is handed in but the spec, and nothing is left behind but warm caches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch

from trials.batching import shuffled_batches
from trials.device import PeakMemory, default_device, device_name, wait_for
from trials.encoding import Encoded, encode_for
from trials.freeze.apply import freeze_parts, train_mode
from trials.loop import Training, evaluate, train_steps
from trials.models.load import LoadedModel, load_model, load_tokenizer
from trials.record import EpochRecord
from trials.seeding import GlobalStream, numpy_stream, torch_stream
from trials.spec import TrialSpec
from trials.subsets import nested_subset
from trials.tasks import TASKS


def run_trial(spec: TrialSpec, *, device: torch.device | None = None) -> Iterator[EpochRecord]:
    """Train one model and yield a record at every evaluation on dev; the last one holds the test score.

    Raises:
        DataError, ModelError: a file is absent, broken or not the planned one.
        DivergedError: the training loss is not finite; the records until then stand.
    """
    device = device or default_device()
    clock, memory = _Clock(device), PeakMemory(device)
    task, data = TASKS[spec.task], encode_for(spec)
    training = _set_up(spec, data, device)
    loaded, dropout = training.loaded, GlobalStream(spec.seed, "dropout", device)
    best = _Best(loaded)
    setup_s = clock.lap()

    stops = evaluation_steps(training.n_steps, spec.optim.epochs, spec.eval_every)
    for stop in stops:
        train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=spec.frozen_dropout)
        clock.lap()
        with dropout.drawn():
            losses = train_steps(training, stop - training.step)
        train_s = clock.lap()

        dev = evaluate(training, data.dev)
        score = task.score(dev.n_correct, dev.n_words)
        best.offer(score)
        test_score, last = None, stop == stops[-1]
        if last and data.test:
            best.restore()
            test = evaluate(training, data.test)
            test_score = task.score(test.n_correct, test.n_words)
        eval_s = clock.lap()

        yield EpochRecord(
            step=training.step,
            epoch=training.step * spec.optim.epochs / training.n_steps,
            step_losses=losses,
            train_loss=sum(losses) / len(losses),
            dev_loss=dev.loss,
            score=score,
            accuracy=dev.n_correct / dev.n_words,
            examples_seen=_examples_seen(spec, training.step),
            lr=training.lr,
            setup_s=setup_s,
            train_s=train_s,
            eval_s=eval_s,
            peak_memory_bytes=memory.read_bytes(),
            test_score=test_score,
            last=last,
            total_params=loaded.params(),
            trainable_params=loaded.trainable_params(),
            device=device_name(device),
            time=time.time(),
        )
        setup_s = 0.0


def steps_an_epoch(spec: TrialSpec) -> int:
    """Optimiser steps of one pass over the train subset; the last batch may be smaller."""
    return math.ceil(spec.train_size / spec.optim.batch_size)


def evaluation_steps(n_steps: int, epochs: int, eval_every: float) -> list[int]:
    """The steps after which dev is evaluated: every `eval_every` epochs, and at the end."""
    n_evaluations = math.ceil(epochs / eval_every - 1e-9)
    stops = {round(k * eval_every * n_steps / epochs) for k in range(1, n_evaluations)}
    return sorted(stop for stop in stops | {n_steps} if 0 < stop <= n_steps)


def _set_up(spec: TrialSpec, data: Encoded, device: torch.device) -> Training:
    init = torch_stream(spec.seed, "init")
    loaded = load_model(spec.model, n_labels=len(data.labels), dropout=spec.dropout, init=init)
    freeze_parts(loaded.parts, spec.freeze)
    loaded.model.to(device)
    subset = nested_subset(len(data.train), spec.train_size, spec.seed)
    return Training(
        loaded=loaded,
        optim=spec.optim,
        examples=[data.train[i] for i in subset],
        batches=shuffled_batches(spec.train_size, spec.optim.batch_size, numpy_stream(spec.seed, "order")),
        pad_id=load_tokenizer(spec.model).pad_token_id,
        device=device,
        precision=_precision(spec, device),
        n_steps=steps_an_epoch(spec) * spec.optim.epochs,
    )


def _precision(spec: TrialSpec, device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=spec.precision == "bf16")


def _examples_seen(spec: TrialSpec, step: int) -> int:
    epochs, steps = divmod(step, steps_an_epoch(spec))
    return epochs * spec.train_size + min(steps * spec.optim.batch_size, spec.train_size)


class _Best:
    """The trainable weights at the best dev score so far, the earliest of equals: what the test split is shown."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._learning = [p for p in loaded.model.parameters() if p.requires_grad]
        self._score = -math.inf
        self._weights: list[torch.Tensor] = []

    def offer(self, score: float) -> None:
        """Keep the weights if they score better than all before."""
        if score > self._score:
            self._score, self._weights = score, [p.detach().clone() for p in self._learning]

    @torch.no_grad()
    def restore(self) -> None:
        """Put the best weights back into the model."""
        for parameter, best in zip(self._learning, self._weights, strict=True):
            parameter.copy_(best)


class _Clock:
    """Seconds between laps, all work queued on the device included."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._last = device, time.perf_counter()

    def lap(self) -> float:
        """Seconds since the lap before."""
        wait_for(self._device)
        before, self._last = self._last, time.perf_counter()
        return self._last - before
