"""What the tolerance of a sweep buys so far, while it runs: for `status` and the live display."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.session.outcome import trials_of
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore
from orchestrator.sweeps.plan import Plan
from trials.errors import StoreError
from trials.spec import TrialSpec

MOST_LINES = 4  # lines of answers; if a sweep has more questions, the others are counted
EVERY_S = 10.0
SHARE = 0.05  # largest share of the time that may go into these lines


def so_far_lines(results: ResultStore, specs: Sequence[TrialSpec], plan: DecisionPlan) -> list[str]:
    """A line for each question of a sweep of which a pair of runs has ended. Raises StoreError."""
    from orchestrator.analysis.answer import answers  # loads pandas
    from orchestrator.analysis.wording import interim_line

    trials = results.evidence(specs)
    try:
        found = [answer for answer in answers(trials.frame, trials.specs, plan) if answer.about is not None]
    except ValueError:  # they cannot be compared, as the end of the launch says
        return []
    more = [f"        and {len(found) - MOST_LINES} more answers"] if len(found) > MOST_LINES else []
    several = len({spec.model.name for spec in specs}) > 1
    shown = ((f"{one.corpus}, {one.model}" if several else one.corpus, one) for one in found[:MOST_LINES])
    return [*(interim_line(about, answer.words, answer.decided_by) for about, answer in shown), *more]


class SoFar:
    """The lines for a display that asks again and again; read anew where trials have ended and it is cheap enough.

    Of a store that is no folder of this machine nothing is read: its parts would be fetched each time.
    """

    def __init__(self, plan: Plan, results: ResultStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan, self._results, self._clock = plan, results, clock
        self._lines, self._n_ended, self._due = list[str](), 0, clock() + EVERY_S
        self._is_here = isinstance(results.storage, FolderStorage)

    def lines(self, n_ended: int) -> list[str]:
        """The current lines, or those of a moment ago; `n_ended` trials have ended."""
        start = self._clock()
        if self._is_here and n_ended != self._n_ended and start >= self._due:
            try:
                specs = trials_of(self._plan, self._results)
                self._lines = so_far_lines(self._results, specs, self._plan.sweep.decision_plan)
            except StoreError:  # its driver says so when it writes
                self._lines = []
            took = self._clock() - start
            self._n_ended, self._due = n_ended, start + max(EVERY_S, took / SHARE)
        return self._lines
