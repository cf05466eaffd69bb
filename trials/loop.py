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
from trials.tasks.task import IGNORE, Example

EVAL_BATCH_SIZE = 64


def new_optimizer(loaded: LoadedModel, optim: OptimSpec) -> torch.optim.AdamW:
    """AdamW over what learns; biases and LayerNorm weights do not decay, the head may have its own rate."""
    head = {id(p) for module in loaded.parts.head for p in module.parameters()}
    groups: dict[tuple[bool, bool], list[torch.nn.Parameter]] = {}
    for module in loaded.model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                decays = name != "bias" and not isinstance(module, torch.nn.LayerNorm)
                groups.setdefault((id(parameter) in head, decays), []).append(parameter)
    return torch.optim.AdamW(
        [
            {
                "params": parameters,
                "peak_lr": optim.head_lr or optim.lr if is_head else optim.lr,
                "weight_decay": optim.weight_decay if decays else 0.0,
            }
            for (is_head, decays), parameters in groups.items()
        ],
        lr=optim.lr,
        fused=True,
    )


def lr_share(step: int, n_steps: int, warmup: float) -> float:
    """The share of the peak rate at a step (from 0): up over the warm-up's steps, then straight down to zero."""
    n_warmup = math.ceil(warmup * n_steps)
    if step < n_warmup:
        return step / n_warmup
    return (n_steps - step) / (n_steps - n_warmup)


@dataclass
class Training:
    """A model in training: what `train_steps` moves forward.

    Attributes:
        batches: Index batches into `examples`, without end.
        n_steps: Optimiser steps of the whole trial.
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
    step: int = 0
    lr: float = 0.0
    optimizer: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        self.optimizer = new_optimizer(self.loaded, self.optim)

    def set_lr(self) -> None:
        """Put this step's rate into every group."""
        share = lr_share(self.step, self.n_steps, self.optim.warmup)
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
        loss.backward()
        clip_grad_norm_(learning, training.optim.max_grad_norm)
        training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=True)
        training.step += 1
        losses.append(loss.detach())
    found = tuple(torch.stack(losses).tolist())  # the only wait for the device
    _check_finite(found, training.step - n)
    return found


def mean_loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy over the labelled subwords of a batch; 0 where a batch has none."""
    logits = model(input_ids=batch.ids, attention_mask=batch.mask).logits  # (sentences, subwords, labels)
    labels = batch.labels.flatten()
    total = cross_entropy(logits.flatten(0, 1).float(), labels, ignore_index=IGNORE, reduction="sum")
    return total / (labels != IGNORE).sum().clamp(min=1)


def _check_finite(losses: tuple[float, ...], before: int) -> None:
    for i, loss in enumerate(losses):
        if not math.isfinite(loss):
            raise DivergedError(f"the training loss is {loss} at step {before + i + 1}; lower optim.lr.")


@dataclass(frozen=True)
class Evaluation:
    """A split's result.

    Attributes:
        loss: Mean cross-entropy a labelled subword.
        n_correct: Words whose predicted label is the gold one.
        n_words: Words of the split, those without a label among them.
    """

    loss: float
    n_correct: int
    n_words: int


@torch.inference_mode()
def evaluate(training: Training, examples: Sequence[Example]) -> Evaluation:
    """Predict a whole split, without dropout. The model is left in evaluation mode."""
    model = training.loaded.model.eval()
    loss, n_correct = (
        torch.zeros((), device=training.device),
        torch.zeros((), device=training.device, dtype=torch.int64),
    )
    for group in batches_by_length(examples, EVAL_BATCH_SIZE):
        batch = collate(group, training.pad_id, training.device)
        with training.precision:
            logits = model(input_ids=batch.ids, attention_mask=batch.mask).logits.float()
        loss += cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE, reduction="sum")
        n_correct += (logits.argmax(dim=-1) == batch.labels).sum()  # IGNORE is no label, so it is never predicted
    n_labels = sum(int((example.labels != IGNORE).sum()) for example in examples)
    return Evaluation(loss.item() / max(n_labels, 1), int(n_correct), sum(example.n_words for example in examples))
