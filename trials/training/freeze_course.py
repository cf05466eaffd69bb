"""What is frozen at which step of a training: the same throughout, less and less, or more and more.

Gradual unfreezing (Howard and Ruder 2018) unfreezes the highest frozen layer every so many epochs; a freezing rule
(`trials.freeze.rules`) freezes the lowest layers as it sees fit. Both change what is frozen at steps that are known
beforehand, the turns; between two of them a training is like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from trials.freeze.rules import Row, depths_after
from trials.models.family import Parts
from trials.settings import FreezeSpec
from trials.spec import TrialSpec, steps_an_epoch
from trials.training.batching import collate
from trials.training.flops import Flops, forward_flops, training_flops
from trials.training.loop import Training, never, train_steps

# Freeze parts of a model: they get no gradient, and no dropout if the recipe says so.


def frozen_modules(parts: Parts, freeze: FreezeSpec) -> list[nn.Module]:
    """The modules that are frozen."""
    layers = [parts.encoder_layers[i] for i in freeze.layers]
    return [parts.embeddings, *layers] if freeze.embeddings else layers


def freeze_parts(parts: Parts, freeze: FreezeSpec) -> None:
    """Turn gradients off in the frozen parts and on in all others, but for tables that are never learned."""
    for module in (parts.embeddings, *parts.encoder_layers, *parts.head):
        module.requires_grad_(True)
    for module in (*frozen_modules(parts, freeze), *parts.computed):
        module.requires_grad_(False)


def train_mode(model: nn.Module, parts: Parts, freeze: FreezeSpec, *, frozen_dropout: bool) -> None:
    """Put the model into training mode; frozen parts have dropout only with `frozen_dropout`."""
    model.train()
    if not frozen_dropout:
        for module in frozen_modules(parts, freeze):
            module.eval()


# What a freezing rule sees of the encoder's layers, measured while they are trained.


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
        self._reference = self._similarities()  # of the pretrained weights; a resumed trial loads its own later
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


# --- What is frozen at which step


class FreezeSchedule:
    """A training whose frozen parts may change.

    Attributes:
        trainable_params: The most parameters that are trained at any time.
        rows: What a rule has seen of the layers, a row for each interval that is over.
    """

    def __init__(self, spec: TrialSpec, training: Training) -> None:
        self._spec, self._training = spec, training
        self.freeze, self.rows = spec.always_frozen, list[Row]()
        self.trainable_params = training.loaded.trainable_params()
        self._switch_steps = _switch_steps(spec, training.n_steps)
        self._rule = spec.freeze.rule
        self._changes = self._rule is not None or spec.thaw_every is not None
        self._measured = LayerStatistics()
        if self._rule is not None and self._rule.statistic == "gradients":
            self._measured = GradientSums(training)
        elif self._rule is not None and self._rule.statistic == "activations":
            self._measured = ActivationDistances(training, training.loaded.stack, self._rule.n_probes)
        foreseen = [spec.freeze]  # what is known to be frozen at some time
        if spec.thaw_every is not None:
            foreseen = [spec.freeze.after_thaws(n) for n in range(len(self._switch_steps) + 1)]
        self._flops = {freeze: self._counted(freeze) for freeze in foreseen}
        self._switched = False

    def _counted(self, freeze: FreezeSpec) -> Flops:
        """The operations of a step while these parts are frozen."""
        training = self._training
        if self._changes:  # else it was done before adapters were added
            freeze_parts(training.loaded.parts, freeze)
        like = collate(training.examples[:1], training.pad_id, training.device)
        return training_flops(training.loaded.model, like)

    def train_to(self, stop: int, pause: Callable[[], bool] = never) -> tuple[float, ...]:
        """Train up to the step `stop`, or to the first step after which `pause` is true; return each step's loss.
        Raises DivergedError.
        """
        losses: tuple[float, ...] = ()
        while self._training.step < stop:
            self.switch()
            losses += self.train(stop, pause)
            if pause():
                break
        return losses

    def switch(self) -> bool:
        """Freeze what is to be frozen from this step on; whether that is something else than before."""
        freeze = self._freeze_after(sum(turn <= self._training.step for turn in self._switch_steps))
        if self._switched and freeze == self.freeze:
            return False
        if self._rule is not None:
            self._forget(freeze)
        self._switched, self.freeze = True, freeze
        if self._changes:
            freeze_parts(self._training.loaded.parts, freeze)
        self.recount()
        return True

    def recount(self) -> None:
        """Count the operations of a step, unless that was done before the model was cut at another layer."""
        if self.freeze not in self._flops or self._rule is not None:
            self._flops[self.freeze] = self._counted(self.freeze)
        self._training.step_flops = self._flops[self.freeze]

    def train(self, stop: int, pause: Callable[[], bool] = never) -> tuple[float, ...]:
        """Train as far as `stop`, the next turn, or the first step after which `pause` is true, and measure there."""
        training = self._training
        train_mode(training.loaded.model, training.loaded.parts, self.freeze, frozen_dropout=self._spec.frozen_dropout)
        turn = min((turn for turn in self._switch_steps if turn > training.step), default=training.n_steps)
        losses = train_steps(training, min(stop, turn) - training.step, pause)
        if self._rule is not None and training.step == turn < training.n_steps:
            self.rows.append(self._measured.row(self.freeze.depth, is_first=not self.rows))
        return losses

    def _freeze_after(self, n_turns: int) -> FreezeSpec:
        """What is frozen after the first so many turns."""
        if self._rule is None:
            return self._spec.freeze.after_thaws(n_turns)
        return self._spec.freeze.grown(depths_after(self._rule, self._spec.model.n_layers, self.rows[:n_turns])[-1])

    @property
    def mean_depth(self) -> float:
        """Frozen layers, mean over the steps so far."""
        step, rule = self._training.step, self._rule
        ends = [0, *(turn for turn in self._switch_steps if turn < step), step]
        if rule is None:
            depths = [self._freeze_after(n).depth for n in range(len(ends) - 1)]
        else:
            depths = depths_after(rule, self._spec.model.n_layers, self.rows)  # one more if a turn has just come
        return sum(depth * (end - start) for depth, (start, end) in zip(depths, pairwise(ends), strict=False)) / step

    def _forget(self, freeze: FreezeSpec) -> None:
        """Free the optimiser's moments of parts that are never trained again."""
        for module in frozen_modules(self._training.loaded.parts, freeze):
            for parameter in module.parameters():
                self._training.optimizer.state.pop(parameter, None)

    # --- What a checkpoint holds of it

    @property
    def tensors(self) -> Sequence[torch.Tensor]:
        """What has been measured since the last turn."""
        return self._measured.tensors

    def is_possible(self, rows: Sequence[Row], prefix_layers: int, step: int) -> bool:
        """Whether a training at this step can have seen these rows and taken so many layers out."""
        if self._rule is None:
            return not rows and prefix_layers == 0
        fits = len(rows) == sum(turn <= step for turn in self._switch_steps)
        fits = fits and all(len(row) == self._measured.n_layers for row in rows)
        return fits and 0 <= prefix_layers <= depths_after(self._rule, self._spec.model.n_layers, rows)[-1]

    def resume(self, rows: Sequence[Row], tensors: Sequence[torch.Tensor]) -> None:
        """Go on from what a checkpoint holds."""
        self.rows = list(rows)
        self.freeze = self._freeze_after(
            sum(turn < self._training.step for turn in self._switch_steps)
        )  # the last step's
        for mine, saved in zip(self.tensors, tensors, strict=True):
            mine.copy_(saved)


def _switch_steps(spec: TrialSpec, n_steps: int) -> list[int]:
    """The steps after which what is frozen may change, ascending; the last step is none."""
    if spec.freeze.rule is not None:
        n = spec.freeze.rule.n_intervals  # fewer turns where the training has fewer steps than intervals
        return sorted({round(i * n_steps / n) for i in range(1, n)} - {0, n_steps})
    if spec.thaw_every is None:
        return []
    stage = steps_an_epoch(spec) * spec.thaw_every
    return list(range(stage, n_steps, stage))
