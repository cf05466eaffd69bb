"""What is frozen at which step of a training: the same throughout, or less and less.

Gradual unfreezing (Howard and Ruder 2018) unfreezes the highest frozen layer every so many epochs. What is frozen
follows from the step alone; between two of these turns a training is like any other.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from trials.models.family import Parts
from trials.spec import FreezeSpec, TrialSpec, steps_an_epoch
from trials.training.batching import collate
from trials.training.flops import Flops, training_flops
from trials.training.loop import Training, never_holds, train_steps


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


class FreezeSchedule:
    """A training in which the highest frozen layer may be unfrozen after every `thaw_every` epochs.

    Attributes:
        trainable_params: The most parameters that are trained at any time.
    """

    def __init__(self, spec: TrialSpec, training: Training) -> None:
        self._spec, self._training = spec, training
        self._stage = steps_an_epoch(spec) * (spec.thaw_every or spec.optim.epochs)  # steps between two turns
        self.trainable_params = training.loaded.trainable_params()
        self._flops = [self._flops_after(n) for n in range(-(-training.n_steps // self._stage))]

    def _freeze(self, n_thaws: int) -> FreezeSpec:
        """Freeze what is frozen after this many unfreezing steps, and return it."""
        freeze = self._spec.freeze.after_thaws(n_thaws)
        if self._spec.thaw_every is not None:  # else it was done before adapters were added
            freeze_parts(self._training.loaded.parts, freeze)
        return freeze

    def _flops_after(self, n_thaws: int) -> Flops:
        """The operations of a training step after this many unfreezing steps."""
        training = self._training
        self._freeze(n_thaws)
        return training_flops(training.loaded.model, collate(training.examples[:1], training.pad_id, training.device))

    def train_to(self, stop: int, pause: Callable[[], bool] = never_holds) -> tuple[float, ...]:
        """Train up to the step `stop`, or to the first step after which `pause` is true; return each step's loss.
        Raises DivergedError.
        """
        training, losses = self._training, tuple[float, ...]()
        loaded, frozen_dropout = training.loaded, self._spec.frozen_dropout
        while training.step < stop:
            n_thaws = training.step // self._stage
            train_mode(loaded.model, loaded.parts, self._freeze(n_thaws), frozen_dropout=frozen_dropout)
            training.step_flops = self._flops[n_thaws]
            losses += train_steps(training, min(stop, (n_thaws + 1) * self._stage) - training.step, pause)
            if pause():
                break
        return losses

    @property
    def depth(self) -> int:
        """Frozen layers in the last step."""
        return self._spec.freeze.after_thaws((self._training.step - 1) // self._stage).depth

    @property
    def mean_depth(self) -> float:
        """Frozen layers, mean over the steps so far."""
        step, stage = self._training.step, self._stage
        turns = [(turn, min(turn + stage, step)) for turn in range(0, step, stage)]
        return sum(self._spec.freeze.after_thaws(first // stage).depth * (end - first) for first, end in turns) / step
