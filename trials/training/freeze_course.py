"""What is frozen at which step of a training: the same throughout, less and less, or more and more.

Gradual unfreezing (Howard and Ruder 2018) unfreezes the highest frozen layer every so many epochs; a freezing rule
(`trials.freeze.rules`) freezes the lowest layers as it sees fit. Both change what is frozen at steps that are known
beforehand, the turns; between two of them a training is like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from trials.freeze.rules import FreezingRule, Row, depths_after
from trials.settings import FreezeSpec
from trials.spec import TrialSpec
from trials.training.batching import collate
from trials.training.flops import Flops, training_flops
from trials.training.freezing import freeze_parts, frozen_modules, train_mode
from trials.training.layer_statistics import statistics_for
from trials.training.loop import Training, never, train_steps
from trials.training.steps import steps_an_epoch


class FreezeCourse:
    """A training whose frozen parts may change.

    Attributes:
        trainable_params: The most parameters that are trained at any time.
        rows: What a rule has seen of the layers, a row for each interval that is over.
    """

    def __init__(self, spec: TrialSpec, training: Training) -> None:
        self._spec, self._training = spec, training
        self.freeze, self.rows = spec.always_frozen, list[Row]()
        self.trainable_params = training.loaded.trainable_params()
        self._turns = _turns(spec, training.n_steps)
        self._rule = spec.freeze.rule
        self._changes = self._rule is not None or spec.thaw_every is not None
        self._measured = statistics_for(self._rule, training)
        self._flops = {freeze: self._counted(freeze) for freeze in self._foreseen()}
        self._switched = False

    def _foreseen(self) -> list[FreezeSpec]:
        """What is known to be frozen at some time."""
        if self._spec.thaw_every is None:
            return [self._spec.freeze]
        return [self._spec.freeze.after_thaws(n) for n in range(len(self._turns) + 1)]

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
        freeze = self._freeze_after(sum(turn <= self._training.step for turn in self._turns))
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
        turn = min((turn for turn in self._turns if turn > training.step), default=training.n_steps)
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
        ends = [0, *(turn for turn in self._turns if turn < step), step]
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
        fits = len(rows) == sum(turn <= step for turn in self._turns)
        fits = fits and all(len(row) == self._measured.n_layers for row in rows)
        return fits and 0 <= prefix_layers <= depths_after(self._rule, self._spec.model.n_layers, rows)[-1]

    def resume(self, rows: Sequence[Row], tensors: Sequence[torch.Tensor]) -> None:
        """Go on from what a checkpoint holds."""
        self.rows = list(rows)
        self.freeze = self._freeze_after(sum(turn < self._training.step for turn in self._turns))  # in the last step
        for mine, saved in zip(self.tensors, tensors, strict=True):
            mine.copy_(saved)


def _turns(spec: TrialSpec, n_steps: int) -> list[int]:
    """The steps after which what is frozen may change, ascending; the last step is none."""
    if spec.freeze.rule is not None:
        return turns_of(spec.freeze.rule, n_steps)
    if spec.thaw_every is None:
        return []
    stage = steps_an_epoch(spec) * spec.thaw_every
    return list(range(stage, n_steps, stage))


def turns_of(rule: FreezingRule, n_steps: int) -> list[int]:
    """The ends of a rule's intervals but the last; fewer where the training has fewer steps than intervals."""
    ends = {round(i * n_steps / rule.n_intervals) for i in range(1, rule.n_intervals)}
    return sorted(end for end in ends if 0 < end < n_steps)
