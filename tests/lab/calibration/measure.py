"""How often intervals and verdicts are right in a world, each figure beside its goal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from orchestrator.analysis.decision_plan import ERROR, PlannedLooks
from orchestrator.analysis.looks import deciding_ends, simultaneous
from orchestrator.analysis.losses import collapses
from orchestrator.analysis.rows import ROUNDING
from orchestrator.analysis.two_way import ends, estimate
from tests.lab.calibration.worlds import COLLAPSE, Crossed, Drawn, Floats, Words, World, exponential, normal

TOLERANCE = 0.01  # one point
LOOKS = PlannedLooks()
SIZES = (3, 5, 8)  # seeds fixed beforehand
TAIL = 0.025
BATCH = 50  # sweeps drawn at a time
COVERED = {3: 0.92, 5: 0.93, 8: 0.93}  # goal of a nominal 95 % interval: with three seeds it has two degrees of freedom


class Figure(NamedTuple):
    """A share of simulated sweeps.

    Attributes:
        goal: The least or the most that it should be; None where nothing is promised.
        n: Sweeps.
    """

    world: str
    what: str
    share: float
    goal: float | None
    n: int
    at_most: bool = True

    @property
    def missed(self) -> bool:
        """Whether it is beyond the goal by more than three standard errors of the simulation."""
        if self.goal is None:
            return False
        beyond = self.share - self.goal if self.at_most else self.goal - self.share
        return bool(beyond > 1e-9 + 3 * np.sqrt(self.goal * (1 - self.goal) / self.n))

    def __str__(self) -> str:
        goal = "" if self.goal is None else f"{'at most' if self.at_most else 'at least'} {100 * self.goal:.0f} %"
        line = f"{self.world:<30} {self.what:<52} {100 * self.share:6.1f} %  {goal:<13}"
        return f"{line} {'MISSED' if self.missed else ''}".rstrip()


class Measured(NamedTuple):
    """Ends of intervals around a true loss of 0; arrays of (looks, sweeps), a look after each seed from the first.

    Attributes:
        low, high: Of the single interval of 95 %.
        plain_low, plain_high: The same where nothing is known of documents or of words; NaN where it makes no
            difference.
        seeds_low, seeds_high: The same over seeds alone.
        deciding_low, deciding_high: Of the interval that decides.
    """

    low: Floats
    high: Floats
    plain_low: Floats
    plain_high: Floats
    seeds_low: Floats
    seeds_high: Floats
    deciding_low: Floats
    deciding_high: Floats


def measure(world: World, sweeps: int, seed: int) -> Measured:
    """Intervals of one setting at each look.

    Runs that collapsed are left out, and the truth is that of those which did not, as the sentence says.
    """
    rng = np.random.default_rng(seed)
    drawn = (world.draw(rng, min(BATCH, sweeps - start), LOOKS.most) for start in range(0, sweeps, BATCH))
    batches = [np.stack([_at_look(each, n) for n in range(LOOKS.first, LOOKS.most + 1)], axis=1) for each in drawn]
    return Measured(*np.concatenate(batches, axis=-1))


def _at_look(drawn: Drawn, n: int) -> Floats:
    """(fields of `Measured`, sweeps) after `n` seeds."""
    losses = drawn.losses[:, 0, :n]
    left_out = np.zeros(losses.shape[:2], bool) if drawn.collapsed is None else drawn.collapsed[:, 0, :n]
    found = np.full((len(Measured._fields), len(losses)), np.nan)
    kept = n - left_out.sum(axis=1)
    for count in np.unique(kept[kept >= 2]):
        at = kept == count
        order = np.argsort(left_out[at], axis=1, kind="stable")[:, :count, None]
        values = np.take_along_axis(losses[at], order, axis=1)
        of = estimate(values, drawn.sizes)
        pairs = [ends(of, TAIL)]
        if drawn.plain is None:
            pairs.append((np.full(len(values), np.nan),) * 2)
        else:
            pairs.append(ends(estimate(drawn.plain[at, 0, :n]), TAIL))
        pairs.append(ends(estimate(values.mean(axis=-1, keepdims=True)), TAIL))
        # Looks are counted by the seeds that were run, whatever became of them.
        pairs.append(deciding_ends(of, LOOKS, ERROR, np.full(len(values), float(n))))
        found[:, at] = np.concatenate(pairs)
    return found


def figures(name: str, world: World, sweeps: int, seed: int) -> Iterator[Figure]:
    """Coverage, wrong verdicts, power."""
    of = measure(world, sweeps, seed)
    for n in SIZES:
        yield Figure(name, f"covered, {n} seeds", covered(of.low, of.high, n), COVERED[n], sweeps, at_most=False)
    yield Figure(name, "covered over seeds alone, 8 seeds", covered(of.seeds_low, of.seeds_high, 8), None, sweeps)
    if np.isfinite(of.plain_low).any():
        yield Figure(name, "covered by sentence, 8 seeds", covered(of.plain_low, of.plain_high, 8), None, sweeps)
        ratio = np.nanmedian((of.high - of.low)[-1] / (of.plain_high - of.plain_low)[-1])
        yield Figure(name, "width against that by sentence, 8 seeds", float(ratio), None, sweeps)
    wrong = np.any(of.deciding_high < -ROUNDING, axis=0)
    yield Figure(name, "recommended at any look though beyond tolerance", float(wrong.mean()), ERROR, sweeps)
    harsh = (of.deciding_low > ROUNDING).any(axis=0)
    yield Figure(name, "shown beyond at any look though within", float(harsh.mean()), ERROR, sweeps)
    any_of_two = wrong[: sweeps // 2] | wrong[sweeps // 2 : 2 * (sweeps // 2)]
    yield Figure(name, "any of two answers of a sweep wrong", float(any_of_two.mean()), 2 * ERROR, sweeps // 2)
    decided = (of.deciding_high <= TOLERANCE).any(axis=0)
    yield Figure(name, "recommended by the last look if it loses nothing", float(decided.mean()), None, sweeps)


def covered(low: Floats, high: Floats, n: int) -> float:
    """Share of intervals with `n` seeds that hold the true loss."""
    low, high = low[n - LOOKS.first], high[n - LOOKS.first]
    return float(((low <= ROUNDING) & (high >= -ROUNDING)).mean())


def power(sweeps: int, seed: int) -> Iterator[Figure]:
    """Of eight seeds that vary by half a point, or by 0.3, where the freeze loses nothing and most of V is theirs."""
    for spread, goal in ((0.005, 0.65), (0.003, 0.85)):
        of = measure(Crossed(spread, 0.9), sweeps, seed)
        decided = (of.deciding_high <= TOLERANCE).any(axis=0)
        what = f"seeds vary by {100 * spread:g}: recommended, loses nothing"
        yield Figure("power", what, float(decided.mean()), goal, sweeps, at_most=False)


class Family(NamedTuple):
    """Of several settings at once, all with one true loss: shares of sweeps.

    Attributes:
        wrong: Any setting is shown to lose at most the tolerance where the true losses are just above it.
        power: A setting is shown, in the mean over them, where the true loss is a point less.
    """

    wrong: float
    power: float


def measure_family(world: Words, sweeps: int, seed: int, *, uneven: bool = False) -> Family:
    """Rates of simultaneous intervals at every look; `uneven`: the second half of the settings lacks the last seed."""
    losses = world.draw(np.random.default_rng(seed), sweeps, LOOKS.most).losses
    wrong, shown = np.zeros((2, sweeps, world.settings), dtype=bool)
    for sweep in range(sweeps):
        for n in range(LOOKS.first + uneven, LOOKS.most + 1):
            less = [int(uneven and place >= world.settings // 2) for place in range(world.settings)]
            values = [one[: n - lacks] for one, lacks in zip(losses[sweep], less, strict=True)]
            high = simultaneous(values, LOOKS).high
            wrong[sweep] |= high < -ROUNDING
            shown[sweep] |= high <= TOLERANCE
    return Family(float(wrong.any(axis=1).mean()), float(shown.mean()))


def families(sweeps: int, seed: int) -> Iterator[Figure]:
    """Four settings that are claimed together."""
    for name, shape in {"normal": normal, "exponential": exponential}.items():
        world = Words(0.004, 0.03, shape=shape, settings=4)
        for uneven in (False, True):
            found = measure_family(world, sweeps, seed, uneven=uneven)
            label = f"4 settings, {name}{', seeds differ' if uneven else ''}"
            yield Figure(label, "any recommended though beyond tolerance", found.wrong, ERROR, sweeps)
            yield Figure(label, "recommended if it loses nothing", found.power, None, sweeps)


def bound_holds(sweeps: int, seed: int, n_seeds: int) -> float:
    """Share of sweeps whose bound on collapses is at least their true share."""
    runs = np.random.default_rng(seed).random((sweeps, n_seeds)) < COLLAPSE
    return float(np.mean([collapses(each).possible >= COLLAPSE for each in runs]))
