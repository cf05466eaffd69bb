"""One trial from top to bottom: a generator of epoch records.

To stop a trial early, stop iterating. A trial depends on its spec only, and leaves only warm caches behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from trials.cache.encoding import EncodedCorpus, encode_for
from trials.errors import PreemptedError, is_recording_failed
from trials.hardware.device import Clock, EnergyMeter, PeakMemory, default_device, device_name, start_device
from trials.models.family import StepMode
from trials.models.load import LoadedModel
from trials.prefix.states import take_prefix
from trials.record import EpochRecord, known_sum
from trials.seeding import GlobalStream
from trials.spec import Predictions, TrialSpec, evaluation_steps, examples_seen
from trials.tasks import TASKS
from trials.tasks.task import as_score
from trials.training.checkpoint import Checkpoints, TrialState
from trials.training.final_scores import BestEpoch, FinalScores, final_scores
from trials.training.freeze_course import FreezeSchedule
from trials.training.gradient_check import checked_mode, refuse_graphs
from trials.training.loop import evaluate, never_holds
from trials.training.new_training import new_model, new_training, train_subset


@dataclass(frozen=True)
class Trained:
    """The result of a complete trial: the model with the weights of its best dev score, and the labels of its head."""

    loaded: LoadedModel
    labels: tuple[str, ...]


def run_trial(
    spec: TrialSpec,
    *,
    device: torch.device | None = None,
    predictions: Predictions = "auto",
    checkpoints: Checkpoints | None = None,
    accumulation: int = 1,
    meter: EnergyMeter | None = None,
    keep_weights: Callable[[bytes], None] | None = None,
) -> Generator[EpochRecord, None, Trained]:
    """Train one model and yield a record at every evaluation on dev; the last one holds the test score.

    Args:
        device: By default the first GPU, else the CPU.
        predictions: Which predictions the last record holds.
        checkpoints: Where checkpoints are loaded from and saved. A resumed trial yields its earlier records again.
        accumulation: Parts that a batch is split into; their gradients add up to the same step, but for rounding, in
            less memory.
        meter: Measures energy; by default the device's own counter.
        keep_weights: Called before the last record with the trained tensors of the best epoch, as a safetensors file.

    Raises:
        DataError, ModelError: a file is absent, broken or not the planned one.
        DivergedError: the training loss is not finite; the records yielded so far are valid.
        PreemptedError: the process was asked to stop; a checkpoint was saved.
    """
    device = start_device(device or default_device())
    clock, meter = Clock(device), meter or EnergyMeter.for_device(device)
    with clock("setup_s"):
        data, checked = encode_for(spec), checked_mode(spec, device)
        memory = PeakMemory(device)  # without that of the check, which only a node's first trial pays
        checkpoint = checkpoints.newest(spec, device) if checkpoints else None
        loaded = new_model(spec, len(data.labels), device, mode=checked.mode)
        subset = train_subset(spec, data.train)
        cut_off = _n_cut_words(data, subset)
        names = {id(p): name for name, p in loaded.model.named_parameters()}  # before the prefix is removed
        total_params = loaded.params()
        prefix = take_prefix(spec, loaded, data, subset.tolist(), device)
        memory.before_input()
        data = prefix.data
        done = checkpoint.state.step if checkpoint else 0
        training = new_training(
            spec, loaded, data, subset, device, mode=checked.mode, done=done, accumulation=accumulation
        )
        dropout, best = GlobalStream(spec.seeds.order, "dropout", device), BestEpoch(loaded)
        state = TrialState(spec, training, FreezeSchedule(spec, training), best, dropout, [])
        if checkpoint:
            state.resume(checkpoint, data.dev, len(data.labels))
    clock.move("setup_s", "prefix_paid_s", prefix.paid_s.get("train", 0.0))
    clock.move("setup_s", "eval_s", sum(prefix.paid_s.values()) - prefix.paid_s.get("train", 0.0))
    once = Once(prefix.train_s, prefix.train_flops) if not state.records else Once()  # a resumed trial has reported it
    conditions = Conditions(
        total_params=total_params,
        prefix_layers=prefix.depth,
        device=device_name(device),
        threads=torch.get_num_threads(),
        gpus=1.0 if device.type == "cuda" else 0.0,
        accumulation=accumulation,
        padding_free=int(training.padding_free),
        step_mode=training.mode,
        refused_modes=checked.refused or None,
        **cut_off,
    )

    yield from state.records
    stops = evaluation_steps(training.n_steps, spec.optim.epochs, spec.eval_every)
    for stop in stops[len(state.records) :]:
        last = stop == stops[-1]
        _train_to(stop, state, checkpoints, clock, meter)
        with clock("eval_s"):
            dev = evaluate(training, data.dev)
            metrics = TASKS[spec.task].measure(data.dev.gold, dev.predicted, data.dev.starts, data.names)
            score = as_score(spec.task, spec.score, metrics)
            best.update(score, dev)
            if last:
                best.restore()
                if keep_weights is not None:
                    keep_weights(best.to_bytes(names, data.labels))
            final = final_scores(spec, training, data, best, predictions) if last else FinalScores()
        record = EpochRecord(
            step=training.step,
            epoch=state.epoch,
            step_losses=state.losses,
            train_loss=sum(state.losses) / len(state.losses),
            dev_loss=dev.loss,
            score=score,
            metrics=metrics,
            examples_seen=examples_seen(spec, training.step),
            lr=training.lr,
            frozen_layers=state.course.depth,
            mean_frozen_layers=state.course.mean_depth,
            trainable_params=state.course.trainable_params,
            train_s=state.train_s,
            setup_s=clock.take("setup_s"),
            prefix_s=once.prefix_s,
            prefix_paid_s=clock.take("prefix_paid_s"),
            eval_s=clock.take("eval_s"),
            training_flops=known_sum((once.prefix_flops, state.flops)),
            peak_memory_bytes=memory.device_bytes(training.resident_state_bytes),
            worker_memory_bytes=memory.process_bytes(),
            last=last,
            worker_slots=None,
            time=time.time(),
            checkpoint_error=checkpoints.error if checkpoints else None,
            **state.accrued,
            **vars(final),
            **vars(conditions),
        )
        once = Once()
        state.add_record(record)
        if checkpoints and not last and checkpoints.is_due_at(state):
            checkpoints.save(state)
        try:
            yield record
        except GeneratorExit:  # stopped early: a resumed trial need not repeat the steps since the last checkpoint
            if checkpoints and not last:
                checkpoints.save(state)
            raise
    prefix.restore()
    return Trained(loaded, data.labels)


def _train_to(stop: int, state: TrialState, checkpoints: Checkpoints | None, clock: Clock, meter: EnergyMeter) -> None:
    """Train to a step and save checkpoints on the way.

    Raises:
        DivergedError: the training loss is not finite.
        PreemptedError: the process was asked to stop.
    """
    training, pause = state.training, checkpoints.is_due if checkpoints else never_holds
    while training.step < stop:
        before = training.flops
        meter.start()
        try:
            with clock("train_s"), state.dropout.use():
                state.losses += state.course.train_to(stop, pause)
        except Exception as error:
            if is_recording_failed(error):
                refuse_graphs(state.spec, training.device, error)
            raise
        state.train_s += clock.take("train_s")
        state.flops = known_sum((state.flops, training.flops - before))
        state.accrue(energy_j=meter.stop())
        leaving = checkpoints is not None and checkpoints.leaving()
        if checkpoints and (leaving or (checkpoints.is_due() and training.step < stop)):
            checkpoints.save(state)
        if leaving:
            why_not = checkpoints.error if checkpoints else None
            saved = f"no checkpoint could be saved: {why_not}" if why_not else "a checkpoint was saved."
            raise PreemptedError(f"the worker was asked to stop at step {training.step}; {saved}")


@dataclass(frozen=True)
class Conditions:
    """What all records of a trial share; each field is one of `EpochRecord`."""

    total_params: int
    prefix_layers: int
    device: str
    threads: int
    gpus: float
    accumulation: int
    padding_free: int
    step_mode: StepMode
    refused_modes: str | None
    dev_cut_off: int
    train_cut_off: int


class Once(NamedTuple):
    """Seconds and operations that the train subset's states of frozen layers take; the first record reports them."""

    prefix_s: float = 0.0
    prefix_flops: float = 0.0


def _n_cut_words(data: EncodedCorpus, subset: np.ndarray) -> dict[str, int]:
    """The words that `max_length` cuts off, by column of a record: in dev, and in this train subset."""
    train = (data.train.examples[i].cut for i in subset)
    return {"dev_cut_off": sum(example.cut for example in data.dev.examples), "train_cut_off": sum(train)}
