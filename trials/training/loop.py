"""The steps of a training: its optimiser and learning rates, the loop, and the evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from trials.errors import DivergedError, is_out_of_memory
from trials.models.family import StepMode, is_norm
from trials.models.load import LoadedModel
from trials.spec import OptimSpec
from trials.tasks.task import IGNORE, NO_PREDICTION, Example, Split
from trials.training.batching import Batch, batches_by_length, takes_square_mask
from trials.training.device_loader import DeviceLoader
from trials.training.flops import Flops
from trials.training.step_graphs import CudaGraphRecorder, Step, StepGraphs, model_state
from trials.training.step_rule import EVAL_BATCH, GPU_LENGTHS


def new_optimizer(loaded: LoadedModel, optim: OptimSpec, *, capturable: bool = False) -> torch.optim.AdamW:
    """AdamW over the trained parameters, without decay on biases and norms, with the learning rates of each part.

    `capturable`: steps may be recorded as CUDA graphs; the learning rates are tensors that a recorded step reads.
    """
    # By identity: tied weights stand under two names and are one parameter with one rate.
    rates = {id(p): rate for modules, rate in part_rates(loaded, optim) for m in modules for p in m.parameters()}
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for module in loaded.model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                decays = name != "bias" and not is_norm(module)
                groups.setdefault((rates[id(parameter)], decays), []).append(parameter)
    given = [
        {
            "params": parameters,
            "peak_lr": rate,
            "lr": torch.tensor(rate, device=parameters[0].device) if capturable else rate,
            "weight_decay": optim.weight_decay if decays else 0.0,
        }
        for (rate, decays), parameters in groups.items()
    ]
    # AdamW (Loshchilov and Hutter 2019) with torch's betas and epsilon, which are transformers.Trainer's, too.
    optimizer: Any = torch.optim.AdamW(given, lr=optim.lr, fused=True, capturable=capturable)
    optimizer._warned_capturable_if_run_uncaptured = capturable  # each shape's first step is run: nothing to warn of
    return cast("torch.optim.AdamW", optimizer)


def part_rates(loaded: LoadedModel, optim: OptimSpec) -> list[tuple[Sequence[torch.nn.Module], float]]:
    """The peak learning rate of each part: the head's, then from layer to layer downwards times `layer_decay`."""
    # From layer to layer as in ELECTRA (Clark et al. 2020), after Howard and Ruder (2018).
    parts, decay = loaded.parts, optim.layer_decay or 1.0
    below = [((layer,), optim.lr * decay**depth) for depth, layer in enumerate(reversed(parts.encoder_layers), start=1)]
    lowest = [((parts.embeddings,), optim.lr * decay ** (len(parts.encoder_layers) + 1))]
    return [(parts.head, optim.head_lr or optim.lr), *below, *lowest]


def lr_share(step: int, n_steps: int, warmup: float, schedule: str = "linear") -> float:
    """The fraction of the peak rate at a step (from 0): rising during warm-up, then falling to zero or constant."""
    n_warmup = math.ceil(warmup * n_steps)
    if step < n_warmup:
        return step / n_warmup
    return 1.0 if schedule == "constant" else (n_steps - step) / (n_steps - n_warmup)


@dataclass
class Training:
    """A model in training, its optimiser and its data; `train_steps` advances it.

    Attributes:
        batches: Index batches into `examples`, endless.
        n_steps: Optimiser steps of the whole trial.
        scaled: Whether the loss is scaled so that gradients in fp16 do not vanish (Micikevicius et al. 2018).
        accumulation: Parts that a batch is split into; their gradients add up to the batch's.
        mode: How steps run.
        step_flops: Operations of a step, by its batch's shape; None to count none.
        flops: Operations of the steps that this process has done.
        device_batches: The batches on the device.
        resident_state_bytes: Of the examples' states of frozen layers, where all of them lie on a GPU.
    """

    loaded: LoadedModel
    optim: OptimSpec
    examples: Sequence[Example]
    batches: Iterator[np.ndarray]
    pad_id: int
    device: torch.device
    precision: AbstractContextManager[object]
    n_steps: int
    scaled: bool = False
    accumulation: int = 1
    mode: StepMode = "padded"
    step: int = 0
    lr: float = 0.0
    step_flops: Flops | None = None
    flops: float = 0.0
    optimizer: torch.optim.AdamW = field(init=False)
    scaler: torch.amp.GradScaler = field(init=False)
    step_graphs: StepGraphs | None = field(init=False)
    weights: list[torch.nn.Parameter] = field(init=False)
    device_batches: Iterator[Batch] = field(init=False)
    resident_state_bytes: int = field(init=False)
    _loaders: dict[int, DeviceLoader] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.optimizer = new_optimizer(self.loaded, self.optim, capturable=self.graphs)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.scaled)
        self.step_graphs = StepGraphs(partial(CudaGraphRecorder, self.device)) if self.graphs else None
        self.weights = list(self.loaded.model.parameters())
        self.feed(self.examples, self.batches)

    def feed(self, examples: Sequence[Example], batches: Iterator[np.ndarray]) -> None:
        """Train on these examples from now on, in these batches of indices (examples,)."""
        self.examples, self.batches = examples, batches
        loader = self._loader(examples, often=True)
        self.device_batches, self.resident_state_bytes = loader.batches(batches), loader.state_bytes

    def loader_for(self, split: Split) -> DeviceLoader:
        """The loader of a split to evaluate, built once, so that its ids are moved to the device only once."""
        key = id(split.examples)  # unique while the loader holds the list
        if key not in self._loaders:
            self._loaders[key] = self._loader(split.examples, often=False)
        return self._loaders[key]

    def _loader(self, examples: Sequence[Example], *, often: bool) -> DeviceLoader:
        # On a CPU no wait is saved, and attention without padding is a little faster in the library.
        square = self.device.type == "cuda" and takes_square_mask(self.loaded.model)
        return DeviceLoader(
            examples, self.pad_id, self.device,
            first_position=self.loaded.first_position, often=often,
            multiple=GPU_LENGTHS if self.device.type == "cuda" or self.graphs else 1, square_mask=square,
        )  # fmt: skip

    @property
    def graphs(self) -> bool:
        """Whether steps are recorded and replayed as CUDA graphs."""
        return self.mode == "graphs"

    @property
    def padding_free(self) -> bool:
        """Whether batches lie end to end."""
        return self.loaded.first_position is not None

    def set_lr(self) -> None:
        """Set this step's learning rate in every parameter group."""
        share = lr_share(self.step, self.n_steps, self.optim.warmup, self.optim.schedule)
        for group in self.optimizer.param_groups:
            if self.graphs:  # a recorded step reads this tensor, and would not see a new number
                group["lr"].fill_(group["peak_lr"] * share)
            else:
                group["lr"] = group["peak_lr"] * share
        self.lr = self.optim.lr * share

    def count(self, batch: Batch) -> None:
        """Add the operations of a step on a batch."""
        if self.step_flops is not None:
            n = len(batch.lengths)
            # As `Batch.parts` cuts: ten examples in four parts are three, three, three and one; five in four are three.
            n_parts = -(-n // -(-n // self.accumulation))
            self.flops += self.step_flops.of_batch(batch.lengths) + (n_parts - 1) * self.step_flops.fixed

    def stepper(self) -> Step:
        """The function that takes one step of the model in its current state: `one_step`, or its CUDA graph."""
        step = partial(one_step, self)
        return step if self.step_graphs is None else self.step_graphs.stepper(step, model_state(self.loaded.model))


def never_holds() -> bool:
    """The condition that never holds."""
    return False


def train_steps(training: Training, n: int, pause: Callable[[], bool] = never_holds) -> tuple[float, ...]:
    """Take `n` optimiser steps, fewer if `pause` is true after one; return the loss of each. Raises DivergedError."""
    take_step, losses = training.stepper(), []
    for _ in range(n):
        batch = next(training.device_batches)
        training.set_lr()
        losses.append(take_step(batch))
        training.count(batch)
        training.step += 1
        if pause():
            break
    values = tuple(torch.stack(losses).tolist())  # the only wait for the device, DeBERTa's own code aside
    _check_finite(values, training.step - len(values))
    return values


def one_step(training: Training, batch: Batch) -> torch.Tensor:
    """Forward, backward, clip, update; returns the mean loss (). CUDA graphs record it: no value reaches the host."""
    # Each part's loss is divided by the batch's labels: gradients of parts with unequally many then add up to its own.
    n_labels, loss = count_labels(batch), torch.zeros((), device=batch.labels.device)
    for part in batch.parts(training.accumulation):
        with training.precision:
            part_loss = mean_loss(training.loaded.model, part, n_labels)
        training.scaler.scale(part_loss).backward()
        loss += part_loss.detach()
    if training.optim.max_grad_norm is not None:
        training.scaler.unscale_(training.optimizer)  # else the bound would be of scaled gradients
        torch.nn.utils.clip_grad_norm_(training.weights, training.optim.max_grad_norm)  # those that have a gradient
    training.scaler.step(training.optimizer)  # without scaling: optimizer.step()
    training.scaler.update()
    training.optimizer.zero_grad(set_to_none=True)
    return loss


def count_labels(batch: Batch) -> torch.Tensor:
    """Number of labels of a batch, at least 1, as an integer tensor () on its device."""
    return (batch.labels != IGNORE).sum().clamp(min=1)


def mean_loss(model: torch.nn.Module, batch: Batch, n_labels: torch.Tensor | None = None) -> torch.Tensor:
    """Mean loss () over the labels of a batch, 0 without any; for a part of one give the batch's `n_labels`."""
    return summed_loss(batch.logits(model), batch.labels) / (count_labels(batch) if n_labels is None else n_labels)


def summed_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over classes, squared error over numbers, summed over (examples, subwords)."""
    if labels.is_floating_point():
        return (logits.squeeze(-1) - labels).square().sum()
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")


def _check_finite(losses: tuple[float, ...], before: int) -> None:
    for i, loss in enumerate(losses):
        if not math.isfinite(loss):
            raise DivergedError(f"the training loss is {loss} at step {before + i + 1}; lower optim.lr.")


@dataclass(frozen=True)
class EvaluatedSplit:
    """Loss and predictions on a split. Its places are words, or texts.

    Attributes:
        loss: Mean loss per label.
        predicted: (places,) predicted label, or number; NO_PREDICTION where a word has no subword in the input.
        probability: (places,) of the predicted label; NaN where there is none.
    """

    loss: float
    predicted: np.ndarray
    probability: np.ndarray


@torch.inference_mode()
def evaluate(training: Training, split: Split) -> EvaluatedSplit:
    """Predict a whole split without dropout; leaves the model in evaluation mode."""
    examples = split.examples
    training.loaded.model.eval()
    loss, outputs = torch.zeros((), device=training.device), _Outputs(len(examples))
    groups = list(batches_by_length(examples, EVAL_BATCH))
    for group, batch in zip(groups, training.loader_for(split).batches(groups), strict=True):
        for part, of_part, logits in _with_logits(training, batch, group):
            loss += summed_loss(logits, part.labels)
            outputs.add(logits, part.starts, of_part, examples)
    # Counted from the examples, not on the device: one wait less, and the same for any order of the batches.
    n_labels = sum(int((example.labels != IGNORE).sum()) for example in examples)
    predicted, probability = outputs.numbers() if split.gold.dtype.kind == "f" else outputs.classes()
    return EvaluatedSplit(loss.item() / max(n_labels, 1), predicted, probability)


def _with_logits(
    training: Training, batch: Batch, group: Sequence[int]
) -> Iterator[tuple[Batch, Sequence[int], torch.Tensor]]:
    """The batch, its examples' indices and its logits; in halves where memory is too small for the whole."""
    try:
        with training.precision:
            logits = batch.logits(training.loaded.model)
    except RuntimeError as error:
        if len(group) == 1 or not is_out_of_memory(error):
            raise
    else:
        yield batch, group, logits
        return
    for i, part in enumerate(batch.parts(2)):  # outside the handler, whose traceback would hold the memory
        half = -(-len(group) // 2)
        yield from _with_logits(training, part, group[i * half : (i + 1) * half])


class _Outputs:
    """The most probable label of every subword, in the order of the batches, and where each example's places are."""

    def __init__(self, n_examples: int) -> None:
        self._labels: list[torch.Tensor] = []
        self._logits: list[torch.Tensor] = []
        self._log_probabilities: list[torch.Tensor] = []
        self._places: list[np.ndarray] = [np.empty(0, np.int64)] * n_examples
        self._n = 0

    def add(self, logits: torch.Tensor, starts: np.ndarray, group: Sequence[int], examples: Sequence[Example]) -> None:
        """Add a batch's logits (..., labels) for the examples `group`, whose places begin at `starts`."""
        # What is kept is a number a subword: logits of a whole split over many labels might not fit beside the model.
        best, label = logits.max(dim=-1)
        self._labels.append(label.flatten())
        self._logits.append(best.flatten())
        self._log_probabilities.append((best - logits.logsumexp(dim=-1)).flatten())
        for start, i in zip(starts, group, strict=True):
            places = examples[i].at
            self._places[i] = np.where(places < 0, -1, self._n + start + places)
        self._n += label.numel()

    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """The predicted label and its probability, (places,) each."""
        places = np.concatenate(self._places)
        labels, log_probabilities = _on_cpu(self._labels), _on_cpu(self._log_probabilities)
        missing = places < 0
        return (
            np.where(missing, NO_PREDICTION, labels[places]),
            np.where(missing, np.nan, np.exp(log_probabilities[places])),
        )

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The predicted number, and NaN for its probability, (places,) each."""
        places = np.concatenate(self._places)
        return _on_cpu(self._logits)[places].astype(np.float64), np.full(len(places), np.nan)


def _on_cpu(parts: list[torch.Tensor]) -> np.ndarray:
    values: np.ndarray = torch.cat(parts).cpu().numpy()
    return values
