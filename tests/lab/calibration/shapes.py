"""Distributions of the losses of seeds: mean 0, deviation 1, of several settings at once.

Each takes a generator, a shape (..., settings, seeds) and the correlation between the losses that two settings have
under one seed; whatever it is, a setting's own losses have the distribution of the name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from orchestrator.analysis.rows import Floats

Draw = Callable[..., Floats]  # (generator, shape, alike=0.0)


def normal(rng: np.random.Generator, shape: tuple[int, ...], alike: float = 0.0) -> Floats:
    """Standard normal."""
    losses: Floats = np.sqrt(1 - alike) * rng.standard_normal(shape)
    if alike:
        losses = losses + np.sqrt(alike) * rng.standard_normal(_one_setting(shape))
    return losses


def t5(rng: np.random.Generator, shape: tuple[int, ...], alike: float = 0.0) -> Floats:
    """Student's with five degrees of freedom: excess kurtosis 6."""
    losses: Floats = normal(rng, shape, alike) / np.sqrt(rng.chisquare(5, _one_setting(shape) if alike else shape) / 3)
    return losses


def heteroscedastic(rng: np.random.Generator, shape: tuple[int, ...], alike: float = 0.0) -> Floats:
    """Every seed has a deviation of its own, lognormal; excess kurtosis 5."""
    scale = np.exp(0.5 * rng.standard_normal(_one_setting(shape) if alike else shape))
    losses: Floats = scale * normal(rng, shape, alike) / np.exp(0.25)
    return losses


def _gamma(k: float, rng: np.random.Generator, shape: tuple[int, ...], alike: float = 0.0) -> Floats:
    """Gamma of shape k, whose skewness is 2 / sqrt(k): a bad seed loses much, a good one gains little."""
    losses: Floats = rng.gamma(k * (1 - alike), 1, shape) - k
    if alike:
        losses = losses + rng.gamma(k * alike, 1, _one_setting(shape))
    standard: Floats = losses / np.sqrt(k)
    return standard


skewed: Draw = partial(_gamma, 4.0)  # skewness 1, the most that is promised for
exponential: Draw = partial(_gamma, 1.0)  # skewness 2


def _one_setting(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], 1, shape[-1])
