"""Early stopping: schedulers decide how long cells run, by the mean score of their replicates.

`cell` is the id of a cell, `time` is in epochs or examples, as the sweep declares, and `group` is its objective group;
only cells of one group are ranked against each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from orchestrator.sweeps.search_spec import ScheduleSpec


class NoEarlyStopping:
    """Runs every cell to its end; the base of all schedulers."""

    def until(self, cell: str, group: Hashable, end: float) -> float | None:
        """The time at which the trials of a cell pause next; None if they run to their `end`."""
        return None

    def reached(self, cell: str, level: int, score: float) -> None:
        """All replicates of a cell came to a pause, the first being level 0, with this mean of their best scores."""

    def best(self) -> str | None:
        """A paused cell that may resume now; None if there is none."""
        return None

    def promote(self, cell: str) -> None:
        """A cell goes on to its next pause."""

    def closed(self) -> None:
        """No further cells will come."""

    def left(self, cell: str, level: int) -> None:
        """A cell will not come to a pause: its trials failed or ended before."""

    def continues(self, cell: str, group: Hashable, seed: int, time: float, score: float) -> bool:
        """Whether a trial continues; called at each of its evaluations."""
        return True


@dataclass
class _Rung:
    """A rung: scores of the cells that have reached it, cells on their way to it, and cells promoted from it.

    Of equal scores the first cell to be suggested is the best, so that the order in which results come does not matter.
    """

    scores: dict[str, float] = field(default_factory=dict)
    on_the_way: set[str] = field(default_factory=set)
    promoted: set[str] = field(default_factory=set)

    def best(self, n: int, order: Mapping[str, object]) -> Iterator[str]:
        """The best `n` cells without those that are promoted."""
        scores = {cell: self.scores[cell] for cell in order if cell in self.scores}
        ranked = sorted(scores, key=lambda cell: -scores[cell])[:n]
        return (cell for cell in ranked if cell not in self.promoted)


class Asha(NoEarlyStopping):
    """Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter tuning", 2020).

    A cell pauses at `first`, `first * factor`, `first * factor^2`, ... Whenever a slot is free, rungs are searched from
    the highest down for a cell among the best `1 / factor` of its rung that is not yet promoted. If no further cell
    comes and a rung has fewer than `factor` cells, its best one is promoted, so that some cell reaches its end.
    """

    def __init__(self, spec: ScheduleSpec) -> None:
        self._first, self._factor = spec.first, spec.factor
        self._level: dict[str, int] = {}
        self._groups: dict[str, Hashable] = {}
        self._rungs: dict[Hashable, dict[int, _Rung]] = {}
        self._closed = False

    def until(self, cell: str, group: Hashable, end: float) -> float | None:
        """The next rung of the cell, if it is before its end."""
        level = self._level.setdefault(cell, 0)
        self._groups[cell] = group
        time = self._first * self._factor**level
        if time >= end - 1e-9:
            return None
        self._rung(group, level).on_the_way.add(cell)
        return time

    def reached(self, cell: str, level: int, score: float) -> None:
        """Rank the cell in its rung."""
        rung = self._rung(self._groups[cell], level)
        rung.on_the_way.discard(cell)
        rung.scores[cell] = score

    def left(self, cell: str, level: int) -> None:
        """The rung no longer waits for the cell."""
        self._rung(self._groups[cell], level).on_the_way.discard(cell)

    def closed(self) -> None:
        """No more cells reach the lowest rung."""
        self._closed = True

    def best(self) -> str | None:
        """The best cell that may be promoted, from the highest rung down."""
        levels = [(level, rung) for rungs in self._rungs.values() for level, rung in rungs.items()]
        candidates = (
            next(rung.best(self._quota(rung), self._level), None)
            for _, rung in sorted(levels, key=lambda entry: -entry[0])
        )
        return next(filter(None, candidates), None)

    def promote(self, cell: str) -> None:
        """It leaves its rung for the next one."""
        self._rung(self._groups[cell], self._level[cell]).promoted.add(cell)
        self._level[cell] += 1

    def _quota(self, rung: _Rung) -> int:
        """Number of cells to promote from a rung."""
        n = self._due(rung)
        return max(n, 1) if self._closed and not any(map(self._is_open, self._all_rungs())) else n

    def _due(self, rung: _Rung) -> int:
        return int(len(rung.scores) / self._factor)

    def _is_open(self, rung: _Rung) -> bool:
        """Whether cells are on their way to it, or are to leave it for the next one."""
        return bool(rung.on_the_way) or any(rung.best(self._due(rung), self._level))

    def _all_rungs(self) -> Iterator[_Rung]:
        return (rung for rungs in self._rungs.values() for rung in rungs.values())

    def _rung(self, group: Hashable, level: int) -> _Rung:
        return self._rungs.setdefault(group, {}).setdefault(level, _Rung())


def scheduler_of(spec: ScheduleSpec) -> NoEarlyStopping:
    """The scheduler of a sweep."""
    return NoEarlyStopping() if spec.kind == "none" else _SCHEDULERS[spec.kind](spec)


_SCHEDULERS = {"asha": Asha}
