"""The replicates of one point, ranked by their means."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from orchestrator.analysis.cells import objective_group
from orchestrator.search.trial_results import Results, Seen
from orchestrator.store.schema import State
from trials.spec import TrialSpec


@dataclass
class Cell:
    """The replicates of one point, and how far they are.

    Attributes:
        specs: The replicates.
        seen: What is known of each, by trial id.
        until: The epoch at which they pause; None for their end.
        over: Trials that will not go on; `waiting`: those paused at `until`.
    """

    specs: Sequence[TrialSpec]
    seen: dict[str, Seen] = field(default_factory=dict)
    until: float | None = None
    over: dict[str, State] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)

    @property
    def cell_id(self) -> str:
        """Of all of them."""
        return self.specs[0].cell_id

    @property
    def group(self) -> Hashable:
        """The objective group that it is ranked in."""
        return objective_group(self.specs[0])

    @property
    def alive(self) -> list[TrialSpec]:
        """Trials that may go on."""
        return [spec for spec in self.specs if spec.trial_id not in self.over]

    @property
    def is_over(self) -> bool:
        """Whether none of them may."""
        return len(self.over) == len(self.specs)

    def results(self) -> list[Results]:
        """Of the complete ones."""
        return [seen.results for seen in self.seen.values() if seen.results is not None]

    def mean_best(self, until: float = float("inf")) -> float | None:
        """Mean of the trials' `Seen.best`, over those that have been evaluated."""
        found = [seen.best(until) for seen in self.seen.values() if seen.evaluations]
        return statistics.fmean(found) if found else None

    def mean(self, objective: str) -> float | None:
        """Mean of an objective over the complete trials; None where one of them does not have it."""
        found = [results.get(objective) for results in self.results()]
        values = [value for value in found if value is not None]
        return statistics.fmean(values) if values and len(values) == len(found) else None
