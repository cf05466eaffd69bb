"""Time to run trials in order, each on the slot that is free first, for many draws of their times."""

from __future__ import annotations

import numpy as np


def scheduled_s(seconds: np.ndarray, slots: int) -> np.ndarray:
    """(draws,) seconds until the last trial ends.

    Trials start in the order of the sweep, as in a launch; Graham (1966) bounds the gain of any other order.

    Args:
        seconds: (trials, draws) seconds of each trial.
        slots: Trials that run at the same time.
    """
    n_trials, n_draws = seconds.shape
    if not n_trials:
        return np.zeros(n_draws)
    free = np.zeros((min(slots, n_trials), n_draws))
    draws = np.arange(n_draws)
    for trial in seconds:
        free[free.argmin(axis=0), draws] += trial
    last: np.ndarray = free.max(axis=0)
    return last
