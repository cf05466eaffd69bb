"""`goal: choose_depth`: how many layers may be frozen, found with as few seeds as it takes; and a curve of all depths.

Losses are read off the intervals of the sweep's plan (`analysis.looks`), the same ones that `answer` and the
pages show: they hold for all freezes worth having together, at every look and whatever is run when. So any policy may
decide what to run next, and a freeze that stays undecided bars no other.

This policy first runs `min_seeds` seeds of depths that span the encoder (`spread`), seed by seed and the cheapest
first: a curve. Then seeds go to the freeze that saves most of those with a fair chance to be shown: if it is shown,
none that saves less is needed, and if not, its baselines serve the next one. Where no chance is fair, chance times what
is saved beyond the present choice, for its price, decides. Where a time is given, the search goes on until it is over
or nothing is open: then depths that have no seeds get theirs, and last come freezes with hardly a chance.

By simulation of whole searches (`python -m tests.lab.benchmarks.choose_depth --searches 300`; five depths, at most ten
seeds, so 60 trials in a full grid; losses of seeds spread by 0.4 tolerances, those of all depths share half of it). The
grid is judged at one look, so its intervals are shorter: who looks as trials come in has to pay for it. This table
was made before settings with unequal numbers of seeds kept their correlation, which shortens intervals of searches.

| losses | chosen in error | the deepest harmless found | trials | full grid: in error, found |
|---|---|---|---|---|
| two harmless, one a hair beyond, one harmless, one far beyond: normal | 0 % (0 to 1.3) | 50 % | 33 | 0 %, 74 % |
| the same, exponential | 0.3 % (0.1 to 1.9) | 61 % | 29 | 0 %, 71 % |
| the same, skewness 1.75, 500 sentences | 0 % (0 to 1.3) | 44 % | 30 | 0 %, 62 % |
| the same, normal, at most twenty seeds | 0 % (0 to 1.3) | 100 % | 37 | 0 %, 100 % of 120 trials |
| all a hair beyond: normal | 0 % (0 to 1.3) | none is | 20 | 0.3 % |
| all a hair beyond: exponential | 6.0 % (3.8 to 9.3) | none is | 23 | 6.7 % |
| all a hair beyond: mostly sentences | 0 % (0 to 1.3) | none is | 16 | 2.0 % |
| two harmless, the others a hair beyond: exponential | 3.7 % (2.1 to 6.4) | 63 % | 32 | 4.0 %, 71 % |

The deepest harmless freeze found after so many trials, where what is within the tolerance is clear (spread 0.33
tolerances; 100 searches each, of which none chose a freeze that loses more):

| losses of the depths, in tolerances | seeds at most | after 30 trials | after 40 | after 60 | full grid, one look |
|---|---|---|---|---|---|
| 0, 0.05, 0.1, 0.15, 0.3, 2.5, 4 | 10 | 26 % | 41 % | 41 % | 72 % of 80 trials |
| | 15 | 6 % | 89 % | 96 % | 100 % of 120 |
| 0, 0.02, 0.08, 0.17, 2, 3 | 10 | 48 % | 70 % | 70 % | 95 % of 70 |
| | 15 | 12 % | 98 % | 100 % | 100 % of 105 |

With ten seeds a search that weighs chance times saving for its price, as it did before, finds 9 and 18 % after 30
trials and 32 and 64 % after 40 (200 searches each; this order 22 and 45 %, 40 and 72 % at the same draws). With all its
seeds a search finds what a grid under the same plan of looks finds: the rest of the way to the grid's single look is
the price of looking, not of the order. Seeds planned for the last look (`max_seeds`) buy it back, few of which are run.

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
from typing import Literal, NamedTuple

import numpy as np

from orchestrator.analysis.decision_plan import DecisionPlan, PlannedLooks
from orchestrator.analysis.looks import Further, chances_within, further, simultaneous
from orchestrator.analysis.rows import ROUNDING, Floats
from orchestrator.analysis.two_way import Estimate, Folds, Sample, Verdict, estimate, estimates, verdict
from orchestrator.search.trial_results import stacked

Losses = Mapping[int, Floats | None]
"""Of one candidate by seed: (sentences,) paired contributions whose mean is the loss, (1,) where only the loss is
known, None for a seed that was run and has no loss to count."""

Why = Literal["decided", "hopeless", "no_spread", "seeds_used", "open"]

HOPELESS = 0.02  # chance to be shown by the last look below which no seed is spent, unless there is time for it
FAIR = 0.1  # chance from which on a freeze is tried before all that save less
SPREAD = (0.0, 1 / 3, 2 / 3, 1.0)  # of the depths, for the curve
POINTS = 100.0  # of a score of 1
NO_SPREAD = 0.1  # stands for that chance where all losses are equal
WITHIN, BEYOND = "shown to lose at most the tolerance", "shown to lose more"


@dataclass(frozen=True)
class DepthGoal:
    """What is asked: the plan that the sweep's answers go by, and how many seeds are planned, at most 100."""

    plan: DecisionPlan
    max_seeds: int = 10

    @property
    def tolerance(self) -> float:
        """The largest mean loss that is acceptable, in the score's unit."""
        return self.plan.tolerance / POINTS

    @property
    def looks(self) -> PlannedLooks:
        """When a candidate is looked at."""
        return self.plan.looks(self.max_seeds)


@dataclass(frozen=True)
class Budget:
    """What may still be spent.

    Attributes:
        seconds: Of all slots together; None where no time was given, and the search is to be short.
        trials: None for no limit.
        of_trial: Seconds that a trial takes, the baseline's, then each candidate's; empty where nothing is known.
    """

    seconds: float | None = None
    trials: int | None = None
    of_trial: Sequence[float] = ()


class Want(NamedTuple):
    """A pair to run: the candidate's index, the seed, and the chance that its loss will be needed."""

    candidate: int
    seed: int
    chance: float


@dataclass(frozen=True)
class Spend:
    """What to run next, in this order; a caller takes as many as it has room for.

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
        low, high: The interval of the plan (`looks`); infinite where there is none.
        n_sentences: Sentences that the interval ranges over besides the seeds; None where it is over seeds alone.
        n_documents: Documents of these sentences; None where they are not known.
        has_spread: Whether the losses differ at all.
        items: What one of the sample beside the seeds is called.
    """

    verdict: Verdict
    n: int
    mean: float
    low: float
    high: float
    n_sentences: int | None
    n_documents: int | None
    has_spread: bool
    items: str = "dev sentence"


@dataclass(frozen=True)
class DepthAnswer:
    """The result.

    Attributes:
        chosen: The candidate that saves most of those shown to be within the tolerance; None if none was.
        known: Of every freeze, in their order.
        open: Freezes that save more than the chosen one, and enough, and are undecided; the least frozen first.
        why: Why the search ended: nothing is open (`decided`); what is open has next to no chance to be shown by the
            last look (`hopeless`), lost the same under every seed (`no_spread`), or has used up its seeds; or it is
            `open`, and somebody asked before the search's end.
        nearest: The open freeze that the fewest seeds would decide, or of which most is known; None without one.
        further: What would decide that one; None without a spread to tell by.
    """

    chosen: int | None
    known: tuple[Known, ...]
    open: tuple[int, ...]
    why: Why
    nearest: int | None
    further: Further | None


def decide(
    goal: DepthGoal,
    losses: Sequence[Losses],
    seeds: Sequence[int],
    savings: Sequence[float],
    budget: Budget = Budget(),
    sizes: Sample | None = None,
) -> Spend | DepthAnswer:
    """The next seeds to run, or the answer.

    Args:
        goal: What is asked.
        losses: Those known so far of each freeze, from the least frozen to the most.
        seeds: The order in which seeds are taken, fixed before any was run; it may hold more than `max_seeds`, to
            replace those without a loss.
        savings: The share of the baseline's cost that each freeze saves, known before anything ran.
        budget: What may still be spent.
        sizes: (documents,) sentences of each, where losses are of documents, or the folds that seeds are scored on; as
            of `two_way.estimate`.

    The same arguments give the same answer, whatever came first.
    """
    search = _Search(goal, losses, seeds, savings, budget, sizes)
    wants = search.wants()
    return Spend(tuple(wants)) if wants else search.answer()


def answer(
    goal: DepthGoal,
    losses: Sequence[Losses],
    seeds: Sequence[int],
    savings: Sequence[float],
    sizes: Sample | None = None,
) -> DepthAnswer:
    """What is known now, where a budget is used up before the search is. Arguments as of `decide`."""
    return _Search(goal, losses, seeds, savings, Budget(), sizes).answer()


def spread(n: int) -> list[int]:
    """Freezes of `n`, from the least frozen to the most, that span them: the ends and the thirds."""
    return sorted({round(share * (n - 1)) for share in SPREAD}) if n else []


class _Search:
    """One look at all candidates."""

    def __init__(
        self,
        goal: DepthGoal,
        losses: Sequence[Losses],
        seeds: Sequence[int],
        savings: Sequence[float],
        budget: Budget,
        sizes: Sample | None,
    ) -> None:
        assert len(savings) == len(losses), "every freeze has its saving"
        assert all(seed in seeds for of_freeze in losses for seed in of_freeze), "losses are of listed seeds"
        known_losses = [loss for of_freeze in losses for loss in of_freeze.values() if loss is not None]
        assert all(np.isfinite(loss).all() for loss in known_losses), "a failed seed is None"
        self._goal, self._losses, self._seeds, self._savings, self._budget = goal, losses, seeds, savings, budget
        values = [paired(of_freeze, seeds) for of_freeze in losses]
        worth = np.array([saving >= goal.plan.min_saving - ROUNDING for saving in savings], dtype=bool)
        self._worth = np.flatnonzero(worth).tolist()
        self._of, self._chances = estimates(values, sizes), dict[int, tuple[float, ...]]()
        self._known, self._tail = list[Known](), goal.plan.error
        if values:
            n_run = np.array([float(len(of_freeze)) for of_freeze in losses])
            intervals = simultaneous(values, goal.looks, self._tail, n_run=n_run, family=worth, sizes=sizes)
            self._tail, self._of = intervals.tail, intervals.of
            ends = zip(values, intervals.low.tolist(), intervals.high.tolist(), strict=True)
            self._known = [_known(goal, sizes, *of_freeze) for of_freeze in ends]
        shown = [i for i in self._worth if self._known[i].verdict == WITHIN]
        self._chosen = max(shown, key=lambda i: (savings[i], i), default=None)
        least = 0.0 if self._chosen is None else savings[self._chosen]
        end = next((i for i, known in enumerate(self._known) if known.verdict == BEYOND), len(savings))
        undecided = [i for i in self._worth if self._known[i].verdict == "not decided" and savings[i] > least]
        self._open = [i for i in undecided if i < end]  # deeper ones are taken to lose more

    def wants(self) -> list[Want]:
        """What to run, in order; empty at the end of the search."""
        targets = self._targets()
        hopeful = [i for i in targets if self._chance(i) >= HOPELESS]
        order = [(want, 1.0) for want in self._curve(spread(len(self._known)))]
        for rank, i in enumerate(hopeful):
            order += [((i, seed), (1.0 if not rank else 0.49) * self._still_open(i, n)) for n, seed in self._further(i)]
        if self._budget.seconds is not None:
            order += [(want, 0.3) for want in self._curve(range(len(self._known)))]
            order += [((i, seed), 0.1) for i in targets if i not in hopeful for _, seed in self._further(i)]
        wants = dict(reversed(order))
        first = dict.fromkeys(want for want, _ in order)
        return [Want(i, seed, wants[i, seed] if at else 1.0) for at, (i, seed) in enumerate(first)]

    def _curve(self, freezes: Sequence[int]) -> list[tuple[int, int]]:
        """The first looks of these freezes, seed by seed and the cheapest first: the most frozen, if nobody knows."""
        cheap = sorted(freezes, key=lambda i: (self._seconds(i), -i))
        missing = [
            (tried, place, i, seed)  # seeds tried, not losses: one without a loss is no reason to stay at a freeze
            for place, i in enumerate(cheap)
            for tried, (count, seed) in enumerate(self._missing(i), len(self._losses[i]))
            if count <= self._goal.plan.min_seeds
        ]
        return [(i, seed) for _, _, i, seed in sorted(missing)]

    def _targets(self) -> list[int]:
        """The open freezes that can have further seeds: fair chances first, the most saving of them, then by gain."""
        can = [i for i in self._open if self._further(i)]
        fair = {i: self._savings[i] if self._chance(i) >= FAIR else 0.0 for i in can}
        return sorted(can, key=lambda i: (-fair[i], -self._gain(i), -self._chance(i), -i))

    def _gain(self, i: int) -> float:
        """What a freeze is expected to save beyond the chosen one, for the price of finding out."""
        beyond = self._savings[i] - (0.0 if self._chosen is None else self._savings[self._chosen])
        prices = [self._still_open(i, n) * self._price(i, seed) for n, seed in self._further(i)]
        return self._chance(i) * beyond / sum(prices)

    def _price(self, i: int, seed: int) -> float:
        """Seconds of a pair, or trials; the baseline's is free where it has run."""
        has_run = any(seed in of_freeze for of_freeze in self._losses)
        return self._seconds(i) + (0.0 if has_run else self._seconds(-1))

    def _seconds(self, i: int) -> float:
        """Of a trial of a freeze; -1 is the baseline's."""
        return self._budget.of_trial[i + 1] if self._budget.of_trial else 1.0

    def _further(self, i: int) -> list[tuple[int, int]]:
        """The next seeds of a freeze, each with how many losses there are with it, as far as the budget goes."""
        budget, affordable = self._budget, list[tuple[int, int]]()
        seconds = math.inf if budget.seconds is None or not budget.of_trial else budget.seconds
        trials = math.inf if budget.trials is None else budget.trials
        for count, seed in self._missing(i):
            seconds -= self._price(i, seed)
            trials -= 1 if any(seed in of_freeze for of_freeze in self._losses) else 2
            if count > self._goal.max_seeds or (affordable and (seconds < 0 or trials < 0)):
                break
            affordable.append((count, seed))
        return affordable

    def _missing(self, index: int) -> list[tuple[int, int]]:
        """Seeds not run, each with how many losses there are with it if none before it is left out."""
        count, missing = self._known[index].n, []
        for seed in self._seeds:
            if seed not in self._losses[index]:
                count += 1
                missing.append((count, seed))
        return missing

    def _still_open(self, index: int, count: int) -> float:
        """Chance that a loss is needed as its `count`th: that the looks before leave the freeze open."""
        known = self._known[index]
        if count - 1 <= max(known.n, self._goal.plan.min_seeds - 1):
            return 1.0
        return 1 - self._chance_by(index, count - 1)

    def _chance(self, index: int) -> float:
        """Chance that a freeze is shown to be within the tolerance by the last look that the budget reaches."""
        known = self._known[index]
        if known.verdict != "not decided":
            return float(known.verdict == WITHIN)
        further = self._further(index)
        return self._chance_by(index, further[-1][0]) if further else 0.0

    def _chance_by(self, index: int, count: int) -> float:
        """Chance to be shown by the look at `count` losses; of an unseen depth between those beside it."""
        known, chances = self._known[index], self._later(index)
        if chances and known.n < count <= len(chances) + known.n:
            return chances[count - known.n - 1]
        if known.n >= self._goal.plan.min_seeds:
            return NO_SPREAD if not known.has_spread else 0.0
        seen = [i for i in range(len(self._known)) if self._later(i) or self._known[i].verdict != "not decided"]
        before, after = [i for i in seen if i < index], [i for i in seen if i > index]
        return ((self._seen(before[-1]) if before else 1.0) + (self._seen(after[0]) if after else 0.0)) / 2

    def _seen(self, i: int) -> float:
        """The chance of a freeze with an estimate by its last look."""
        later = self._later(i)
        return (
            later[-1] if self._known[i].verdict == "not decided" and later else float(self._known[i].verdict == WITHIN)
        )

    def _later(self, i: int) -> tuple[float, ...]:
        """Chances of the looks with one, two, ... more seeds to show a freeze; empty without a spread to tell by."""
        if i not in self._chances:
            goal, known = self._goal, self._known[i]
            later = chances_within(self._one(i), goal.looks, goal.tolerance, self._tail) if known.has_spread else ()
            self._chances[i] = tuple(np.maximum.accumulate(np.asarray(later, np.float64)).tolist())
        return self._chances[i]

    def _one(self, i: int) -> Estimate:
        return Estimate(*(values[i] for values in self._of))

    def _why(self) -> Why:
        if not self._open:
            return "decided"
        left = [i for i in self._open if self._known[i].n < self._goal.max_seeds and self._missing(i)]
        if not left:
            return "no_spread" if not any(self._known[i].has_spread for i in self._open) else "seeds_used"
        return "open" if self.wants() else "hopeless"

    def answer(self) -> DepthAnswer:
        """What is known now."""
        goal, nearest, takes = self._goal, None, None
        needs = [
            (i, further(self._one(i), goal.looks, goal.tolerance, self._tail))
            for i in self._open
            if self._known[i].has_spread
        ]
        within = [need for need in needs if self._known[need[0]].mean <= goal.tolerance + ROUNDING]
        if needs:
            nearest, takes = min(within or needs, key=lambda need: (need[1].further_seeds or math.inf, need[0]))
        elif self._open:
            nearest = max(self._open, key=lambda i: (self._known[i].n, -i))
        return DepthAnswer(self._chosen, tuple(self._known), tuple(self._open), self._why(), nearest, takes)


def paired(losses: Losses, seeds: Sequence[int]) -> Floats:
    """(seeds, sentences) losses in the order of the seeds; (seeds, 1) where contributions are not known of all."""
    return stacked([loss for seed in seeds if (loss := losses.get(seed)) is not None])


def _known(goal: DepthGoal, sizes: Sample | None, values: Floats, low: float, high: float) -> Known:
    n = len(values)
    n_sentences, n_documents = values.shape[1] if values.shape[1] > 1 else None, None
    if isinstance(sizes, Folds):
        n_sentences = sizes.examples
    elif sizes is not None and n_sentences is not None:
        n_sentences, n_documents = int(sizes.sum()), len(sizes)
    return Known(
        verdict=verdict(low, high, goal.tolerance),
        n=n,
        mean=float(values.mean()) if n else math.nan,
        low=low if math.isfinite(high) else -math.inf,
        high=high if math.isfinite(high) else math.inf,
        n_sentences=n_sentences,
        n_documents=n_documents,
        has_spread=n > 1 and bool(estimate(values).variance > 0),
        items="example" if isinstance(sizes, Folds) else Known.items,
    )
