"""The training loop and the evaluation, in plain sight."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from trials.batching import Batch, batches_by_length, collate
from trials.errors import DivergedError
from trials.models.load import LoadedModel
from trials.spec import OptimSpec
from trials.tasks.task import IGNORE, NO_PREDICTION, Example, Split

EVAL_BATCH_SIZE = 64


def new_optimizer(loaded: LoadedModel, optim: OptimSpec) -> torch.optim.AdamW:
    """AdamW over what learns; biases and LayerNorm weights do not decay, each part may have its own rate."""
    rates = {id(p): rate for modules, rate in part_rates(loaded, optim) for m in modules for p in m.parameters()}
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for module in loaded.model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                decays = name != "bias" and not isinstance(module, torch.nn.LayerNorm)
                groups.setdefault((rates[id(parameter)], decays), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "peak_lr": rate, "weight_decay": optim.weight_decay if decays else 0.0}
            for (rate, decays), parameters in groups.items()
        ],
        lr=optim.lr,
        fused=True,
    )


def part_rates(loaded: LoadedModel, optim: OptimSpec) -> list[tuple[Sequence[torch.nn.Module], float]]:
    """The peak rate of each part: the head's own, then `layer_decay` times less from layer to layer downwards."""
    parts, decay = loaded.parts, optim.layer_decay or 1.0
    below = [((layer,), optim.lr * decay**depth) for depth, layer in _from_the_top(parts.encoder_layers)]
    lowest = [((parts.embeddings,), optim.lr * decay ** (len(parts.encoder_layers) + 1))]
    return [(parts.head, optim.head_lr or optim.lr), *below, *lowest]


def _from_the_top(layers: Sequence[torch.nn.Module]) -> Iterator[tuple[int, torch.nn.Module]]:
    return enumerate(reversed(layers), start=1)


def lr_share(step: int, n_steps: int, warmup: float, schedule: str = "linear") -> float:
    """The share of the peak rate at a step (from 0): up over the warm-up's steps, then down to zero or level."""
    n_warmup = math.ceil(warmup * n_steps)
    if step < n_warmup:
        return step / n_warmup
    return 1.0 if schedule == "constant" else (n_steps - step) / (n_steps - n_warmup)


@dataclass
class Training:
    """A model in training: what `train_steps` moves forward.

    Attributes:
        batches: Index batches into `examples`, without end.
        n_steps: Optimiser steps of the whole trial.
        scaled: Whether the loss is scaled so that gradients in fp16 do not vanish (Micikevicius et al. 2018).
        step: Steps done.
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
    step: int = 0
    lr: float = 0.0
    optimizer: torch.optim.AdamW = field(init=False)
    scaler: torch.amp.GradScaler = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = new_optimizer(self.loaded, self.optim)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.scaled)

    def set_lr(self) -> None:
        """Put this step's rate into every group."""
        share = lr_share(self.step, self.n_steps, self.optim.warmup, self.optim.schedule)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak_lr"] * share
        self.lr = self.optim.lr * share


def train_steps(training: Training, n: int) -> tuple[float, ...]:
    """Take `n` optimiser steps and return the loss of each.

    Raises:
        DivergedError: a loss is not a finite number.
    """
    model, losses = training.loaded.model, []
    learning = [p for p in model.parameters() if p.requires_grad]
    for _ in range(n):
        chosen = next(training.batches)
        batch = collate([training.examples[i] for i in chosen], training.pad_id, training.device)
        training.set_lr()
        with training.precision:
            loss = mean_loss(model, batch)
        training.scaler.scale(loss).backward()
        if training.optim.max_grad_norm is not None:
            training.scaler.unscale_(training.optimizer)
            clip_grad_norm_(learning, training.optim.max_grad_norm)
        training.scaler.step(training.optimizer)  # without scaling: optimizer.step()
        training.scaler.update()
        training.optimizer.zero_grad(set_to_none=True)
        training.step += 1
        losses.append(loss.detach())
    found = tuple(torch.stack(losses).tolist())  # the only wait for the device
    _check_finite(found, training.step - n)
    return found


def mean_loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Mean loss over the labels of a batch; 0 where a batch has none."""
    return summed_loss(batch.logits(model), batch.labels) / (batch.labels != IGNORE).sum().clamp(min=1)


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
    for group in batches_by_length(examples, EVAL_BATCH_SIZE):
        batch = collate([examples[i] for i in group], training.pad_id, training.device)
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
