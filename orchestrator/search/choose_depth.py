"""`goal: choose_depth`: choose the next trials of a search for the deepest freeze within a tolerance.

This is a policy on top of the decision (`analysis.decide`), which alone says what has been shown. Its intervals hold
jointly for all freezes worth having, at every look and in whatever order trials run. So any policy may choose what runs
next, and a freeze that stays undecided does not block another one.

The policy first runs a curve: the seeds of the first look for depths that span the encoder (`spread`), seed by seed and
the cheapest first. Then seeds go to the freeze that saves most among those with a fair chance to be shown: if it is
shown, none that saves less is needed; if not, its baseline runs serve the next one. If no chance is fair, the order is
by chance times the saving beyond the present choice, divided by the price. A depth without seeds gets a chance between
those of its neighbours. With a time limit the search goes on until the time is over or nothing is open: then depths
without seeds get theirs, and freezes with hardly a chance come last.

`tests/orchestrator/search/test_choose_depth.py` simulates how often searches err and what they spend.

No margin protects against a bad seed that is too rare to appear among the first ones and not bad enough to count as a
collapse. Equal losses under all seeds are no certainty either: they are frequent on a small dev set and show nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from orchestrator.analysis.decide import Decision
from orchestrator.analysis.further_seeds import chances_within
from orchestrator.analysis.rows import ROUNDING, numbers
from orchestrator.analysis.two_way import BEYOND, Estimate

Why = Literal["decided", "hopeless", "no_spread", "seeds_used", "open"]

HOPELESS = 0.02  # chance to be shown by the last look below which no seed is spent, unless there is time for it
FAIR = 0.1  # chance from which on a freeze is tried before all that save less
SPREAD = (0.0, 1 / 3, 2 / 3, 1.0)  # positions of the curve's settings in the range of depths
NO_SPREAD = 0.1  # stands for that chance where all losses are equal
NEXT_BEST = 0.49  # a guess below `depth_search.LIKELY`: without a time limit free slots run only the best freeze ahead
OTHER_DEPTHS, NO_HOPE = 0.3, 0.1  # guesses that order nothing: how much a forecast counts of what time may be left for


@dataclass(frozen=True)
class Budget:
    """What may still be spent.

    Attributes:
        seconds: Seconds that are left, summed over all slots; None if no time was given: the search then stays short.
        trials: Number of trials that are left; None for no limit.
        of_trial: Seconds that a trial takes: the baseline's, then each candidate's; empty if unknown.
    """

    seconds: float | None = None
    trials: int | None = None
    of_trial: Sequence[float] = ()


class Want(NamedTuple):
    """A pair to run: the candidate's index, the seed, and the chance that its loss will be needed."""

    candidate: int
    seed: int
    chance: float


def next_pairs(
    decision: Decision,
    tried: Sequence[Collection[int]],
    seeds: Sequence[int],
    expected: Sequence[float],
    budget: Budget = Budget(),
) -> list[Want]:
    """The pairs to run next, in order; a caller takes as many as it has room for. Empty at the end of the search.

    The first has chance 1. Pairs that run already are listed too, and the caller skips them, so no seed runs twice. The
    result depends on the arguments alone, not on earlier calls.

    Args:
        decision: The decision so far, whose table has a row for each freeze, from the least frozen to the most.
        tried: The seeds of each freeze whose pair of runs has ended, in whatever way.
        seeds: The order in which seeds are taken, fixed before any was run.
        expected: The share of the cost that each freeze is expected to save, before that is measured.
        budget: What may still be spent.
    """
    return _Search(decision, tried, seeds, expected, budget).next_pairs()


def end_reason(
    decision: Decision, tried: Sequence[Collection[int]], seeds: Sequence[int], expected: Sequence[float]
) -> Why:
    """Why the search ended: nothing is open (`decided`); what is open has next to no chance to be shown by the planned
    seeds (`hopeless`), lost the same under every seed (`no_spread`), or has used up its seeds; or it is `open`.
    """
    return _Search(decision, tried, seeds, expected, Budget()).end_reason()


def spread(n: int) -> list[int]:
    """Indices of the freezes that span `n` of them, from the least frozen to the most: both ends and the thirds."""
    return sorted({round(share * (n - 1)) for share in SPREAD}) if n else []


class _Search:
    """One look at all candidates."""

    def __init__(
        self,
        decision: Decision,
        tried: Sequence[Collection[int]],
        seeds: Sequence[int],
        expected: Sequence[float],
        budget: Budget,
    ) -> None:
        table = decision.table
        assert len(tried) == len(expected) == len(table), "every freeze has its seeds and its saving"
        self._decision, self._tried, self._seeds, self._budget = decision, tried, seeds, budget
        saved = numbers(table, "saved")
        is_known = np.isfinite(saved)
        self._savings: list[float] = np.where(is_known, saved, np.asarray(expected, dtype=np.float64)).tolist()
        least = decision.plan.min_saving - ROUNDING
        worth = np.where(is_known, table["worth_having"], np.asarray(self._savings) >= least).astype(bool)
        self._n: list[int] = table["n_pairs"].astype(int).tolist()
        self._shown: list[bool] = table["qualifies"].tolist()
        settled = table["qualifies"] | (table["verdict"] == BEYOND) | (table["barred"] != "")
        self._settled: list[bool] = settled.tolist()
        self._least = 0.0 if decision.choice is None else float(decision.choice["saved"])
        self._has_spread: list[bool] = ((decision.estimate.variance > 0) & (decision.estimate.n_seeds > 1)).tolist()
        candidates: list[int] = np.flatnonzero(worth).tolist()
        self._open = [i for i in candidates if not self._settled[i] and self._savings[i] > self._least]
        self._chances = dict[int, tuple[float, ...]]()

    def next_pairs(self) -> list[Want]:
        pairs = [(pair, 1.0) for pair in self._curve(spread(len(self._n)))]
        targets = self._targets()
        hopeful = [i for i in targets if self._chance(i) >= HOPELESS]
        for i in hopeful:
            chance = 1.0 if i == hopeful[0] else NEXT_BEST
            pairs += [((i, seed), chance * self._still_open(i, n)) for n, seed in self._next_seeds(i)]
        if self._budget.seconds is not None and self._decision.baseline.has_learned:
            pairs += [(pair, OTHER_DEPTHS) for pair in self._curve(range(len(self._n)))]
            pairs += [((i, seed), NO_HOPE) for i in targets if i not in hopeful for _, seed in self._next_seeds(i)]
        chances = dict[tuple[int, int], float]()
        for pair, chance in pairs:
            chances.setdefault(pair, chance)
        return [Want(int(i), seed, chance if n else 1.0) for n, ((i, seed), chance) in enumerate(chances.items())]

    def end_reason(self) -> Why:
        if not self._open:
            return "decided"
        if not any(self._missing_seeds(i) for i in self._open):
            return "no_spread" if not any(self._has_spread[i] for i in self._open) else "seeds_used"
        return "open" if self.next_pairs() else "hopeless"

    def _curve(self, freezes: Sequence[int]) -> list[tuple[int, int]]:
        """The pairs of first looks of these freezes, seed by seed, the cheapest (or else the most frozen) first."""
        cheap = sorted(freezes, key=lambda i: (self._seconds(i), -i))
        missing = [
            (tried, place, i, seed)  # seeds tried, not losses: one without a loss is no reason to stay at a freeze
            for place, i in enumerate(cheap)
            for tried, (count, seed) in enumerate(self._missing_seeds(i), len(self._tried[i]))
            if count <= self._decision.looks.first
        ]
        return [(i, seed) for _, _, i, seed in sorted(missing)]

    def _targets(self) -> list[int]:
        """The open freezes with seeds left: first those with a fair chance, by falling saving, then others by gain."""
        can = [i for i in self._open if self._next_seeds(i)]
        fair = {i: self._savings[i] if self._chance(i) >= FAIR else 0.0 for i in can}
        return sorted(can, key=lambda i: (-fair[i], -self._gain(i), -self._chance(i), -i))

    def _gain(self, i: int) -> float:
        """The expected saving of a freeze beyond the chosen one, divided by the price of finding out."""
        prices = [self._still_open(i, n) * self._price(i, seed) for n, seed in self._next_seeds(i)]
        return self._chance(i) * (self._savings[i] - self._least) / sum(prices)

    def _price(self, i: int, seed: int) -> float:
        """The price of a pair in seconds, or in trials if times are unknown; a baseline that has run costs nothing."""
        has_run = any(seed in of_freeze for of_freeze in self._tried)
        return self._seconds(i) + (0.0 if has_run else self._seconds(-1))

    def _seconds(self, i: int) -> float:
        """Seconds of a trial of a freeze; -1 is the baseline."""
        return self._budget.of_trial[i + 1] if self._budget.of_trial else 1.0

    def _next_seeds(self, i: int) -> list[tuple[int, int]]:
        """The next seeds of a freeze that the budget allows, each with the number of losses once it has run."""
        budget, affordable = self._budget, list[tuple[int, int]]()
        seconds = math.inf if budget.seconds is None or not budget.of_trial else budget.seconds
        trials = math.inf if budget.trials is None else budget.trials
        for count, seed in self._missing_seeds(i):
            seconds -= self._price(i, seed)
            trials -= 1 if any(seed in of_freeze for of_freeze in self._tried) else 2
            if affordable and (seconds < 0 or trials < 0):
                break
            affordable.append((count, seed))
        return affordable

    def _missing_seeds(self, i: int) -> list[tuple[int, int]]:
        """The seeds that have not run, each with the number of losses once it and those before it have run."""
        return list(enumerate((seed for seed in self._seeds if seed not in self._tried[i]), self._n[i] + 1))

    def _still_open(self, i: int, count: int) -> float:
        """The chance that a freeze's `count`th loss is needed, as the looks before it leave the freeze open."""
        if count - 1 <= max(self._n[i], self._decision.looks.first - 1):
            return 1.0
        return 1 - self._chance_by(i, count - 1)

    def _chance(self, i: int) -> float:
        """Chance that a freeze is shown to be within the tolerance by the last look that the budget reaches."""
        if not self._decision.baseline.has_learned:
            return 0.0
        further = self._next_seeds(i)
        return self._chance_by(i, further[-1][0]) if further else 0.0

    def _chance_by(self, i: int, count: int) -> float:
        """The chance to be shown by the look at `count` losses; for an unseen depth, one between its neighbours'."""
        n, chances = self._n[i], self._later_chances(i)
        if chances and n < count <= len(chances) + n:
            return chances[count - n - 1]
        if n >= self._decision.looks.first:
            return 0.0 if self._has_spread[i] else NO_SPREAD
        seen = [k for k in range(len(self._n)) if self._later_chances(k) or self._settled[k]]
        before, after = [k for k in seen if k < i], [k for k in seen if k > i]
        return (
            (self._last_chance(before[-1]) if before else 1.0) + (self._last_chance(after[0]) if after else 0.0)
        ) / 2

    def _last_chance(self, i: int) -> float:
        """The chance of a freeze with an estimate by its last look."""
        return float(self._shown[i]) if self._settled[i] else self._later_chances(i)[-1]

    def _later_chances(self, i: int) -> tuple[float, ...]:
        """Chances of the looks with one, two, ... more seeds to show a freeze; empty without a spread to tell by."""
        if i not in self._chances:
            decision, later = self._decision, np.empty(0)
            if self._has_spread[i]:
                one = Estimate(*(values[i] for values in decision.estimate))
                most = max(decision.looks.planned, len(self._seeds))  # more where seeds were added to a plan
                later = chances_within(one, decision.looks, decision.plan.tolerance, decision.tail, most)
            self._chances[i] = tuple(np.maximum.accumulate(later).tolist())
        return self._chances[i]
