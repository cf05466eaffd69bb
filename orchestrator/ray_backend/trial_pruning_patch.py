"""A workaround for Tune, which keeps every trial for a table of results that is not used here, so memory would grow.

One of Tune's `Trial` objects holds its config twice, its last result and a reference into Ray's object store, 16 KB in
all (Ray 2.60, 5,000 trials in one driver). Finished trials are removed from the collections that hold them.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

N_KEPT = 100  # finished trials that stay: Tune's table needs some, and removing them in batches is cheaper


def forget_finished(controller: Any) -> None:
    """Remove all but the newest finished trials from a `TuneController`, once there are twice as many.

    A trial that has left its worker is never accessed again: later events refer to the worker's current trial.
    """
    over = [controller._stopped_trials, controller._failed_trials]
    if sum(map(len, over)) < 2 * N_KEPT:
        return
    finished = set(chain(*over)) - controller._trial_to_actor.keys()
    oldest = set([trial for trial in controller._trials if trial in finished][:-N_KEPT])
    controller._trials[:] = [trial for trial in controller._trials if trial not in oldest]
    for trials in (*over, controller._trials_to_cache):
        trials -= oldest
