"""One trial, top to bottom: a generator of epoch records.

To stop a trial early, stop iterating. Nothing is handed in but the spec, and nothing is left behind but warm caches.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from trials.batching import shuffled_batches
from trials.best import Best, split_report
from trials.device import PeakMemory, default_device, device_name, wait_for
from trials.encoding import Encoded, encode_for
from trials.freeze.apply import freeze_parts
from trials.loop import Training, evaluate
from trials.models.load import LoadedModel, family_of, load_model, load_tokenizer
from trials.record import EpochRecord, SplitReport
from trials.seeding import GlobalStream, numpy_stream, torch_stream
from trials.spec import Predictions, TrialSpec
from trials.steps import evaluation_steps, examples_seen, steps_an_epoch
from trials.subsets import nested_subset, stratified_subset
from trials.tasks import TASKS
from trials.tasks.task import Split
from trials.thawing import Thawing, frozen_for_ever

_AUTOCAST = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Trained:
    """What a whole trial leaves: the model with the weights of its best dev score, and the labels of its head."""

    loaded: LoadedModel
    labels: tuple[str, ...]


def run_trial(
    spec: TrialSpec, *, device: torch.device | None = None, predictions: Predictions = "auto"
) -> Generator[EpochRecord, None, Trained]:
    """Train one model and yield a record at every evaluation on dev; the last one holds the test score.

    Raises:
        DataError, ModelError: a file is absent, broken or not the planned one.
        DivergedError: the training loss is not finite; the records until then stand.
    """
    device = device or default_device()
    clock, memory = _Clock(device), PeakMemory(device)
    task, data = TASKS[spec.task], encode_for(spec)
    scored_by = spec.score or task.metrics[0]
    training = _set_up(spec, data, device)
    loaded, dropout = training.loaded, GlobalStream(spec.seed, "dropout", device)
    best, thawing = Best(loaded), Thawing(spec, training)
    setup_s = clock.lap()

    stops = evaluation_steps(training.n_steps, spec.optim.epochs, spec.eval_every)
    for stop in stops:
        clock.lap()
        with dropout.drawn():
            losses = thawing.train_to(stop)
        train_s = clock.lap()

        dev = evaluate(training, data.dev)
        metrics = task.measure(data.dev.gold, dev.predicted, data.dev.starts, data.names)
        best.offer(metrics[scored_by], dev)
        test_metrics, reports, last = None, list[SplitReport](), stop == stops[-1]
        if last:
            best.restore()
            reports.append(split_report(task, data, "dev", data.dev, best.dev, predictions))
        if last and data.test.examples:
            test = evaluate(training, data.test)
            test_metrics = task.measure(data.test.gold, test.predicted, data.test.starts, data.names)
            reports.append(split_report(task, data, "test", data.test, test, predictions))
        eval_s = clock.lap()

        yield EpochRecord(
            step=training.step,
            epoch=training.step * spec.optim.epochs / training.n_steps,
            step_losses=losses,
            train_loss=sum(losses) / len(losses),
            dev_loss=dev.loss,
            score=metrics[scored_by],
            metrics=metrics,
            examples_seen=examples_seen(spec, training.step),
            lr=training.lr,
            setup_s=setup_s,
            train_s=train_s,
            eval_s=eval_s,
            peak_memory_bytes=memory.read_bytes(),
            test_score=test_metrics[scored_by] if test_metrics else None,
            test_metrics=test_metrics,
            reports=tuple(reports),
            last=last,
            total_params=loaded.params(),
            trainable_params=thawing.trainable_params,
            device=device_name(device),
            threads=torch.get_num_threads(),
            time=time.time(),
        )
        setup_s = 0.0
    return Trained(loaded, data.labels)


def train_subset(spec: TrialSpec, train: Split) -> np.ndarray:
    """Indices (train_size,) of the nested train subset; of texts with classes it is stratified by class."""
    seed = spec.seed if spec.subset_seed is None else spec.subset_seed
    task = TASKS[spec.task]
    if task.head == "text" and not task.regression:
        return stratified_subset(train.gold, spec.train_size, seed)
    return nested_subset(len(train.examples), spec.train_size, seed)


def _set_up(spec: TrialSpec, data: Encoded, device: torch.device) -> Training:
    task = TASKS[spec.task]
    loaded = load_model(
        spec.model,
        head=task.head,
        n_outputs=len(data.labels),
        dropout=spec.dropout,
        init=torch_stream(spec.seed, "init"),
    )
    freeze_parts(loaded.parts, frozen_for_ever(spec))
    if spec.lora is not None:
        from trials.models.adapters import add_adapters  # importing peft takes two seconds

        with GlobalStream(spec.seed, "adapters", device).drawn():
            add_adapters(loaded, family_of(spec.model), spec.lora, spec.freeze)
    loaded.model.to(device)
    return Training(
        loaded=loaded,
        optim=spec.optim,
        examples=[data.train.examples[i] for i in train_subset(spec, data.train)],
        batches=shuffled_batches(spec.train_size, spec.optim.batch_size, numpy_stream(spec.seed, "order")),
        pad_id=load_tokenizer(spec.model, task.head).pad_token_id,
        device=device,
        precision=_precision(spec, device),
        n_steps=steps_an_epoch(spec) * spec.optim.epochs,
        scaled=spec.precision == "fp16",
    )


def _precision(spec: TrialSpec, device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast(device.type, dtype=_AUTOCAST[spec.precision], enabled=spec.precision != "fp32")


class _Clock:
    """Seconds between laps, all work queued on the device included."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._last = device, time.perf_counter()

    def lap(self) -> float:
        """Seconds since the lap before."""
        wait_for(self._device)
        before, self._last = self._last, time.perf_counter()
        return self._last - before
