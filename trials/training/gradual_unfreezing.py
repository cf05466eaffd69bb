"""Train in stages and unfreeze layers between them (gradual unfreezing, Howard & Ruder 2018)."""

from __future__ import annotations

from collections.abc import Callable

from trials.spec import TrialSpec
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
        spec, loaded = self._spec, self._training.loaded
        if spec.thaw_every is not None:
            self._freeze = spec.freeze.after_thaws(self._training.step // self._stage_steps())
            freeze_parts(loaded.parts, self._freeze)
        train_mode(loaded.model, loaded.parts, self._freeze, frozen_dropout=spec.frozen_dropout)

    def _next_change(self) -> int:
        if self._spec.thaw_every is None:
            return self._training.n_steps
        return (self._training.step // self._stage_steps() + 1) * self._stage_steps()

    def _stage_steps(self) -> int:
        return steps_an_epoch(self._spec) * (self._spec.thaw_every or 1)
