"""What a freezing rule sees of the encoder's layers, measured while they are trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from trials.freeze.rules import FreezingRule, Row
from trials.training.batching import collate
from trials.training.flops import forward_flops
from trials.training.loop import Training


class LayerStatistics:
    """Measures nothing; what a rule needs that looks at nothing.

    Attributes:
        n_layers: Values in a row.
        tensors: What has been measured since the last row, for a checkpoint.
    """

    n_layers = 0
    tensors: Sequence[torch.Tensor] = ()

    def row(self, depth: int, *, is_first: bool) -> Row:
        """The value of each layer in the interval that ends; None for the `depth` lowest, which are frozen."""
        return ()


class GradientSums(LayerStatistics):
    """The L1 norm of each layer's gradient, summed over the steps of an interval before the norm is taken."""

    def __init__(self, training: Training) -> None:
        layers = training.loaded.parts.encoder_layers
        self.n_layers = len(layers)
        self._parameters = [[p for p in layer.parameters() if p.requires_grad] for layer in layers]
        self._all = [p for layer in self._parameters for p in layer]
        self.tensors = [torch.zeros_like(p) for p in self._all]
        self._sum_of = {id(p): total for p, total in zip(self._all, self.tensors, strict=True)}
        training.on_gradients = self._add

    @torch.no_grad()
    def _add(self) -> None:
        learning = [p for p in self._all if p.grad is not None]
        if learning:
            torch._foreach_add_(
                [self._sum_of[id(p)] for p in learning], [p.grad for p in learning if p.grad is not None]
            )

    @torch.no_grad()
    def row(self, depth: int, *, is_first: bool) -> Row:
        """The norms of the layers above `depth`; the sums start again from zero."""
        norms = [sum(float(self._sum_of[id(p)].abs().sum()) for p in layer) for layer in self._parameters]
        for total in self.tensors:
            total.zero_()
        return tuple(None if layer < depth else norm for layer, norm in enumerate(norms))


class ActivationDistances(LayerStatistics):
    """How far each layer's activations are from those of the encoder as it was at the start of the trial.

    The distance is that of Tung and Mori 2019: of two matrices of inner products between inputs, their rows normalised.
    """

    def __init__(self, training: Training, layers: nn.ModuleList, n_probes: int) -> None:
        self._training, self._n = training, min(n_probes, len(training.examples))
        self.n_layers = len(layers)
        self._layers = list(layers)
        self._reference = (
            self._similarities()
        )  # the weights are the pretrained ones; a resumed trial loads its own later
        self._reference_flops = self._flops()

    def row(self, depth: int, *, is_first: bool) -> Row:
        """The distances of the layers above `depth`; counts their operations, at first those of the reference too."""
        self._training.flops += self._flops() + (self._reference_flops if is_first else 0.0)
        now = self._similarities()
        return tuple(
            None if layer < depth or layer not in now else _distance(now[layer], self._reference[layer])
            for layer in range(self.n_layers)
        )

    @torch.no_grad()
    def _similarities(self) -> dict[int, torch.Tensor]:
        """(probes, probes) normalised inner products of each layer that the model still has."""
        training, seen = self._training, dict[int, torch.Tensor]()
        examples = training.examples[: self._n]
        batch, lengths = collate(examples, training.pad_id, training.device), [len(e.ids) for e in examples]

        def watch(layer: int) -> Any:
            def hook(module: nn.Module, inputs: Any, output: Any) -> None:
                seen[layer] = _similarity(output[0] if isinstance(output, tuple) else output, lengths)

            return hook

        handles = [module.register_forward_hook(watch(i)) for i, module in enumerate(self._layers)]
        model = training.loaded.model.eval()
        try:
            with training.precision:
                model(**batch.inputs)
        finally:
            for handle in handles:
                handle.remove()
        return seen

    def _flops(self) -> float:
        training = self._training
        counted = forward_flops(training.loaded.model, collate(training.examples[:1], training.pad_id, training.device))
        longest = max(len(example.ids) for example in training.examples[: self._n])
        return counted.of([longest] * self._n)


def _similarity(states: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """(inputs, inputs) inner products of (inputs, subwords, width) states without padding, each row of norm 1."""
    flat = pad_sequence([row[:n].float() for row, n in zip(states, lengths, strict=True)], batch_first=True).flatten(1)
    return normalize(flat @ flat.T, dim=1)


def _distance(now: torch.Tensor, reference: torch.Tensor) -> float:
    return float((now - reference).square().mean())  # the squared norm over the squared number of inputs


def statistics_for(rule: FreezingRule | None, training: Training) -> LayerStatistics:
    """What a rule needs; nothing for None."""
    if rule is None or rule.statistic is None:
        return LayerStatistics()
    if rule.statistic == "gradients":
        return GradientSums(training)
    return ActivationDistances(training, training.loaded.stack, rule.n_probes)
