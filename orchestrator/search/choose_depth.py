"""`goal: choose_depth`: how many layers may be frozen, found with as few seeds as it takes.

Losses are read off the intervals of the sweep's plan (`analysis.simultaneous`), the same ones that `answer` and the
pages show: they hold for all candidates together, at every look and whatever is run when. So any policy may decide what
to run next, and no order of the candidates is needed for the error; a candidate that stays undecided does not bar the
deeper ones. This policy takes candidates from the least frozen to the most, spends seeds on each until it is decided or
hopeless, and leaves out those deeper than one that is shown to lose too much.

A seed may have no loss to count, because a trial failed or collapsed: it is passed as None, left out and replaced by a
further seed if there is one. The choice then holds for runs that do not collapse, which whoever shows it has to say.
What no margin holds is a bad seed so rare that the first seeds do not show it, and not bad enough to count as a
collapse. All losses equal are no certainty: on a small dev set they are frequent, and nothing is shown by them.

`python -m tests.benchmarks.choose_depth` simulates its errors, and what it spends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from orchestrator.analysis.decision_plan import DecisionPlan, PlannedLooks
from orchestrator.analysis.further import Further, chances_within, further
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.simultaneous import Simultaneous, simultaneous
from orchestrator.analysis.two_way import Estimate, Verdict, estimate, estimates, verdict
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
        max_seeds: Seeds planned, at most 100.
        most_seeds: As of `decision_plan.DecisionPlan`.

    Raises:
        ValueError: With all that is out of range.
    """

    tolerance: float
    confidence: float = 0.95
    min_seeds: int = 3
    max_seeds: int = 10
    most_seeds: int | None = None

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
    def plan(self) -> DecisionPlan:
        """The plan that its intervals follow."""
        return DecisionPlan(
            tolerance=100 * self.tolerance, error=round(1 - self.confidence, 12), most_seeds=self.most_seeds,
            min_seeds=self.min_seeds,
        )  # fmt: skip

    @property
    def looks(self) -> PlannedLooks:
        """When a candidate is looked at."""
        return self.plan.looks(self.max_seeds)


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
    """What is known of one candidate.

    Attributes:
        verdict: Read off the interval.
        n: Losses that count.
        mean: The loss; NaN without one.
        low, high: The interval of the plan (`simultaneous`); infinite where there is none.
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
        chosen: The deepest candidate shown to be within the tolerance, of those worth having; None if none was.
        known: Of every candidate, in their order.
        why: Why nothing deeper was chosen: all are within; the next one is shown to lose more (`beyond`); it has next
            to no chance to be shown by the last look (`hopeless`); its losses are all equal (`no_spread`); its seeds
            are used up; or it is `open`, and somebody asked before the search's end.
        further: What would decide the next candidate, if it is undecided; None if it is decided, or without a spread to
            tell by.
    """

    chosen: int | None
    known: tuple[Known, ...]
    why: Why
    further: Further | None

    @property
    def next(self) -> int | None:
        """The next deeper candidate than the chosen one; None where the deepest is chosen."""
        after = 0 if self.chosen is None else self.chosen + 1
        return after if after < len(self.known) else None


def decide(
    goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int], worth: Sequence[bool] | None = None
) -> Spend | DepthAnswer:
    """The next seeds to run, or the answer.

    `losses` are those of each candidate known so far, candidates from the least frozen to the most. `seeds` is the
    order in which seeds are taken, fixed before any was run; it may hold more than `max_seeds`, to replace those
    without a loss. `worth` says which candidates save enough to be recommended; None for all. The same arguments give
    the same answer, whatever came first.

    Raises:
        ValueError: A seed stands twice, a loss is not finite or of a seed that is not listed.
    """
    search = _Search(goal, losses, seeds, worth)
    wants = search.wants()
    return Spend(tuple(wants)) if wants else search.answer()


def answer(
    goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int], worth: Sequence[bool] | None = None
) -> DepthAnswer:
    """What is known now, where a budget is used up before the search is. Arguments and errors as of `decide`."""
    return _Search(goal, losses, seeds, worth).answer()


class _Search:
    """One look at all candidates."""

    def __init__(
        self, goal: DepthGoal, losses: Sequence[Losses], seeds: Sequence[int], worth: Sequence[bool] | None
    ) -> None:
        _check(losses, seeds)
        self._goal, self._losses, self._seeds = goal, losses, seeds
        self._worth = np.ones(len(losses), dtype=bool) if worth is None else np.array(worth, dtype=bool)
        values = [paired(one, seeds) for one in losses]
        self._of = estimates(values)
        n_run = np.array([float(len(one)) for one in losses])
        error = 1 - goal.confidence
        together = Simultaneous(np.empty(0), np.empty(0), error, "")
        if values:
            together = simultaneous(values, goal.looks, error, n_run=n_run, family=self._worth)
        self._tail = together.tail
        self._known = [
            _known(goal, each, *ends)
            for each, *ends in zip(values, together.low.tolist(), together.high.tolist(), strict=True)
        ]
        beyond = [known.verdict == "shown to lose more" for known in self._known]
        self._end = beyond.index(True) if True in beyond else len(beyond)  # deeper ones are taken to lose more
        self._chances: dict[int, Floats] = {}

    def wants(self) -> list[Want]:
        """All that may be needed; empty where no candidate is open."""
        found: list[Want] = []
        needed = 1.0  # the chance that it comes to a candidate
        for index in range(self._end):
            if self._why(index) == "open" and self._worth[index]:
                found += self._wants_of(index, needed)
                needed *= self._chance(index)
        return sorted(found, key=lambda want: -want.chance)  # stable: shallow ones and early seeds first

    def _wants_of(self, index: int, needed: float) -> list[Want]:
        known = self._known[index]
        return [
            Want(index, seed, needed * self._still_open(index, count - 1))
            for count, seed in self._missing(index)
            if known.n < count <= self._goal.max_seeds
        ]

    def _missing(self, index: int) -> list[tuple[int, int]]:
        """Seeds not run, each with how many losses there are with it if none before it is left out."""
        count, found = self._known[index].n, []
        for seed in self._seeds:
            if seed not in self._losses[index]:
                count += 1
                found.append((count, seed))
        return found

    def _still_open(self, index: int, look: int) -> float:
        """Chance that the looks up to one at so many losses leave a candidate open."""
        if look <= max(self._known[index].n, self._goal.min_seeds - 1):
            return 1.0
        shown = self._chance_at(index, look)
        return float(UNSEEN ** (look - self._goal.min_seeds + 1) if shown is None else 1 - shown)

    def _chance(self, index: int) -> float:
        """Chance that an open candidate is shown within the tolerance by its last seed."""
        chance = self._chance_at(index, self._goal.max_seeds)
        return UNSEEN if chance is None else chance

    def _chance_at(self, index: int, look: int) -> float | None:
        """Chance that a later look shows a candidate within the tolerance; None where nothing is known of it."""
        n = self._known[index].n
        if n < 2 or not self._known[index].has_spread:
            return None
        if index not in self._chances:
            goal = self._goal
            self._chances[index] = chances_within(self._one(index), goal.looks, goal.tolerance, self._tail)
        return float(self._chances[index][look - n - 1]) if n < look <= self._goal.looks.most else None

    def _one(self, index: int) -> Estimate:
        return Estimate(*(each[index] for each in self._of))

    def _why(self, index: int) -> Why:
        known = self._known[index]
        if known.verdict != "not decided":
            return "all_within" if known.verdict == "shown to lose at most the tolerance" else "beyond"
        if known.n >= self._goal.max_seeds or not self._missing(index):
            return "no_spread" if known.n > 1 and not known.has_spread else "seeds_used"
        hopeless = known.n >= self._goal.min_seeds and self._chance(index) < HOPELESS
        return "hopeless" if hopeless else "open"

    def answer(self) -> DepthAnswer:
        """What is known now."""
        within = [known.verdict == "shown to lose at most the tolerance" for known in self._known]
        shown = [index for index, is_within in enumerate(within) if is_within and self._worth[index]]
        chosen = shown[-1] if shown else None
        after = 0 if chosen is None else chosen + 1
        why: Why = self._why(after) if after < len(self._known) else "all_within"
        more = None
        if why not in ("all_within", "beyond") and self._known[after].has_spread:
            more = further(self._one(after), self._goal.looks, self._goal.tolerance, self._tail)
        return DepthAnswer(chosen, tuple(self._known), why, more)


def paired(losses: Losses, seeds: Sequence[int]) -> Floats:
    """(seeds, sentences) losses in the order of the seeds; (seeds, 1) where contributions are not known of all."""
    return stacked([loss for seed in seeds if (loss := losses.get(seed)) is not None])


def _known(goal: DepthGoal, values: Floats, low: float, high: float) -> Known:
    n = len(values)
    return Known(
        verdict=verdict(low, high, goal.tolerance),
        n=n,
        mean=float(values.mean()) if n else math.nan,
        low=low if math.isfinite(high) else -math.inf,
        high=high if math.isfinite(high) else math.inf,
        n_sentences=values.shape[1] if values.shape[1] > 1 else None,
        has_spread=n > 1 and bool(estimate(values).variance > 0),
    )


def _check(losses: Sequence[Losses], seeds: Sequence[int]) -> None:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds: {list(seeds)} has a seed twice")
    for index, one in enumerate(losses):
        for seed, loss in one.items():
            if seed not in seeds:
                raise ValueError(f"candidate {index}: seed {seed} is not among the seeds {list(seeds)}")
            if loss is not None and not np.isfinite(loss).all():
                raise ValueError(f"candidate {index}, seed {seed}: a loss is not finite; pass a failed seed as None")
