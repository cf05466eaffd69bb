"""How far the cells of a search run: schedulers rank the replicates of a cell together, by the mean of their scores.

A cell is named by its id, `time` is in what the sweep counts (epochs or examples), `group` is its objective group, and
only cells of one group are ranked against each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.sweeps.search_spec import ScheduleSpec


class Scheduler(Protocol):
    """Ranks cells."""

    def until(self, cell: str, group: Hashable, end: float) -> float | None:
        """The time at which the trials of a cell pause next, or None if they run to their `end`."""
        ...

    def reached(self, cell: str, score: float) -> None:
        """All replicates of a cell have paused there, with this mean of their best scores."""
        ...

    def promoted(self) -> str | None:
        """A paused cell that goes on now."""
        ...

    def closed(self) -> None:
        """There will be no further cells."""
        ...

    def left(self, cell: str) -> None:
        """A cell will not reach where it was to pause: its trials failed or ended before."""
        ...

    def goes_on(self, cell: str, group: Hashable, seed: int, time: float, score: float) -> bool:
        """Whether a trial goes on, asked at each of its evaluations."""
        ...


class ToTheEnd:
    """Every cell runs to its end."""

    def until(self, cell: str, group: Hashable, end: float) -> float | None:
        """Nothing pauses."""
        return None

    def reached(self, cell: str, score: float) -> None:
        """Never called."""

    def promoted(self) -> str | None:
        """Nothing is paused."""
        return None

    def closed(self) -> None:
        """Nothing changes."""

    def left(self, cell: str) -> None:
        """Nothing changes."""

    def goes_on(self, cell: str, group: Hashable, seed: int, time: float, score: float) -> bool:
        """Always."""
        return True


@dataclass
class _Rung:
    """Cells that have reached a time: their scores, those on their way there, and those that went on."""

    scores: dict[str, float] = field(default_factory=dict)
    on_the_way: set[str] = field(default_factory=set)
    promoted: set[str] = field(default_factory=set)

    def best(self, n: int) -> Iterator[str]:
        """Those of the best `n` that have not gone on; of equals the first to come."""
        ranked = sorted(self.scores, key=lambda cell: -self.scores[cell])[:n]
        return (cell for cell in ranked if cell not in self.promoted)


class Asha(ToTheEnd):
    """Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter tuning", 2020).

    A cell pauses at `first`, `first * factor`, `first * factor^2`, ... Whenever there is room, rungs are searched from
    the highest down for a cell that is among the best `1 / factor` of those there and has not gone on. When no further
    cell comes and a rung has fewer than `factor`, its best one goes on all the same, so that something reaches its end.
    """

    def __init__(self, spec: ScheduleSpec) -> None:
        self._first, self._factor = spec.first, spec.factor
        self._level: dict[str, int] = {}
        self._groups: dict[str, Hashable] = {}
        self._rungs: dict[Hashable, dict[int, _Rung]] = {}
        self._closed = False

    def until(self, cell: str, group: Hashable, end: float) -> float | None:
        """The cell's next rung, if that is before its end."""
        level = self._level.setdefault(cell, 0)
        self._groups[cell] = group
        time = self._first * self._factor**level
        if time >= end - 1e-9:
            return None
        self._rung(group, level).on_the_way.add(cell)
        return time

    def reached(self, cell: str, score: float) -> None:
        """The cell is ranked with those at its rung."""
        rung = self._rung(self._groups[cell], self._level[cell])
        rung.on_the_way.discard(cell)
        rung.scores[cell] = score

    def left(self, cell: str) -> None:
        """Its rung does not wait for it."""
        if cell in self._level:
            self._rung(self._groups[cell], self._level[cell]).on_the_way.discard(cell)

    def closed(self) -> None:
        """The lowest rung grows no more."""
        self._closed = True

    def promoted(self) -> str | None:
        """The best that may go on, from the highest rung down."""
        levels = [(level, rung) for rungs in self._rungs.values() for level, rung in rungs.items()]
        for level, rung in sorted(levels, key=lambda one: -one[0]):
            cell = next(rung.best(self._quota(rung)), None)
            if cell is not None:
                rung.promoted.add(cell)
                self._level[cell] = level + 1
                return cell
        return None

    def _quota(self, rung: _Rung) -> int:
        """How many of a rung go on."""
        n = int(len(rung.scores) / self._factor)
        is_last = self._closed and not any(r.on_the_way for rungs in self._rungs.values() for r in rungs.values())
        return max(n, 1) if is_last else n

    def _rung(self, group: Hashable, level: int) -> _Rung:
        return self._rungs.setdefault(group, {}).setdefault(level, _Rung())


class Halving(Asha):
    """Successive halving (Jamieson and Talwalkar 2016): a rung is ranked when all cells that come have come.

    The best `1 / factor` of it go on, rounded up.
    """

    def _quota(self, rung: _Rung) -> int:
        if not self._closed or rung.on_the_way or self._below_is_open(rung):
            return 0
        return -int(-len(rung.scores) // self._factor)

    def _below_is_open(self, rung: _Rung) -> bool:
        """Whether a lower rung of the same group still has cells on their way."""
        rungs = next(rungs for rungs in self._rungs.values() if any(rung is one for one in rungs.values()))
        level = next(level for level, one in rungs.items() if one is rung)
        return any(one.on_the_way for at, one in rungs.items() if at < level)


class Median(ToTheEnd):
    """The median stopping rule (Golovin et al., "Google Vizier", 2017).

    A cell is stopped at time t if the mean over its seeds of their best scores up to t is below the median, over the
    other cells of its group that have come as far, of the mean of all their scores up to t. It takes three others.
    """

    LEAST_OTHERS = 3

    def __init__(self, spec: ScheduleSpec) -> None:
        self._first = spec.first
        self._scores: dict[Hashable, dict[str, dict[int, dict[float, float]]]] = {}

    def goes_on(self, cell: str, group: Hashable, seed: int, time: float, score: float) -> bool:
        """Compared with the others as they are now."""
        cells = self._scores.setdefault(group, {})
        cells.setdefault(cell, {}).setdefault(seed, {})[time] = score
        if time < self._first - 1e-9:
            return True
        others = [_running_mean(seeds, time) for other, seeds in cells.items() if other != cell]
        known = [mean for mean in others if mean is not None]
        best = _mean_of_best(cells[cell], time)
        return len(known) < self.LEAST_OTHERS or best >= statistics.median(known)


def _up_to(curve: dict[float, float], time: float) -> list[float]:
    """The scores up to a time, of a curve that has come as far; else none."""
    return [score for at, score in curve.items() if at <= time + 1e-9] if max(curve) >= time - 1e-9 else []


def _running_mean(seeds: dict[int, dict[float, float]], time: float) -> float | None:
    means = [statistics.fmean(scores) for curve in seeds.values() if (scores := _up_to(curve, time))]
    return statistics.fmean(means) if means else None


def _mean_of_best(seeds: dict[int, dict[float, float]], time: float) -> float:
    return statistics.fmean(max(scores) for curve in seeds.values() if (scores := _up_to(curve, time)))


def scheduler_of(spec: ScheduleSpec) -> Scheduler:
    """The scheduler that a sweep asks for."""
    if spec.kind == "none":
        return ToTheEnd()
    return {"asha": Asha, "halving": Halving, "median": Median}[spec.kind](spec)
