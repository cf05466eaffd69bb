"""One trial from top to bottom: a generator of epoch records.

To stop a trial early, stop iterating. A trial depends on its spec only, and leaves only warm caches behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch

from trials.cache.encoding import EncodedCorpus, encode_for
from trials.errors import PreemptedError
from trials.hardware.device import (
    EnergyMeter,
    PeakMemory,
    autocast,
    default_device,
    device_name,
    start_device,
    wait_for,
)
from trials.models.family import StepMode
from trials.models.load import LoadedModel, family_of, load_model
from trials.prefix.states import GrownPrefix, Prefix, take_prefix
from trials.record import EpochRecord, SplitReport, known_sum, scored_once
from trials.seeding import GlobalStream, torch_stream
from trials.settings import FreezeSpec, Predictions, first_layers
from trials.spec import TrialSpec, evaluation_steps, examples_seen, steps_an_epoch
from trials.tasks import TASKS
from trials.tasks.task import Split, as_score
from trials.training.batching import batches_of, nested_subset, stratified_subset
from trials.training.checkpoint import Checkpoints, TrialState
from trials.training.freeze_course import FreezeSchedule, freeze_parts
from trials.training.gradient_check import checked_mode
from trials.training.loop import BestEpoch, Training, evaluate, never, split_report


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
    trial = _RunningTrial(spec, device, checkpoints, accumulation, meter)
    try:
        yield from trial.state.records
        for stop in trial.stops[len(trial.state.records) :]:
            trial.train_to(stop)
            record = trial.evaluated(predictions, keep_weights)
            try:
                yield record
            except GeneratorExit:  # stopped early: a resumed trial need not repeat the steps since the last checkpoint
                if checkpoints and not record.last:
                    checkpoints.save(trial.state)
                raise
    finally:
        trial.grown.remove()
    trial.prefix.restore()
    return Trained(trial.loaded, trial.data.labels)


@dataclass
class _Overheads:
    """What the next record reports besides its training.

    Attributes:
        setup_s: Seconds of set-up.
        prefix_s, prefix_flops: Seconds and operations that the train subset's states of frozen layers take.
        prefix_paid_s: Seconds that this trial itself spent on those states.
        states_s: Seconds that it spent on those of the other splits.
    """

    setup_s: float = 0.0
    prefix_s: float = 0.0
    prefix_flops: float = 0.0
    prefix_paid_s: float = 0.0
    states_s: float = 0.0


class _RunningTrial:
    """A trial from its set-up to its last record.

    Attributes:
        data: The corpus, with the states of frozen layers if they are cached.
        grown: Those of layers that a rule has frozen since.
        stops: The steps after which it is evaluated.
    """

    def __init__(
        self,
        spec: TrialSpec,
        device: torch.device,
        checkpoints: Checkpoints | None,
        accumulation: int,
        meter: EnergyMeter | None,
    ) -> None:
        self._spec, self._checkpoints = spec, checkpoints
        self._clock, checked = _Clock(device), checked_mode(spec, device)
        self._memory, self._meter = PeakMemory(device), meter or EnergyMeter.of(device)
        data = encode_for(spec)
        checkpoint = checkpoints.newest(spec, device) if checkpoints else None
        self.loaded = new_model(spec, len(data.labels), device, mode=checked.mode)
        subset = train_subset(spec, data.train)
        self._names = {id(p): name for name, p in self.loaded.model.named_parameters()}  # before the prefix is removed
        total_params, setup_s = self.loaded.params(), self._clock.lap()
        self.prefix = take_prefix(spec, self.loaded, data, subset.tolist(), device)
        self.data, paid_s = self.prefix.data, self.prefix.paid_s.get("train", 0.0)
        states_s = sum(self.prefix.paid_s.values()) - paid_s
        setup_s += self._clock.lap() - paid_s - states_s
        done = checkpoint.state.step if checkpoint else 0
        training = new_training(
            spec, self.loaded, self.data, subset, device, mode=checked.mode, done=done, accumulation=accumulation
        )
        dropout, best = GlobalStream(spec.seeds.order, "dropout", device), BestEpoch(self.loaded)
        self.state = TrialState(spec, training, FreezeSchedule(spec, training), best, dropout, [])
        self._subset = subset.tolist()
        self.grown = GrownPrefix(spec, self.loaded, self.prefix, self._subset, device)
        if checkpoint:
            self.state.resume(checkpoint, self.data.dev, len(self.data.labels))
        self._spent = _Overheads(setup_s + self._clock.lap(), prefix_paid_s=paid_s, states_s=states_s)
        if not self.state.records:  # a resumed trial has reported these two
            self._spent.prefix_s, self._spent.prefix_flops = self.prefix.train_s, self.prefix.train_flops
        if self.state.prefix_layers > self.grown.depth:  # as before the interruption; its records say what it takes
            self._grow(first_layers(self.state.prefix_layers))
        self.stops = evaluation_steps(training.n_steps, spec.optim.epochs, spec.eval_every)
        self._new_record = partial(  # with what is the same at every evaluation
            EpochRecord,
            total_params=total_params,
            device=device_name(device),
            threads=torch.get_num_threads(),
            worker_slots=None,
            gpus=1.0 if device.type == "cuda" else 0.0,
            accumulation=accumulation,
            dev_cut_off=sum(example.cut for example in data.dev.examples),
            train_cut_off=sum(data.train.examples[i].cut for i in subset),
            padding_free=int(training.padding_free),
            step_mode=training.mode,
            refused_modes=checked.refused or None,
        )

    def train_to(self, stop: int) -> None:
        """Train to a step and save checkpoints on the way.

        Raises:
            DivergedError: the training loss is not finite.
            PreemptedError: the process was asked to stop.
        """
        state, checkpoints = self.state, self._checkpoints
        pause = self._meter.watched(checkpoints.due if checkpoints else never)
        while state.training.step < stop:
            self._freeze()
            self._meter.start()
            self._clock.lap()
            before = state.training.flops
            with state.dropout.drawn():
                state.losses += state.course.train(stop, pause)
            state.train_s += self._clock.lap()
            state.flops = known_sum((state.flops, state.training.flops - before))
            state.accrue(energy_j=self._meter.stop())
            leaving = checkpoints is not None and checkpoints.leaving()
            if checkpoints and (leaving or (checkpoints.due() and state.training.step < stop)):
                checkpoints.save(state)
            if leaving:
                error = checkpoints.error if checkpoints else None
                saved = f"no checkpoint could be saved: {error}" if error else "a checkpoint was saved."
                raise PreemptedError(f"the worker was asked to stop at step {state.training.step}; {saved}")

    def _freeze(self) -> None:
        """Freeze what is to be frozen from this step on; where the frozen part has grown, take it out of the model."""
        state, course = self.state, self.state.course
        self._clock.lap()
        if not course.switch():
            return
        passes = self._spec.optim.epochs * (1 - state.training.step / state.training.n_steps)
        if self.grown.is_worth(course.freeze, passes):
            growth = self._grow(course.freeze)
            state.prefix_s += growth.train_s
            state.flops = known_sum((state.flops, growth.train_flops))
            course.recount()
            self._spent.setup_s -= sum(growth.paid_s.values())
        self._spent.setup_s += self._clock.lap()

    def _grow(self, freeze: FreezeSpec) -> Prefix:
        """Train on the states that leave the frozen layers from now on."""
        training, growth = self.state.training, self.grown.grow(freeze)
        examples = [self.grown.data.train.examples[i] for i in self._subset]
        training.feed(examples, islice(batches_of(self._spec, examples), training.step, None))
        self.state.prefix_layers = self.grown.depth
        self._spent.prefix_paid_s += growth.paid_s.get("train", 0.0)
        self._spent.states_s += growth.paid_s.get("dev", 0.0)
        return growth

    def evaluated(self, predictions: Predictions, keep_weights: Callable[[bytes], None] | None) -> EpochRecord:
        """Evaluate on dev, at the last step also on test with the best weights; save a checkpoint if one is due."""
        spec, state, checkpoints = self._spec, self.state, self._checkpoints
        self._clock.lap()
        dev = evaluate(state.training, self.grown.data.dev)
        gold, starts = self.data.dev.gold, self.data.dev.starts
        metrics = TASKS[spec.task].measure(gold, dev.predicted, starts, self.data.names)
        score = as_score(spec.task, spec.score, metrics)
        state.best.update(score, dev)
        last, prefix_layers = state.training.step == self.stops[-1], self.grown.depth
        once, reports = dict[str, dict[str, float]](), tuple[SplitReport, ...]()
        if last:
            self.grown.remove()  # at the best epoch fewer layers may have been frozen
            state.best.restore()
            if keep_weights is not None:
                keep_weights(state.best.to_bytes(self._names, self.data.labels))
            once, reports = _scored_once(spec, state.training, self.data, state.best, predictions)
        spent, self._spent = self._spent, _Overheads()
        record = self._new_record(
            step=state.training.step,
            epoch=state.epoch,
            step_losses=state.losses,
            train_loss=sum(state.losses) / len(state.losses),
            dev_loss=dev.loss,
            score=score,
            metrics=metrics,
            examples_seen=examples_seen(spec, state.training.step),
            lr=state.training.lr,
            setup_s=spent.setup_s,
            prefix_s=spent.prefix_s + state.prefix_s,
            prefix_layers=prefix_layers,
            frozen_layers=state.course.freeze.depth,
            mean_frozen_layers=state.course.mean_depth,
            prefix_paid_s=spent.prefix_paid_s,
            train_s=state.train_s,
            eval_s=spent.states_s + self._clock.lap(),
            training_flops=known_sum((spent.prefix_flops, state.flops)),
            **state.accrued,
            peak_memory_bytes=self._memory.device_bytes(),
            worker_memory_bytes=self._memory.process_bytes(),
            test_score=as_score(spec.task, spec.score, once["test"]) if "test" in once else None,
            test_metrics=scored_once(**once) if once else None,
            reports=reports,
            last=last,
            trainable_params=state.course.trainable_params,
            time=time.time(),
            checkpoint_error=checkpoints.error if checkpoints else None,
        )
        state.evaluated(record)
        if checkpoints and not last and checkpoints.due_at(state):
            checkpoints.save(state)
        return record


def _scored_once(
    spec: TrialSpec, training: Training, data: EncodedCorpus, best: BestEpoch, predictions: Predictions
) -> tuple[dict[str, dict[str, float]], tuple[SplitReport, ...]]:
    """Metrics of the restored best weights on each split beside dev, and the reports of all splits."""
    once, reports = {}, [split_report(spec, data, "dev", data.dev, best.dev, predictions)]
    for name in ("test", "mismatched"):
        if (split := data.splits[name]).examples:
            evaluated = evaluate(training, split)
            once[name] = TASKS[spec.task].measure(split.gold, evaluated.predicted, split.starts, data.names)
            reports.append(split_report(spec, data, name, split, evaluated, predictions))
    return once, tuple(reports)


def train_subset(spec: TrialSpec, train: Split) -> np.ndarray:
    """Indices (train_size,) of the nested train subset; of texts with classes it is stratified by class."""
    seed = spec.seed if spec.subset_seed is None else spec.subset_seed
    task = TASKS[spec.task]
    if task.head == "text" and not task.regression:
        return stratified_subset(train.gold, spec.train_size, seed)
    return nested_subset(len(train.examples), spec.train_size, seed)


def new_model(spec: TrialSpec, n_labels: int, device: torch.device, *, mode: StepMode | None = None) -> LoadedModel:
    """The pretrained model with a new head, its frozen parts frozen, with adapters if the recipe has them.

    `mode`: how its steps will run; by default in rows on a CPU, else padded.
    """
    head, init = TASKS[spec.task].head, torch_stream(spec.seeds.init, "init")
    mode = mode or ("rows" if device.type == "cpu" else "padded")
    loaded = load_model(spec.model, head=head, n_outputs=n_labels, dropout=spec.dropout, init=init, mode=mode)
    freeze_parts(loaded.parts, spec.always_frozen)
    if spec.lora is not None:
        from trials.models.adapters import add_adapters  # importing peft takes two seconds

        with GlobalStream(spec.seeds.init, "adapters", device).drawn():
            add_adapters(loaded, family_of(spec.model), spec.lora, spec.freeze)
    loaded.model.to(device)
    return loaded


def new_training(
    spec: TrialSpec,
    loaded: LoadedModel,
    data: EncodedCorpus,
    subset: np.ndarray,
    device: torch.device,
    *,
    mode: StepMode = "padded",
    done: int = 0,
    accumulation: int = 1,
) -> Training:
    """The training on a subset (train_size,) of the train examples; `done` steps precede it in a checkpoint.

    `mode`: the one that the model was loaded for; of a model that takes no rows, batches are padded.
    """
    examples = [data.train.examples[i] for i in subset]
    if loaded.first_position is not None:
        mode = "rows"
    elif mode == "rows" or spec.freeze.rule is not None:  # a rule looks at gradients in the step
        mode = "padded"
    return Training(
        loaded=loaded,
        optim=spec.optim,
        examples=examples,
        batches=islice(batches_of(spec, examples), done, None),
        step=done,
        accumulation=accumulation,
        pad_id=data.pad_id,
        device=device,
        precision=autocast(spec.precision, device),
        n_steps=steps_an_epoch(spec) * spec.optim.epochs,
        scaled=spec.precision == "fp16",
        mode=mode,
    )


class _Clock:
    """Seconds between laps, including all work queued on the device."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._last = device, time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        wait_for(self._device)
        before, self._last = self._last, time.perf_counter()
        return self._last - before
