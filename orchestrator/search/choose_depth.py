"""`goal: choose_depth`: how many layers may be frozen, found with as few seeds as it takes.

The promise: the chance that the chosen freeze truly loses more than the tolerance is at most 1 - confidence, although
there is a look after every seed and many depths are tried. Losses are the baseline's score less the freeze's under the
same seed, and the true loss is their mean over seeds and over sentences like those of the dev set (`two_way`); where
contributions of sentences are not stored, over seeds on this dev set.

Candidates are tested from the least frozen to the most, none at a divided error, and the first that is not shown ends
the search: an order fixed before the data needs no correction (W. Maurer, L. Hothorn and W. Lehmacher 1995). Only the
first candidate that truly loses too much can make the choice wrong, whichever it is and however losses run with depth.
The intervals that decide hold at all looks together (`looks`), so it does not matter either which seeds are run when,
as long as each candidate's losses count in the order of the seeds. Each end of an interval has half of the error.

By simulation (`python -m tests.lab.benchmarks.choose_depth`, 1,000 searches a row) at 95 % confidence and three to ten
seeds, in the worst case: two harmless depths, then one that loses a hair more than the tolerance. The deviation of a
seed is 0.4 tolerances, that left by 500 sentences 0.15. In brackets the procedure that this one replaced, which knew
seeds alone, spent the error evenly over the looks and corrected for the skewness that it saw:

| losses | too deep | finds the deepest | pairs of 50 |
|---|---|---|---|
| of seeds: normal | 0.4 % (1.5) | 99 % (93) | 20 (17) |
| of seeds: skewness 1.75 | 3.0 % (4.0) | 91 % (64) | 20 (16) |
| of seeds: exponential | 5.0 % (5.8) | 88 % (57) | 20 (15) |
| of seeds and sentences: normal | 0.5 % | 89 % | 19 |
| of seeds and sentences: skewness 1.75 | 1.1 % | 86 % | 17 |
| of seeds and sentences: exponential | 1.4 % | 85 % | 17 |
| mostly of sentences: 0.1 tolerances by seed, 0.3 by sentence | 1.3 % | 66 % | 13 |

Losses that spread by a tolerance take more than ten seeds: the deepest of six freezes is found in 6 % of searches with
up to 10 seeds (12), in 61 % with up to 20 (70).

A seed may have no loss to count, because a trial failed or collapsed: it is passed as None, left out and replaced by a
further seed if there is one. The choice then holds for runs that do not collapse, which whoever shows it has to say.
What no margin holds is a bad seed so rare that the first seeds do not show it, and not bad enough to count as a
collapse: where one seed in six loses six tolerances and the others nothing, 43 % of searches take that for harmless.
All losses equal are no certainty: on a small dev set they are frequent, and nothing is shown by them.

Raising `max_seeds` after the last look asks again, at looks that were not planned: it adds an error of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from orchestrator.analysis.further import Further, chances_within, further
from orchestrator.analysis.looks import PlannedLooks, readings
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import Estimate, Verdict, estimate
from orchestrator.search.trial_results import stacked

Losses = Mapping[int, Floats | None]
"""Of one candidate by seed: (sentences,) paired contributions whose mean is the loss, (1,) where only the loss is
known, None for a seed that was run and has no loss to count."""

Why = Literal["all_within", "beyond", "hopeless", "no_spread", "seeds_used", "open"]

HOPELESS = 0.02  # chance to be shown by the last look below which no seed is spent: ended none of 2,000 too early
UNSEEN = 0.7  # stands for that chance where fewer than two losses, or no spread, say nothing of it


@dataclass(frozen=True)
class DepthGoal:
    """What is asked.

    Attributes:
        tolerance: The largest mean loss that is acceptable, in the score's unit (0.005 is half a point), at least 0.
        confidence: One less the chance that the chosen freeze loses more; 0.5 < confidence < 1.
        min_seeds: Losses of a candidate at its first look, at least 2. Three let clear cases end early.
        max_seeds: Losses at its last look, at most 100.

    Raises:
        ValueError: With all that is out of range.
    """

    tolerance: float
    confidence: float = 0.95
    min_seeds: int = 3
    max_seeds: int = 10

    def __post_init__(self) -> None:
        rules = [
            (0 <= self.tolerance < math.inf, f"tolerance: {self.tolerance:g} must be 0 or more"),
            (0.5 < self.confidence < 1, f"confidence: {self.confidence:g} must be between 0.5 and 1"),
            (self.min_seeds >= 2, f"min_seeds: {self.min_seeds} must be 2 or more, a spread needs two values"),
            (
                self.min_seeds <= self.max_seeds <= 100,
                f"max_seeds: {self.max_seeds} must be between min_seeds ({self.min_seeds}) and 100",
            ),
        ]
        if wrong := [text for holds, text in rules if not holds]:
            raise ValueError("; ".join(wrong))

    @property
    def looks(self) -> PlannedLooks:
        """When a candidate is looked at."""
        return PlannedLooks(self.min_seeds, self.max_seeds)

    @property
    def tail(self) -> float:
        """The chance beyond each end of a candidate's interval, over all looks."""
        return (1 - self.confidence) / 2


class Want(NamedTuple):
    """A pair to run: the candidate's index, the seed, and the chance that its loss will be needed."""

    candidate: int
    seed: int
    chance: float


@dataclass(frozen=True)
class Spend:
    """What to run next: all that may be needed, the most needed first; a caller takes as many as it has room for.

    The first has chance 1. Seeds are not run twice: what runs already is among them, and skipped by the caller.
    """

    wants: tuple[Want, ...]


@dataclass(frozen=True)
class Known:
    """What is known of one candidate, for itself: its verdict errs with at most half of the error to either side.

    Attributes:
        verdict: Read off the interval by the first look that showed something.
        n: Losses that count: known, with no seed missing before them.
        mean: The loss; NaN without one.
        low, high: Interval of the true loss that holds at all looks together, at the goal's confidence; infinite before
            the first look, and where there was no spread to judge by.
        n_sentences: Sentences that the interval ranges over besides the seeds; None where it is over seeds alone.
        has_spread: Whether the losses differ at all.
    """

    verdict: Verdict
    n: int
    mean: float
    low: float
    high: float
    n_sentences: int | None
    has_spread: bool


@dataclass(frozen=True)
class DepthAnswer:
    """The result.

    Attributes:
        chosen: The deepest candidate shown to be within the tolerance, with all before it; None if none was.
        known: Of every candidate, in their order.
        why: Why the search ended: all are within; the next deeper one is shown to lose more (`beyond`); it has next to
            no chance to be shown by the last look (`hopeless`); its losses are all equal (`no_spread`); its seeds are
            used up; or it is `open`, and somebody asked before the search's end.
        further: What would decide the next deeper candidate, if it is undecided; None if it is decided, or without a
            spread to tell by.
    """

    chosen: int | None
    known: tuple[Known, ...]
    why: Why
    further: Further | None

    @property
    def next(self) -> int | None:
        """The candidate that ended the search; None where all are within."""
        after = 0 if self.chosen is None else self.chosen + 1
        return after if after < len(self.known) else None


def decide(goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int]) -> Spend | DepthAnswer:
    """The next seeds to run, or the answer.

    `losses` are those of each candidate known so far, candidates from the least frozen to the most. `seeds` is the
    order in which seeds are taken, fixed before any was run; it may hold more than `max_seeds`, to replace those
    without a loss. The same arguments give the same answer, whatever came first.

    Raises:
        ValueError: A seed stands twice, a loss is not finite or of a seed that is not listed.
    """
    search = _Search(goal, losses, seeds)
    wants = search.wants()
    return Spend(tuple(wants)) if wants else search.answer()


def answer(goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int]) -> DepthAnswer:
    """What is known now, where a budget is used up before the search is. Arguments and errors as of `decide`."""
    return _Search(goal, losses, seeds).answer()


class _Search:
    """One look at all candidates."""

    def __init__(self, goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int]) -> None:
        _check(losses, seeds)
        self._goal, self._losses, self._seeds = goal, losses, seeds
        values = [paired(one, seeds)[: goal.max_seeds] for one in losses]
        self._looks = [_look(goal, each.tobytes(), each.shape[1]) for each in values]
        self._known = [look.known for look in self._looks]
        shown = [known.verdict == "shown to lose at most the tolerance" for known in self._known]
        self._front = shown.index(False) if False in shown else len(shown)

    def wants(self) -> list[Want]:
        """All that may be needed; empty where the candidate in front ends the search."""
        if self._why() != "open":
            return []
        found: list[Want] = []
        needed = 1.0  # the chance that the chain comes to a candidate
        for index in range(self._front, len(self._known)):
            found += self._wants_of(index, needed)
            needed *= self._chance(index)
            if not needed:
                break
        return sorted(found, key=lambda want: -want.chance)  # stable: shallow ones and early seeds first

    def _wants_of(self, index: int, needed: float) -> list[Want]:
        known = self._known[index]
        if known.verdict != "not decided":
            return []
        return [
            Want(index, seed, needed * self._still_open(index, count - 1))
            for count, seed in self._missing(index)
            if known.n < count <= self._goal.max_seeds
        ]

    def _missing(self, index: int) -> list[tuple[int, int]]:
        """Seeds not run, each with how many losses there are with it if none before it is left out."""
        found, count = [], 0
        for seed in self._seeds:
            is_run = seed in self._losses[index]
            count += not is_run or self._losses[index][seed] is not None
            if not is_run:
                found.append((count, seed))
        return found

    def _still_open(self, index: int, look: int) -> float:
        """Chance that the looks up to one at so many losses leave a candidate open."""
        if look <= max(self._known[index].n, self._goal.min_seeds - 1):
            return 1.0
        shown = self._chance_at(index, look)
        return float(UNSEEN ** (look - self._goal.min_seeds + 1) if shown is None else 1 - shown)

    def _chance(self, index: int) -> float:
        """Chance that a candidate is shown within the tolerance by the last look."""
        known = self._known[index]
        if known.verdict != "not decided" or known.n >= self._goal.max_seeds:
            return float(known.verdict == "shown to lose at most the tolerance")
        chance = self._chance_at(index, self._goal.max_seeds)
        return UNSEEN if chance is None else chance

    def _chance_at(self, index: int, look: int) -> float | None:
        """Chance that a later look shows a candidate within the tolerance; None where nothing is known of it."""
        chances = self._looks[index].chances
        return chances[look - self._known[index].n - 1] if chances else None

    def _why(self) -> Why:
        if self._front == len(self._known):
            return "all_within"
        known = self._known[self._front]
        if known.verdict == "shown to lose more":
            return "beyond"
        if known.n >= self._goal.max_seeds or not self._missing(self._front):
            return "no_spread" if known.n > 1 and not known.has_spread else "seeds_used"
        hopeless = known.n >= self._goal.min_seeds and self._chance(self._front) < HOPELESS
        return "hopeless" if hopeless else "open"

    def answer(self) -> DepthAnswer:
        """What is known now."""
        why, more = self._why(), None
        if why not in ("all_within", "beyond") and (of := self._looks[self._front].estimate) is not None:
            more = further(of, self._goal.looks, self._goal.tolerance, self._goal.tail)
        return DepthAnswer(self._front - 1 if self._front else None, tuple(self._known), why, more)


def paired(losses: Losses, seeds: Sequence[int]) -> Floats:
    """(seeds, sentences) losses in the order of the seeds, up to the first seed that was not run.

    (seeds, 1) where the contributions of sentences are not known of every seed.
    """
    values: list[Floats] = []
    for seed in seeds:
        if seed not in losses:
            break
        if (loss := losses[seed]) is not None:
            values.append(loss)
    return stacked(values)


class _Look(NamedTuple):
    """What losses say, their estimate (None without a variance), and the chances of later looks to show them within."""

    known: Known
    estimate: Estimate | None = None
    chances: tuple[float, ...] = ()


@lru_cache(maxsize=64)  # a search asks again after every seed, and one candidate has changed
def _look(goal: DepthGoal, losses: bytes, n_sentences: int) -> _Look:
    """A look at (seeds, sentences) losses."""
    values = np.frombuffer(losses).reshape(-1, n_sentences)
    if not len(values):
        return _Look(Known("not decided", 0, math.nan, -math.inf, math.inf, None, has_spread=False))
    last, of = readings(values, goal.looks, goal.tolerance, goal.tail)[-1], estimate(values)
    known = Known(
        verdict=last.verdict,
        n=last.n_seeds,
        mean=last.mean,
        low=last.low,
        high=last.high,
        n_sentences=n_sentences if n_sentences > 1 else None,
        has_spread=bool(of.variance > 0),
    )
    if not known.has_spread:
        return _Look(known)
    return _Look(known, of, tuple(chances_within(of, goal.looks, goal.tolerance, goal.tail).tolist()))


def _check(losses: Sequence[Losses], seeds: Sequence[int]) -> None:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds: {list(seeds)} has a seed twice")
    for index, one in enumerate(losses):
        for seed, loss in one.items():
            if seed not in seeds:
                raise ValueError(f"candidate {index}: seed {seed} is not among the seeds {list(seeds)}")
            if loss is not None and not np.isfinite(loss).all():
                raise ValueError(f"candidate {index}, seed {seed}: a loss is not finite; pass a failed seed as None")
