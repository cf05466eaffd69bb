"""Notes on whether a sweep can be answered: enough seeds, a baseline, a dev split that decides its tolerance."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.config.quantities import counted
from orchestrator.sweeps.dev_resolution import dev_note
from orchestrator.sweeps.notes.note import NOTES, Noted

FEWEST_SEEDS = 3  # below, a spread over seeds says next to nothing


@NOTES.register("design")
def design(noted: Noted) -> Iterator[str]:
    """What its settings and seeds lack."""
    sweep, freezes = noted.sweep, any(not spec.freeze.is_baseline for spec in noted.trials)
    if not noted.ahead or not freezes or sweep.search.is_adaptive:
        return
    n_seeds = len(set(sweep.seeds))
    if n_seeds < FEWEST_SEEDS:
        yield f"{counted(n_seeds, 'seed')}: no loss gets an interval worth its name below {FEWEST_SEEDS}."
    if not any(spec.freeze.is_baseline for spec in noted.trials):
        yield "no setting trains everything, so nothing can be compared: add `none` to `freeze`."


@NOTES.register("dev")
def dev(noted: Noted) -> Iterator[str]:
    """Whether dev and the seeds can decide the tolerance of a goal."""
    n_seeds, goal = len(set(noted.sweep.seeds)), noted.sweep.goal
    for task, data in noted.corpora if goal is not None else ():
        if goal is not None and (note := dev_note(task, data, goal.plan.tolerance, n_seeds)) is not None:
            yield note
