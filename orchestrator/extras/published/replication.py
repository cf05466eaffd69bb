"""Whether our runs reproduce a published number: a prediction interval for it, and a margin of equivalence.

With n runs of ours (mean x, standard deviation s) and m of theirs (standard deviation r), their mean should lie in

    x +- t(df) sqrt(V)     V = s^2 / n + r^2 / m     df = V^2 / ((s^2 / n)^2 / (n - 1) + (r^2 / m)^2 / (m - 1))

in 95 % of replications if both recipes have the same expected score (B. Welch, Biometrika 34 (1947), 28-35). A side
without a standard deviation is presumed to have the other's: with r unknown, V = s^2 (1 / n + 1 / m) with n - 1 degrees
of freedom, the interval of the mean of m further runs of ours (P. Patil, R. Peng and J. Leek, "What Should Researchers
Expect When They Replicate Studies?", Perspectives on Psychological Science 11 (2016), 539-544); with one run of ours,
r alone. With neither there is no interval. Sentences add nothing to V: both sides score the same ones.

The margin is the largest difference that still counts as the same number. The verdict follows from the interval alone:

- *reproduced*: all of it lies within the margin of their number;
- *not reproduced*: all of it lies beyond the margin on one side;
- *cannot tell*: it reaches across an end of the margin, or there is none.

So each of the first two should be wrong in at most 2.5 % of comparisons whatever the true difference (two one-sided
tests; D. Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680). By simulation with 3 to 10
runs against one or five, and a true difference of exactly the margin, normal runs err in 2 to 3 %. Exponential runs, a
tail of bad seeds, err in 1 to 5 % where their spread is known and in up to 10 % where it is not: a few runs without a
bad seed look too sure. Two recipes with one expected score are called "not reproduced" in at most 1 % of any of these.

Values are rounded: a standard deviation below that of rounding to `step`, step / sqrt(12), is replaced by it, so that
runs which all end at the majority class have an interval, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scipy import special

from orchestrator.analysis.rows import ROUNDING

Verdict = Literal["reproduced", "not reproduced", "cannot tell"]
_LEVEL = 0.95  # coverage of the prediction interval


class Runs(NamedTuple):
    """One side.

    Attributes:
        low, high: Twice their mean, or the ends of a published range.
        std: Standard deviation over runs (n - 1), on the scale of the comparison; None if unknown.
    """

    n: int
    low: float
    high: float
    std: float | None = None

    @property
    def mean(self) -> float:
        """Their mean, or the middle of a range."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Replication:
    """The verdict on one published number.

    Attributes:
        low, high: 95 % prediction interval for their number; None without a spread on either side, and for a
            number that is exact.
        margin: Largest difference that still counts as the same, in the unit of the number.
        why: Why it cannot be told, or that the number is exact; empty otherwise.
    """

    verdict: Verdict
    low: float | None
    high: float | None
    margin: float
    why: str = ""


def replication(ours: Runs, theirs: Runs, *, margin: float, step: float = 0.0, is_saving: bool = False) -> Replication:
    """The verdict on a published number.

    Args:
        margin: In the unit of the number.
        step: Smallest difference that the published rounding shows.
        is_saving: Whether it is a saved share of a cost, whose noise multiplies: standard deviations are those of the
            logarithm of the share that is left.

    Raises:
        ValueError: A side has no run, or the margin is not positive.
    """
    if ours.n < 1 or theirs.n < 1 or margin <= 0:
        raise ValueError(f"{ours.n} and {theirs.n} runs with a margin of {margin:g}: all must be positive")
    if ours.std is None and theirs.std is None:
        return Replication("cannot tell", None, None, margin, "a single run on each side: no spread to judge by")
    if is_saving:
        half = _half_width(ours, theirs, step / max(1 - ours.mean, step or 1.0))
        low, high = (1 - (1 - ours.mean) * math.exp(sign * half) for sign in (1, -1))
    else:
        half = _half_width(ours, theirs, step)
        low, high = ours.mean - half, ours.mean + half
    verdict = _verdict(low, high, theirs, margin)
    why = "the prediction interval reaches across an end of the margin" if verdict == "cannot tell" else ""
    return Replication(verdict, low, high, margin, why)


def exact_replication(ours: Runs, theirs: Runs, *, margin: float) -> Replication:
    """The verdict on a number without chance, such as a count of parameters: it has no interval."""
    verdict = _verdict(ours.low, ours.high, theirs, margin)
    return Replication(verdict, None, None, margin, "exact: the same in every run")


def _half_width(ours: Runs, theirs: Runs, step: float) -> float:
    """t(df) sqrt(V)."""
    least = step / math.sqrt(12)
    stds = {side: max(side.std, least) for side in (ours, theirs) if side.std is not None}
    parts = {side: std**2 / side.n for side, std in stds.items()}
    if len(stds) == 2:
        variance = sum(parts.values())
        below = sum(part**2 / (side.n - 1) for side, part in parts.items())
        df = variance**2 / below if below else math.inf
    else:
        ((side, std),) = stds.items()
        variance, df = std**2 * (1 / ours.n + 1 / theirs.n), side.n - 1
    return float(-special.stdtrit(df, (1 - _LEVEL) / 2)) * math.sqrt(variance)


def _verdict(low: float, high: float, theirs: Runs, margin: float) -> Verdict:
    least, most = theirs.low - margin, theirs.high + margin
    if least - ROUNDING <= low and high <= most + ROUNDING:
        return "reproduced"
    return "not reproduced" if high < least - ROUNDING or low > most + ROUNDING else "cannot tell"
