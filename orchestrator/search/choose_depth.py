"""`goal: choose_depth`: how many layers may be frozen, found with as few seeds as it takes.

The promise: the chance that the chosen freeze truly loses more than the tolerance on average is at most 1 - confidence,
although there is a look after every seed and many depths are tried. Losses are the baseline's score less the freeze's
under the same seed, as the dashboard pairs them.

Candidates are tested from the least frozen to the most, none at a divided error, and the first that is not shown ends
the search: an order fixed before the data needs no correction (W. Maurer, L. Hothorn and W. Lehmacher 1995). Only the
first candidate that truly loses too much can make the choice wrong, whichever it is and however losses run with depth.
What a candidate is tested with holds at all looks together (`sequential`), so it does not matter either which seeds
are run when, as long as each candidate's values count in the order of the seeds. The alternative, bisection over depths
with the error divided by their number, needs no shallow depth and fewer seeds where all is clear, but at ten seeds and
12 depths (tolerance of 2 deviations) it found the deepest in 9 % of searches, the chain in 84 % (6,000 each, without
the halving below).

Each test has half of the error, as the dashboard's after-the-fact choice has: a margin for skewed losses, of which a
few values say little. By simulation (`python -m tests.benchmarks.choose_depth`, worst case: the first bad depth loses
the tolerance exactly, or a hair more), error 5 %, three to ten seeds: 1 % of searches on normal losses, 4 % at a
skewness of 1.75, 6 % with an exponential tail. What no margin holds is a collapse so rare that the first seeds do not
show it: where one seed in six loses six tolerances and the others nothing, 33 to 40 % of searches that know the
score's step take that for harmless, 23 % with `min_seeds` of 8.

A seed may break (a trial diverged or failed): it is told as NaN, left out and counted, because the mean of those that
did not break is the mean of the lucky ones. All losses equal are no certainty, as in the dashboard: on a small dev set
they are frequent. Where the step of the score is known (`DepthGoal.resolution`), equal losses are given the spread of
rare single items (`DepthGoal.floor`), and can be judged if the step is a small part of the tolerance.

Raising `max_seeds` after the last look asks again: it adds at most the error of the new looks, at 10 to 20 seeds (first
look at 3) ten eighteenths of that of the first search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orchestrator.analysis.sequential import Looks, Reading, Verdict, chance_within, further_values, read

Losses = Mapping[int, float]
Why = Literal["all_within", "beyond", "hopeless", "no_spread", "seeds_used", "open"]

HOPELESS = 0.02  # chance to be shown by the last look below which no seed is spent: ended 3 of 1,000 searches too early
UNSEEN = 0.7  # stands for that chance where fewer than two values, or no spread, say nothing of it


@dataclass(frozen=True)
class DepthGoal:
    """What is asked.

    Attributes:
        tolerance: The largest mean loss that is acceptable, in the score's unit (0.005 is half a point), at least 0.
        confidence: One less the chance that the chosen freeze loses more; 0.5 < confidence < 1.
        min_seeds: Values of a candidate at its first look, at least 2. Three let clear cases end early.
        max_seeds: Values at its last look, at most 100.
        resolution: The least step of the score (one by the number of dev items); 0 if unknown.

    Raises:
        ValueError: With all that is out of range.
    """

    tolerance: float
    confidence: float = 0.95
    min_seeds: int = 3
    max_seeds: int = 10
    resolution: float = 0.0

    def __post_init__(self) -> None:
        rules = [
            (0 <= self.tolerance < math.inf, f"tolerance: {self.tolerance:g} must be 0 or more"),
            (0.5 < self.confidence < 1, f"confidence: {self.confidence:g} must be between 0.5 and 1"),
            (self.min_seeds >= 2, f"min_seeds: {self.min_seeds} must be 2 or more, a spread needs two values"),
            (
                self.min_seeds <= self.max_seeds <= 100,
                f"max_seeds: {self.max_seeds} must be between min_seeds ({self.min_seeds}) and 100",
            ),
            (0 <= self.resolution < math.inf, f"resolution: {self.resolution:g} must be 0 or more"),
        ]
        if wrong := [text for holds, text in rules if not holds]:
            raise ValueError("; ".join(wrong))

    @property
    def looks(self) -> Looks:
        """When a candidate is looked at; each of its two ends has half of the error."""
        return Looks(self.min_seeds, self.max_seeds, (1 - self.confidence) / 2)

    @property
    def floor(self) -> float:
        """The spread believed of losses that are all equal.

        A mean loss of the tolerance is `tolerance / resolution` items more wrong than right, and a difference of two
        counts of rare items varies by at least its mean (Poisson): in the score's unit sqrt(tolerance * resolution).
        """
        return math.sqrt(self.tolerance * self.resolution)


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
        verdict: Within the tolerance, beyond it, or undecided.
        n: Losses that count: scored, and with no seed missing before them.
        mean: Their mean; NaN without one.
        std: Their spread, `DepthGoal.floor` where all are equal; NaN below two.
        low, high: Interval of the mean loss that holds at all looks together, at the goal's confidence; infinite before
            the first look. `within` is `high <= tolerance`, `beyond` is `low > tolerance`.
        broken: Seeds that were run and have no score.
    """

    verdict: Verdict
    n: int
    mean: float
    std: float
    low: float
    high: float
    broken: int


@dataclass(frozen=True)
class Answer:
    """What was found.

    Attributes:
        chosen: The deepest candidate shown to be within the tolerance, with all before it; None if none was.
        known: Of every candidate, in their order.
        why: Why the search ended: all are within; the next deeper one is `beyond`; it has next to no chance to be shown
            by the last look (`hopeless`); its losses are all equal (`no_spread`); its seeds are used up; or it is
            `open`, and somebody asked before the search's end.
        further_seeds: About how many more seeds would decide the next deeper candidate, if it is undecided: in three of
            four searches planned for so many, if its true loss and spread are the observed ones. None if it is decided,
            without a spread to tell by, or `too_near`.
    """

    chosen: int | None
    known: tuple[Known, ...]
    why: Why
    further_seeds: int | None

    @property
    def next(self) -> int | None:
        """The candidate that ended the search; None where all are within."""
        after = 0 if self.chosen is None else self.chosen + 1
        return after if after < len(self.known) else None

    @property
    def too_near(self) -> bool:
        """Whether the next deeper mean is so near the tolerance that `MOST_VALUES` seeds would not tell them apart."""
        undecided = self.next is not None and self.known[self.next].verdict == "undecided"
        return undecided and self.further_seeds is None and self.known[self.next or 0].std > 0


def decide(goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int]) -> Spend | Answer:
    """The next seeds to run, or the answer.

    `losses` are those of each candidate known so far by seed, candidates from the least frozen to the most; NaN for a
    seed that broke. `seeds` is the order in which seeds are taken, fixed before any was run; it may hold more than
    `max_seeds`, to replace broken ones. The same arguments give the same answer, whatever came first.

    Raises:
        ValueError: A seed stands twice, a loss is infinite or of a seed that is not listed.
    """
    search = _Search(goal, losses, seeds)
    wants = search.wants()
    return Spend(tuple(wants)) if wants else search.answer()


def answer(goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int]) -> Answer:
    """What is known now, where a budget is used up before the search is. Arguments and errors as of `decide`."""
    return _Search(goal, losses, seeds).answer()


class _Search:
    """One look at all candidates."""

    def __init__(self, goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int]) -> None:
        _check(losses, seeds)
        self._goal, self._losses, self._seeds = goal, losses, seeds
        self._readings = [read(_in_order(one, seeds), goal.looks, goal.tolerance, goal.floor) for one in losses]
        shown = [reading.verdict == "within" for reading in self._readings]
        self._front = shown.index(False) if False in shown else len(shown)

    def wants(self) -> list[Want]:
        """All that may be needed; empty where the candidate in front ends the search."""
        if self._why() != "open":
            return []
        found: list[Want] = []
        needed = 1.0  # the chance that the chain comes to a candidate
        for index in range(self._front, len(self._readings)):
            found += self._wants_of(index, needed)
            needed *= self._chance(index)
            if not needed:
                break
        return sorted(found, key=lambda want: -want.chance)  # stable: shallow ones and early seeds first

    def _wants_of(self, index: int, needed: float) -> list[Want]:
        reading = self._readings[index]
        if reading.verdict != "undecided":
            return []
        return [
            Want(index, seed, needed * self._still_open(reading, count - 1))
            for count, seed in self._missing(index)
            if reading.n < count <= self._goal.max_seeds
        ]

    def _missing(self, index: int) -> list[tuple[int, int]]:
        """Seeds not run, each with how many values there are with it if none before it breaks."""
        found, count = [], 0
        for seed in self._seeds:
            loss = self._losses[index].get(seed)
            count += loss is None or not math.isnan(loss)
            if loss is None:
                found.append((count, seed))
        return found

    def _still_open(self, reading: Reading, look: int) -> float:
        """Chance that the looks up to one at so many values leave a candidate open."""
        if look <= max(reading.n, self._goal.min_seeds - 1):
            return 1.0
        shown = chance_within(reading, self._goal.looks, self._goal.tolerance, look)
        return float(UNSEEN ** (look - self._goal.min_seeds + 1) if math.isnan(shown) else 1 - shown)

    def _chance(self, index: int) -> float:
        """Chance that a candidate is shown within the tolerance by the last look."""
        reading = self._readings[index]
        if reading.verdict != "undecided" or reading.n >= self._goal.max_seeds:
            return float(reading.verdict == "within")
        found = chance_within(reading, self._goal.looks, self._goal.tolerance, self._goal.max_seeds)
        return UNSEEN if math.isnan(found) else found

    def _why(self) -> Why:
        if self._front == len(self._readings):
            return "all_within"
        reading = self._readings[self._front]
        if reading.verdict == "beyond":
            return "beyond"
        if reading.n >= self._goal.max_seeds or not self._missing(self._front):
            return "no_spread" if reading.std == 0 else "seeds_used"
        hopeless = reading.n >= self._goal.min_seeds and self._chance(self._front) < HOPELESS
        return "hopeless" if hopeless else "open"

    def answer(self) -> Answer:
        """What is known now."""
        known = tuple(
            Known(r.verdict, r.n, r.mean, r.std, r.low, r.high, sum(map(math.isnan, one.values())))
            for r, one in zip(self._readings, self._losses, strict=True)
        )
        why = self._why()
        further = None
        if why not in ("all_within", "beyond"):
            further = further_values(self._readings[self._front], self._goal.looks, self._goal.tolerance)
        return Answer(self._front - 1 if self._front else None, known, why, further)


def _in_order(losses: Losses, seeds: Sequence[int]) -> tuple[float, ...]:
    """The scored losses in the order of the seeds, up to the first seed that was not run."""
    found: list[float] = []
    for seed in seeds:
        if seed not in losses:
            break
        if not math.isnan(losses[seed]):
            found.append(float(losses[seed]))
    return tuple(found)


def _check(losses: Sequence[Losses], seeds: Sequence[int]) -> None:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds: {list(seeds)} has a seed twice")
    for index, one in enumerate(losses):
        for seed, loss in one.items():
            if seed not in seeds:
                raise ValueError(f"candidate {index}: seed {seed} is not among the seeds {list(seeds)}")
            if math.isinf(loss):
                raise ValueError(f"candidate {index}, seed {seed}: a loss of {loss:g}; tell a broken seed as NaN")
