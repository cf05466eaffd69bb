"""The work of a trial: what decides the time of its steps, and its passes of an item through the layers.

A pass through one layer forward is the unit, as in Kaplan et al. 2020, "Scaling laws for neural language models",
section 2.1: backward, the gradient that passes through a layer is another, and so are the gradients of its weights.
Frozen layers below the lowest trained one run only forward, and not at all if their output is cached
(`trials.prefix.rule`). The head counts as a layer. It needs no sizes and no corpus.
"""

from __future__ import annotations

import hashlib
import json

from trials.prefix.rule import cached_depth
from trials.spec import FreezeSpec, TrialSpec, evaluation_steps, steps_an_epoch


def shape_key(spec: TrialSpec) -> str:
    """The shape of a trial: everything that decides the time of a step, so not the number of steps."""
    frozen = [spec.freeze.layers, spec.freeze.embeddings, spec.thaw_every, cached_depth(spec), spec.frozen_dropout]
    optim = [spec.optim.batch_size, spec.batching, spec.optim.embedding_updates]
    return _digest([group_key(spec), spec.precision, *frozen, *optim, spec.lora.model_dump() if spec.lora else None])


def group_key(spec: TrialSpec) -> str:
    """Key of the model, task and corpus of a trial."""
    return _digest([spec.task, spec.model.revision, spec.data.content(), spec.max_length, spec.lowercase])


def freeze_at(spec: TrialSpec, epoch: int) -> FreezeSpec:
    """What is frozen in an epoch."""
    return spec.freeze if spec.thaw_every is None else spec.freeze.after_thaws(epoch // spec.thaw_every)


def learning_layers(spec: TrialSpec, freeze: FreezeSpec, layers: int) -> tuple[int, int]:
    """Number of layers that a gradient passes through, and of layers whose weights have one."""
    learning = [layer for layer in range(layers) if layer not in freeze.layers]
    if spec.lora is not None:  # adapters are small: the gradients of their weights cost almost nothing
        lowest = 0 if spec.lora.layers == "all" else min(learning, default=layers)
        return layers - lowest, 0
    lowest = 0 if not freeze.embeddings else min(learning, default=layers)
    return layers - lowest, len(learning)


def train_passes(spec: TrialSpec) -> float:
    """Layer passes of a train item in an epoch, forward and backward; the mean of all epochs."""
    return forward_passes(spec) + _backward_passes(spec) / spec.optim.epochs + 2


def training_passes(spec: TrialSpec) -> float:
    """Passes of an example in the whole training, states of frozen layers computed once; proportional to its FLOPs."""
    epochs, layers, cached = spec.optim.epochs, spec.model.n_layers, cached_depth(spec)
    return cached + epochs * (layers - cached) + _backward_passes(spec)


def _backward_passes(spec: TrialSpec) -> int:
    """Layer passes of the gradients of an example in the whole training."""
    epochs, layers = range(spec.optim.epochs), spec.model.n_layers
    return sum(sum(learning_layers(spec, freeze_at(spec, epoch), layers)) for epoch in epochs)


def forward_passes(spec: TrialSpec) -> int:
    """Layer passes of an item that is evaluated."""
    return spec.model.n_layers - cached_depth(spec) + 1


def scored_items(spec: TrialSpec) -> int:
    """Items that a trial evaluates: dev at each evaluation, test once."""
    _, dev, test = spec.data.sizes or (0, 0, 0)
    epochs = spec.optim.epochs
    return len(evaluation_steps(steps_an_epoch(spec) * epochs, epochs, spec.eval_every)) * dev + test


def epoch_passes(spec: TrialSpec) -> float:
    """The work of an epoch in passes; it ranks the settings of a sweep: frozen ones take a small part of the time."""
    n_dev = spec.data.sizes[1] if spec.data.sizes else 0
    return spec.train_size * train_passes(spec) + n_dev * forward_passes(spec) / spec.eval_every


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]
