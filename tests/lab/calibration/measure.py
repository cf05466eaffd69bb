"""How often intervals and verdicts are right in a world, each figure beside its goal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orchestrator.analysis.decision_plan import ERROR, FIRST_LOOK, PlannedLooks
from orchestrator.analysis.looks import adjusted_tail, deciding_ends, joint_intervals, mean_correlation
from orchestrator.analysis.losses import collapses
from orchestrator.analysis.rows import ROUNDING, Floats
from orchestrator.analysis.two_way import (
    PRIOR_SD,
    Estimate,
    chance_within,
    ends,
    estimate,
    estimates,
    moderate,
    seed_correlation,
    seed_means,
)
from orchestrator.config.quantities import POINTS, amount
from tests.lab.calibration.worlds import COLLAPSE, FAMILIES, SINGLE, SMALL, STRESS, Crossed, Drawn, InFolds, World

Bools = npt.NDArray[np.bool_]

TOLERANCE = 0.01  # one point
PLANS = (3, 5, 8)  # seeds that a sweep declares
MOST = 8  # seeds that each grows to
LOOKS = tuple(range(FIRST_LOOK, MOST + 1))
TAIL = 0.025
BATCH = 50  # sweeps drawn at a time
COVERED = {3: 0.92, 5: 0.93, 8: 0.93}  # goal of a nominal 95 % interval: with three seeds it has two degrees of freedom

# At any look, of any setting. The lower end is meant for 5 % as well: Student's distances at several looks, with two to
# seven degrees of freedom, spend a little more than the normal ones by which the error is divided among them.
WRONG = {"recommended though beyond": ERROR, "shown beyond though within": 0.06}


IN_FOLDS = (5, 10)  # seeds that a cross-validation declares; each grows to the larger number
WRONG_IN_FOLDS = 0.06
HELD_OUT = 0.3
CHANCES = (0.5, 0.75, 0.9, 0.95, 1.01)  # of what is said together
POWER = 0.8


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

    @property
    def promise(self) -> str:
        """The goal in words; empty without one."""
        return "" if self.goal is None else f"{'at most' if self.at_most else 'at least'} {100 * self.goal:.0f} %"

    def __str__(self) -> str:
        line = f"{self.world:<40} {self.what:<56} {100 * self.share:6.1f} %  {self.promise:<13}"
        return f"{line} {'MISSED' if self.missed else ''}".rstrip()


class Measured(NamedTuple):
    """Ends of the intervals of a family of settings that all truly lose 0: arrays of (looks, sweeps, settings).

    Attributes:
        low, high: Of the interval of 95 % at one look alone.
        deciding: By the seeds that are planned, both ends of the interval that decides; NaN where there is none.
    """

    low: Floats
    high: Floats
    deciding: dict[int, tuple[Floats, Floats]]

    def wrong(self, planned: int) -> tuple[Bools, Bools]:
        """Whether (sweeps,) any setting is at any look recommended though beyond, and any shown beyond though not."""
        low, high = self.deciding[planned]
        recommended: Bools = np.any(high < -ROUNDING, axis=(0, 2))
        beyond: Bools = np.any(low > ROUNDING, axis=(0, 2))
        return recommended, beyond

    def shown(self, planned: int) -> Bools:
        """Whether (looks, sweeps, settings) a setting that loses nothing is shown to be within the tolerance."""
        return self.deciding[planned][1] <= TOLERANCE

    def covered(self, n: int) -> float:
        """Share of the intervals with `n` seeds that hold the true loss."""
        return held(self.low[n - LOOKS[0]], self.high[n - LOOKS[0]])


class _Seen(NamedTuple):
    """What is known at one look: estimates (sweeps, settings) and correlations (sweeps,) of the settings' losses."""

    of: Estimate
    over_seeds: Floats
    of_means: Floats


def held(low: Floats, high: Floats) -> float:
    """Share of intervals that hold 0."""
    return float(((low <= ROUNDING) & (high >= -ROUNDING)).mean())


def measure(
    world: World, sweeps: int, seed: int, fewest: int = 1, plans: tuple[int, ...] = PLANS
) -> dict[int, Measured]:
    """By how many settings are compared: the first alone, the first two, all three, from the `fewest` on.

    Every sweep grows to the most seeds that any of `plans` declares. Runs that collapsed are left out, and the truth is
    that of those which did not, as the sentence says.
    """
    seen: dict[tuple[int, int], list[_Seen]] = {}
    most = max(plans)
    looks = range(FIRST_LOOK, most + 1)
    for drawn in batches(world, sweeps, seed, most):
        for settings in range(min(fewest, drawn.losses.shape[1]), drawn.losses.shape[1] + 1):
            for n in looks:
                seen.setdefault((settings, n), []).append(_seen(drawn, settings, n))
    return {settings: _measured({n: seen[settings, n] for n in looks}, plans) for settings, n in seen if n == most}


def batches(world: World, sweeps: int, seed: int, most: int = MOST) -> Iterator[Drawn]:
    """The sweeps of a world with so many seeds, drawn a few at a time."""
    rng = np.random.default_rng(seed)
    for start in range(0, sweeps, BATCH):
        yield world.draw(rng, min(BATCH, sweeps - start), most)


def _seen(drawn: Drawn, settings: int, n: int) -> _Seen:
    losses = drawn.losses[:, :settings, :n]
    none = np.zeros(len(losses))
    if drawn.collapsed is not None:  # of one setting
        kept = [each[~left_out] for each, left_out in zip(losses[:, 0], drawn.collapsed[:, 0, :n], strict=True)]
        return _Seen(Estimate(*(values[:, None] for values in estimates(kept, drawn.sizes))), none, none)
    of = estimate(losses, drawn.sizes)
    if settings == 1:
        return _Seen(of, none, none)
    return _Seen(of, seed_correlation(seed_means(losses)), mean_correlation(losses, drawn.sizes))


def _measured(seen: dict[int, list[_Seen]], plans: tuple[int, ...]) -> Measured:
    """As `looks.joint_intervals` puts them together for one sweep."""
    single = list[tuple[Floats, Floats]]()
    deciding: dict[int, list[Floats]] = {planned: [] for planned in plans}
    for n, parts in seen.items():
        joined = Estimate(*map(np.concatenate, zip(*(part.of for part in parts), strict=True)))
        of = moderate(joined, np.concatenate([part.over_seeds for part in parts]))
        tails = _tails(of.mean.shape[1], np.concatenate([part.of_means for part in parts]))
        single.append(ends(of, TAIL))
        for planned in plans:
            deciding[planned].append(_deciding(of, tails, PlannedLooks(FIRST_LOOK, planned), n))
    low, high = np.stack(single, axis=1)
    both = {planned: np.stack(pairs, axis=1) for planned, pairs in deciding.items()}
    return Measured(low, high, {planned: (pairs[0], pairs[1]) for planned, pairs in both.items()})


def _tails(settings: int, correlation: Floats) -> Floats:
    return np.array([adjusted_tail(settings, each, ERROR) if settings > 1 else ERROR for each in correlation.tolist()])


def _deciding(of: Estimate, tails: Floats, looks: PlannedLooks, n: int) -> Floats:
    """Both ends (2, sweeps, settings) after `n` seeds were run, whatever became of them."""
    found = np.empty((2, *of.mean.shape))
    for tail in np.unique(tails):
        at = tails == tail
        mine = Estimate(*(values[at] for values in of))
        found[:, at] = deciding_ends(mine, looks, float(tail), np.full(mine.mean.shape, float(n)))
    return found


def figures(name: str, world: World, sweeps: int, seed: int) -> Iterator[Figure]:
    """Coverage, wrong verdicts, power."""
    for settings, of in measure(world, sweeps, seed, fewest=2 if name in FAMILIES else 1).items():
        label = name if settings == 1 else f"{name}, {settings} settings"
        for n in PLANS:
            least = None if name in STRESS else COVERED[n]
            yield Figure(label, f"covered, {n} seeds", of.covered(n), least, sweeps, at_most=False)
        for planned in PLANS:
            wrong, harsh = of.wrong(planned)
            for (what, goal), share in zip(WRONG.items(), (wrong.mean(), harsh.mean()), strict=True):
                promised = None if name in STRESS else goal
                yield Figure(label, f"{what}, {planned} planned", float(share), promised, sweeps)
        shown = of.shown(MOST).any(axis=0).mean()
        yield Figure(label, f"recommended by {MOST} seeds if it loses nothing", float(shown), None, sweeps)


def in_folds(name: str, sweeps: int, seed: int) -> Iterator[Figure]:
    """Of a small set in folds: coverage, wrong verdicts, and how far they reach; that of a part held out beside it."""
    world, common = SMALL[name]
    held_out = replace(world, n_sentences=round(HELD_OUT * world.n_sentences), seeds=np.hypot(world.seeds, common))
    (of,) = measure(InFolds(world, common), sweeps, seed, 3, IN_FOLDS).values()
    (alone,) = measure(held_out, sweeps, seed, 3, IN_FOLDS).values()
    for planned in IN_FOLDS:
        yield Figure(name, f"covered, {planned} seeds", of.covered(planned), COVERED[5], sweeps, at_most=False)
        for what, shares in zip(WRONG, of.wrong(planned), strict=True):
            yield Figure(name, f"{what}, {planned} planned", float(shares.mean()), WRONG_IN_FOLDS, sweeps)
        for how, each in (("folds", of), (f"{100 * HELD_OUT:g} % held out", alone)):
            reach = np.nanquantile(each.deciding[planned][1][planned - LOOKS[0]], POWER)
            yield Figure(name, f"points that {planned} seeds reach, {how}", float(reach), None, sweeps)


def of_chances(prefix: str, chance: Floats, is_true: Bools) -> Iterator[Figure]:
    """What was said in the mean and what came true, of the chances in each of `CHANCES`; `chance` may have NaN."""
    for low, high in pairwise(CHANCES):
        mine = (chance >= low) & (chance < high)
        if n := int(mine.sum()):
            name = f"{prefix}, {100 * low:g} to {min(100 * high, 100):g} %"
            yield Figure(name, "chance that was said", float(chance[mine].mean()), None, n)
            yield Figure(name, "came true", float(is_true[mine].mean()), None, n)


def chances(sweeps: int, seed: int) -> Iterator[Figure]:
    """Of losses that are drawn as the prior of chances has them, by three and by five seeds."""
    rng = np.random.default_rng(seed)
    for n in (3, 5):
        said, true = [], []
        for world in SINGLE.values():
            for drawn in batches(world, sweeps, seed, n):
                of = estimate(POINTS * drawn.losses, drawn.sizes)
                loss = PRIOR_SD * rng.standard_normal(of.mean.shape)
                said.append(chance_within(of.mean + loss, of.variance, of.df, POINTS * TOLERANCE).ravel())
                true.append(loss.ravel() <= POINTS * TOLERANCE)
        yield from of_chances(f"chance, {n} seeds drawn", np.concatenate(said), np.concatenate(true))


def unaware(name: str, world: World, sweeps: int, seed: int) -> Iterator[Figure]:
    """What intervals hold that take the dev set for granted, or sentences for independent, with eight seeds."""
    alone, plain, aware = [], [], []
    for drawn in batches(world, sweeps, seed):
        losses = drawn.losses[:, 0]
        alone.append(ends(estimate(losses.mean(axis=-1, keepdims=True)), TAIL))
        if drawn.plain is not None:
            plain.append(ends(estimate(drawn.plain[:, 0]), TAIL))
            aware.append(ends(estimate(losses, drawn.sizes), TAIL))
    yield Figure(name, "covered over seeds alone, 8 seeds", held(*np.concatenate(alone, axis=1)), None, sweeps)
    if plain:
        ours, theirs = np.concatenate(aware, axis=1), np.concatenate(plain, axis=1)
        yield Figure(name, "covered by sentence, 8 seeds", held(*theirs), None, sweeps)
        ratio = float(np.nanmedian((ours[1] - ours[0]) / (theirs[1] - theirs[0])))
        yield Figure(name, "width against that by sentence, 8 seeds", ratio, None, sweeps)


def power(sweeps: int, seed: int) -> Iterator[Figure]:
    """Of seeds that vary by half a point and have nine tenths of the variance, where no freeze loses anything."""
    for settings, of in measure(Crossed(0.9, seeds=0.005), sweeps, seed).items():
        for planned in PLANS:
            shown = of.shown(planned)[planned - LOOKS[0]].mean()
            what = f"recommended by {planned} planned seeds, loses nothing"
            yield Figure(f"power, {amount(settings, 'setting')}", what, float(shown), None, sweeps)


def uneven(sweeps: int, seed: int) -> Iterator[Figure]:
    """Three settings of which the last lacks a seed at every look."""
    wrong, harsh = np.zeros((2, sweeps), dtype=bool)
    for place, losses in enumerate(Crossed(0.9).draw(np.random.default_rng(seed), sweeps, MOST).losses):
        for n in LOOKS[1:]:
            found = joint_intervals([losses[0, :n], losses[1, :n], losses[2, : n - 1]], PlannedLooks(FIRST_LOOK, MOST))
            wrong[place] |= bool((found.high < -ROUNDING).any())
            harsh[place] |= bool((found.low > ROUNDING).any())
    for (what, goal), share in zip(WRONG.items(), (wrong.mean(), harsh.mean()), strict=True):
        yield Figure("settings of unequal seeds", f"{what}, {MOST} planned", float(share), goal, sweeps)


def bound_holds(sweeps: int, seed: int, n_seeds: int) -> float:
    """Share of sweeps whose bound on collapses is at least their true share."""
    runs = np.random.default_rng(seed).random((sweeps, n_seeds)) < COLLAPSE
    return float(np.mean([collapses(each).possible >= COLLAPSE for each in runs]))
