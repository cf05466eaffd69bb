"""The training loop and the evaluation, in plain sight."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from trials.errors import DivergedError
from trials.models.load import LoadedModel
from trials.settings import OptimSpec
from trials.tasks.task import IGNORE, NO_PREDICTION, Example, Split
from trials.training.batching import Batch, batches_by_length, takes_square_mask
from trials.training.cuda_graphs import LENGTHS, CudaRecorder, Step, StepGraphs, model_state
from trials.training.device_loader import Feed
from trials.training.lazy_adamw import clip_grad_norm
from trials.training.optimizer import lr_share, new_optimizer

EVAL_BATCH_SIZE = 64


@dataclass
class Training:
    """A model in training: what `train_steps` moves forward.

    Attributes:
        batches: Index batches into `examples`, without end.
        n_steps: Optimiser steps of the whole trial.
        scaled: Whether the loss is scaled so that gradients in fp16 do not vanish (Micikevicius et al. 2018).
        accumulation: Parts that a batch is taken in; their gradients add up to the batch's.
        graphs: Whether steps are recorded and replayed as CUDA graphs; `cuda_graphs` says what that needs.
        step: Steps done.
        fed: The batches on the device.
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
    graphs: bool = False
    step: int = 0
    lr: float = 0.0
    optimizer: torch.optim.AdamW = field(init=False)
    scaler: torch.amp.GradScaler = field(init=False)
    step_graphs: StepGraphs | None = field(init=False)
    weights: list[torch.nn.Parameter] = field(init=False)
    fed: Iterator[Batch] = field(init=False)
    _feeds: dict[int, Feed] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.optimizer = new_optimizer(self.loaded, self.optim, capturable=self.graphs)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.scaled)
        self.step_graphs = StepGraphs(partial(CudaRecorder, self.device)) if self.graphs else None
        self.weights = list(self.loaded.model.parameters())
        self.fed = self._feed(self.examples, LENGTHS if self.graphs else 1).batches(self.batches)

    def feed_of(self, split: Split) -> Feed:
        """The feed of a split that is evaluated, made at its first use and kept: an evaluation moves no ids."""
        key = id(split.examples)  # which the feed holds, so no other list can come to this number
        if key not in self._feeds:
            self._feeds[key] = self._feed(split.examples)
        return self._feeds[key]

    def _feed(self, examples: Sequence[Example], multiple: int = 1) -> Feed:
        # On a CPU there is nothing to wait for, and without any padding the library attends a little faster.
        square = self.device.type == "cuda" and takes_square_mask(self.loaded.model)
        return Feed(examples, self.pad_id, self.device, multiple=multiple, square_mask=square)

    def set_lr(self) -> None:
        """Put this step's rate into every group."""
        share = lr_share(self.step, self.n_steps, self.optim.warmup, self.optim.schedule)
        for group in self.optimizer.param_groups:
            if self.graphs:
                group["lr"].fill_(group["peak_lr"] * share)
            else:
                group["lr"] = group["peak_lr"] * share
        self.lr = self.optim.lr * share

    def stepper(self) -> Step:
        """What takes a step of the model as it is now: `one_step`, or its graphs."""
        step = partial(one_step, self)
        return step if self.step_graphs is None else self.step_graphs.stepper(step, model_state(self.loaded.model))


def never() -> bool:
    """No pause."""
    return False


def train_steps(training: Training, n: int, pause: Callable[[], bool] = never) -> tuple[float, ...]:
    """Take `n` optimiser steps, fewer if there is to be a pause, and return the loss of each.

    Raises:
        DivergedError: a loss is not a finite number.
    """
    take_step, losses = training.stepper(), []
    for _ in range(n):
        batch = next(training.fed)
        training.set_lr()
        losses.append(take_step(batch))
        training.step += 1
        if pause():
            break
    found = tuple(torch.stack(losses).tolist())  # the only wait for the device; DeBERTa's code has some of its own
    _check_finite(found, training.step - len(found))
    return found


def one_step(training: Training, batch: Batch) -> torch.Tensor:
    """Forward, backward, clip, move the weights; the loss. It may be recorded, so it must not look at a number."""
    n_labels, loss = count_labels(batch), torch.zeros((), device=batch.labels.device)
    for part in batch.parts(training.accumulation):
        with training.precision:
            part_loss = mean_loss(training.loaded.model, part, n_labels)
        training.scaler.scale(part_loss).backward()
        loss += part_loss.detach()
    if training.optim.max_grad_norm is not None:
        training.scaler.unscale_(training.optimizer)
        clip_grad_norm(training.weights, training.optim.max_grad_norm)  # of those that have a gradient
    training.scaler.step(training.optimizer)  # without scaling: optimizer.step()
    training.scaler.update()
    training.optimizer.zero_grad(set_to_none=True)
    return loss


def count_labels(batch: Batch) -> torch.Tensor:
    """Labels of a batch, at least 1, as a tensor: the host does not look at it."""
    return (batch.labels != IGNORE).sum().clamp(min=1)


def mean_loss(model: torch.nn.Module, batch: Batch, n_labels: torch.Tensor | None = None) -> torch.Tensor:
    """Mean loss over the labels of a batch, or over those of the whole that it is a part of; 0 where there are none."""
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
class Evaluation:
    """A split's result.

    Attributes:
        loss: Mean loss a label.
        predicted: (places,) predicted label, or number; NO_PREDICTION where no subword stands for the word.
        probability: (places,) of the predicted label; not a number where there is none.
    """

    loss: float
    predicted: np.ndarray
    probability: np.ndarray


@torch.inference_mode()
def evaluate(training: Training, split: Split) -> Evaluation:
    """Predict a whole split, without dropout. The model is left in evaluation mode."""
    model, examples = training.loaded.model.eval(), split.examples
    loss, found = torch.zeros((), device=training.device), _Found(len(examples))
    groups = list(batches_by_length(examples, EVAL_BATCH_SIZE))
    for group, batch in zip(groups, training.feed_of(split).batches(groups), strict=True):
        with training.precision:
            logits = batch.logits(model)
        loss += summed_loss(logits, batch.labels)
        found.add(logits, group, examples)
    n_labels = sum(int((example.labels != IGNORE).sum()) for example in examples)
    predicted, probability = found.numbers() if split.gold.dtype.kind == "f" else found.classes()
    return Evaluation(loss.item() / max(n_labels, 1), predicted, probability)


class _Found:
    """The best label of every subword, batch after batch, and where each example's places are among them."""

    def __init__(self, n_examples: int) -> None:
        self._labels: list[torch.Tensor] = []
        self._logits: list[torch.Tensor] = []
        self._log_probabilities: list[torch.Tensor] = []
        self._places: list[np.ndarray] = [np.empty(0, np.int64)] * n_examples
        self._n = 0

    def add(self, logits: torch.Tensor, group: Sequence[int], examples: Sequence[Example]) -> None:
        """Keep a batch's logits (examples, subwords, labels) of the examples of these indices."""
        best, label = logits.max(dim=-1)
        self._labels.append(label.flatten())
        self._logits.append(best.flatten())
        self._log_probabilities.append((best - logits.logsumexp(dim=-1)).flatten())
        for row, i in enumerate(group):
            at = examples[i].at
            self._places[i] = np.where(at < 0, -1, self._n + row * label.shape[1] + at)
        self._n += label.numel()

    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """(places,) predicted label and its probability."""
        places = np.concatenate(self._places)
        labels, log_probabilities = _on_cpu(self._labels), _on_cpu(self._log_probabilities)
        missing = places < 0
        return (
            np.where(missing, NO_PREDICTION, labels[places]),
            np.where(missing, np.nan, np.exp(log_probabilities[places])),
        )

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """(places,) predicted number, and no probability."""
        places = np.concatenate(self._places)
        return _on_cpu(self._logits)[places].astype(np.float64), np.full(len(places), np.nan)


def _on_cpu(parts: list[torch.Tensor]) -> np.ndarray:
    found: np.ndarray = torch.cat(parts).cpu().numpy()
    return found
