"""Freeze layers whose activations have stopped moving: Egeria (Wang et al. 2023, EuroSys, arXiv 2201.06227)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from trials.freeze.rules import FREEZING_RULES, FreezingRule, LayerHistory


@FREEZING_RULES.register("plasticity")
class Plasticity(FreezingRule):
    """Egeria's training plasticity.

    The plasticity of a layer is the similarity-preserving distance (Tung and Mori 2019, arXiv 1907.09682) between its
    activations and those of a reference model on the same inputs: the squared difference of the two row-normalised
    matrices of inner products between inputs, divided by the square of their number. It is averaged over a moving
    window, and the layer has stalled when the slope of a straight line through the window has been small in so many
    intervals in a row, measured against the steepest slope that the layer has had. From the embeddings up, stalled
    layers are frozen.

    As in the paper: the distance, the moving average, the linear fit, the patience, and that only the lowest layers
    are frozen. Deviations: the reference is the pretrained encoder in full precision, where Egeria takes a new
    quantised snapshot of the model in training from time to time, on a spare CPU; activations are those of 32 train
    examples, the same in every interval, without dropout, where Egeria takes the batch at hand; all layers that have
    stalled are frozen at once, not one module at a time; nothing is unfrozen when the learning rate falls, as Egeria
    does at the steps of its schedule; and the parameters' defaults are ours, for trainings of a hundred steps instead
    of many thousands.

    Attributes:
        intervals: Equal parts of the training.
        window: Intervals that are averaged, and that the line is fitted to.
        tolerance: A slope is small up to this share of the layer's steepest one.
        patience: Intervals in a row with a small slope.
    """

    name: Literal["plasticity"] = "plasticity"
    statistic = "activations"
    n_probes = 32
    intervals: Annotated[int, Field(ge=2, le=1000)] = 20
    window: Annotated[int, Field(ge=2, le=100)] = 3
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.2
    patience: Annotated[int, Field(ge=1, le=100)] = 2

    @property
    def n_intervals(self) -> int:
        """As its parameter says."""
        return self.intervals

    def depth(self, seen: LayerHistory) -> int:
        """The first layer that has not stalled."""
        layers = range(seen.depth, seen.n_layers)
        return next((layer for layer in layers if not self._stalled(seen.of_layer(layer))), seen.n_layers)

    def _stalled(self, plasticity: list[float]) -> bool:
        # Before the first interval the layer is the reference itself.
        values = np.array([0.0, *plasticity])
        averages = [values[max(0, end - self.window) : end].mean() for end in range(1, len(values) + 1)]
        steps = np.arange(self.window)
        ends = range(self.window, len(averages) + 1)
        slopes = np.abs([np.polyfit(steps, averages[end - self.window : end], 1)[0] for end in ends])
        if len(slopes) < self.patience:
            return False
        return bool((slopes[-self.patience :] <= self.tolerance * slopes.max()).all())
