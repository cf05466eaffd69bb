"""Tune keeps every trial to its end, for a table of results that nobody here reads; so a driver's memory would grow.

A `Trial` of Tune's holds its config twice, its last result and a reference into Ray's object store for what its worker
said when it began, 16 KB in all (Ray 2.60, 5,000 trials in one driver). Finished ones are taken out of what holds them.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

KEPT = 100  # finished trials that Tune still knows: its table wants some, and no step forgets for one alone


def forget_finished(controller: Any) -> None:
    """Take all but the newest finished trials out of a `TuneController`, once there are twice as many.

    One that has left its worker is never asked for again: what comes later comes through the worker's own trial.
    """
    over = [controller._stopped_trials, controller._failed_trials]
    if sum(map(len, over)) < 2 * KEPT:
        return
    finished = set(chain(*over)) - controller._trial_to_actor.keys()
    oldest = set([trial for trial in controller._trials if trial in finished][:-KEPT])
    controller._trials[:] = [trial for trial in controller._trials if trial not in oldest]
    for trials in (*over, controller._trials_to_cache):
        trials -= oldest
