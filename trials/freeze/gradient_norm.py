"""Freeze layers whose gradients have settled: AutoFreeze (Liu, Agarwal and Venkataraman 2021, arXiv 2102.01386)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from trials.freeze.rules import FREEZING_RULES, FreezingRule, LayerHistory

_MOST = 1e9  # a ratio that no other exceeds, and that percentiles can be computed with


@FREEZING_RULES.register("gradient_norm")
class GradientNorm(FreezingRule):
    """AutoFreeze's gradient-norm test.

    Over each interval the gradients of a layer are summed, and the L1 norms of the sums of its tensors are added up.
    Of each layer that is still trained, the change of that norm from the last interval to this one is divided by the
    last one. A percentile of these ratios is the threshold, and every layer below the first one that reaches it is
    frozen. So at least one layer is always trained.

    As in the paper and in its authors' code (github.com/YuhanLiu11/AutoFreeze): ten intervals, the median, gradients
    before clipping, embeddings frozen together with the first layer. Deviation: AutoFreeze makes a new optimiser at
    every freeze, so that the moments of layers that are still trained start again from zero; here they are kept.

    Attributes:
        intervals: Equal parts of the training.
        percentile: Of the ratios; a higher one freezes faster.
    """

    name: Literal["gradient_norm"] = "gradient_norm"
    statistic = "gradients"
    intervals: Annotated[int, Field(ge=2, le=1000)] = 10
    percentile: Annotated[float, Field(ge=0, le=100)] = 50.0

    @property
    def n_intervals(self) -> int:
        """As its parameter says."""
        return self.intervals

    def depth(self, seen: LayerHistory) -> int:
        """The first layer whose ratio reaches the percentile; two intervals are needed for a ratio."""
        layers = range(seen.depth, seen.n_layers)
        if len(seen.rows) < 2 or not layers:
            return seen.depth
        ratios = [_ratio(*seen.of_layer(layer)[-2:]) for layer in layers]
        threshold = np.percentile(ratios, self.percentile)
        return seen.depth + next((i for i, ratio in enumerate(ratios) if ratio >= threshold), 0)


def _ratio(before: float, now: float) -> float:
    """The change as a share of the norm before; a layer without a gradient has not changed."""
    if before == 0.0:
        return 0.0 if now == 0.0 else _MOST
    return min(abs(before - now) / before, _MOST)
