"""Arithmetic of a trial's optimiser steps, epochs, evaluations and examples."""

from __future__ import annotations

import math

from trials.spec import TrialSpec


def steps_an_epoch(spec: TrialSpec) -> int:
    """Optimiser steps of one pass over the train subset; the last batch may be smaller."""
    return math.ceil(spec.train_size / spec.optim.batch_size)


def evaluation_steps(n_steps: int, epochs: int, eval_every: float) -> list[int]:
    """The steps after which dev is evaluated: every `eval_every` epochs, and after the last step."""
    if eval_every * n_steps <= epochs:  # at most one step between two evaluations
        return list(range(1, n_steps + 1))
    n_evaluations = math.ceil(epochs / eval_every - 1e-9)
    stops = {round(k * eval_every * n_steps / epochs) for k in range(1, n_evaluations)}
    return sorted(stop for stop in stops | {n_steps} if 0 < stop <= n_steps)


def examples_seen(spec: TrialSpec, step: int) -> int:
    """Number of train examples up to a step, repeats included."""
    epochs, steps = divmod(step, steps_an_epoch(spec))
    return epochs * spec.train_size + min(steps * spec.optim.batch_size, spec.train_size)
