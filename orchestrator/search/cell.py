"""A cell: all replicates of one setting, ranked by their means."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from orchestrator.analysis.cells import objective_group
from orchestrator.search.trial_results import Results, TrialProgress
from orchestrator.store.schema import State
from trials.spec import TrialSpec


@dataclass
class Cell:
    """The replicates of one setting, and their progress.

    Attributes:
        specs: The replicates, one per seed.
        until: The epoch at which they pause; None to run to the end.
        pauses: All of these epochs so far.
        ranked: How many of these the scheduler knows of that the trials have come to.
        over: Ended trials with their state.
        waiting: Trials that are paused at `until`.
    """

    specs: Sequence[TrialSpec]
    progress: dict[str, TrialProgress] = field(default_factory=dict)
    until: float | None = None
    pauses: list[float] = field(default_factory=list)
    ranked: int = 0
    over: dict[str, State] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)

    @property
    def cell_id(self) -> str:
        """The id of the cell, common to its trials."""
        return self.specs[0].cell_id

    @property
    def group(self) -> Hashable:
        """The objective group that it is ranked in."""
        return objective_group(self.specs[0])

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended."""
        return len(self.over) == len(self.specs)

    def results(self) -> list[Results]:
        """Results of the complete trials."""
        return [trial.results for trial in self.progress.values() if trial.results is not None]

    def mean_best(self, until: float = float("inf")) -> float | None:
        """Mean of `TrialProgress.best` over the trials that have been evaluated; None without any."""
        scores = [trial.best(until) for trial in self.progress.values() if trial.evaluations]
        return statistics.fmean(scores) if scores else None

    def mean(self, objective: str) -> float | None:
        """Mean of an objective over the complete trials; None if any of them lacks it."""
        results = [result.get(objective) for result in self.results()]
        values = [value for value in results if value is not None]
        return statistics.fmean(values) if values and len(values) == len(results) else None
