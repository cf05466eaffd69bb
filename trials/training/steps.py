"""How a trial's optimiser steps, epochs, evaluations and examples relate; arithmetic only."""

from __future__ import annotations

import math

from trials.spec import TrialSpec


def steps_an_epoch(spec: TrialSpec) -> int:
    """Optimiser steps of one pass over the train subset; the last batch may be smaller."""
    return math.ceil(spec.train_size / spec.optim.batch_size)


def evaluation_steps(n_steps: int, epochs: int, eval_every: float) -> list[int]:
    """The steps after which dev is evaluated: every `eval_every` epochs, and at the end."""
    if eval_every * n_steps <= epochs:  # less than a step, which may be far less
        return list(range(1, n_steps + 1))
    n_evaluations = math.ceil(epochs / eval_every - 1e-9)
    stops = {round(k * eval_every * n_steps / epochs) for k in range(1, n_evaluations)}
    return sorted(stop for stop in stops | {n_steps} if 0 < stop <= n_steps)


def examples_seen(spec: TrialSpec, step: int) -> int:
    """Train examples up to a step, repeats included."""
    epochs, steps = divmod(step, steps_an_epoch(spec))
    return epochs * spec.train_size + min(steps * spec.optim.batch_size, spec.train_size)
