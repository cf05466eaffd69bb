"""Train in stages and unfreeze layers between them (gradual unfreezing, Howard & Ruder 2018)."""

from __future__ import annotations

from collections.abc import Callable

from trials.spec import TrialSpec
from trials.training.batching import collate
from trials.training.flops import Flops, training_flops
from trials.training.freezing import freeze_parts, train_mode
from trials.training.loop import Training, never, train_steps
from trials.training.steps import steps_an_epoch


class GradualUnfreezing:
    """A training whose frozen layers depend on the epoch; without `thaw_every` they stay the same.

    Attributes:
        trainable_params: Parameters that are trained in the last epoch, which is the most at any time.
    """

    def __init__(self, spec: TrialSpec, training: Training) -> None:
        self._spec, self._training = spec, training
        self._freeze = spec.always_frozen
        self.trainable_params = training.loaded.trainable_params()
        self._flops = self._flops_of_stages()

    def _flops_of_stages(self) -> list[Flops]:
        """The operations of a step in every stage."""
        training, loaded = self._training, self._training.loaded
        like = collate(training.examples[:1], training.pad_id, training.device)
        if self._spec.thaw_every is None:
            return [training_flops(loaded.model, like)]
        found = []
        for stage in range((self._spec.optim.epochs - 1) // self._spec.thaw_every + 1):
            freeze_parts(loaded.parts, self._spec.freeze.after_thaws(stage))
            found.append(training_flops(loaded.model, like))
        return found

    def train_to(self, stop: int, pause: Callable[[], bool] = never) -> tuple[float, ...]:
        """Train up to the step `stop`, or to the first step after which `pause` is true; return each step's loss.

        Raises:
            DivergedError: a loss is not a finite number.
        """
        losses: tuple[float, ...] = ()
        while self._training.step < stop:
            self._switch()
            losses += train_steps(self._training, min(stop, self._next_change()) - self._training.step, pause)
            if pause():
                break
        return losses

    def _switch(self) -> None:
        """Freeze what is frozen at this step, and put the model into training mode."""
        spec, loaded, stage = self._spec, self._training.loaded, 0
        if spec.thaw_every is not None:
            stage = self._training.step // self._stage_steps()
            self._freeze = spec.freeze.after_thaws(stage)
            freeze_parts(loaded.parts, self._freeze)
        self._training.step_flops = self._flops[stage]
        train_mode(loaded.model, loaded.parts, self._freeze, frozen_dropout=spec.frozen_dropout)

    def _next_change(self) -> int:
        if self._spec.thaw_every is None:
            return self._training.n_steps
        return (self._training.step // self._stage_steps() + 1) * self._stage_steps()

    def _stage_steps(self) -> int:
        return steps_an_epoch(self._spec) * (self._spec.thaw_every or 1)
