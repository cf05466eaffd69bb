"""The work of a trial in passes of an example through one layer; it needs no sizes and no corpus.

As in Kaplan et al. 2020, "Scaling laws for neural language models", section 2.1, a pass forward is the unit, and so are
the gradient that passes through a layer and the gradients of its weights.
"""

from __future__ import annotations

from trials.prefix.rule import cached_depth
from trials.settings import FreezeSpec
from trials.spec import TrialSpec


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


def training_passes(spec: TrialSpec) -> float:
    """Passes of an example in the whole training, states of frozen layers computed once; proportional to its FLOPs."""
    epochs, layers, cached = spec.optim.epochs, spec.model.n_layers, cached_depth(spec)
    backward = sum(sum(learning_layers(spec, freeze_at(spec, epoch), layers)) for epoch in range(epochs))
    return cached + epochs * (layers - cached) + backward
