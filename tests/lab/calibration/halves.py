"""Intervals against losses that were measured: one half of the seeds and items, held against the other half.

The trials of each question of the shipped store are halved at random, by seeds and by documents (texts where no
documents are known), so that the halves share neither. A loss is beyond an end of the first half's interval if the
second half's mean lies farther off than the distance to that end and its own error at the same level allow together:
the root of the sum of their squares, as for a difference of two estimates (G. Zou and A. Donner, "Construction of
Confidence Limits about Effect Measures", Statistics in Medicine 27 (2008), 1693-1702). Its own error is by the
variances that all trials of the question have, as its own few seeds hardly know them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from orchestrator.analysis.decision_plan import ERROR, FIRST_LOOK, PlannedLooks
from orchestrator.analysis.looks import joint_intervals, pooled_estimates
from orchestrator.analysis.losses import Losses, losses
from orchestrator.analysis.rows import COMPLETED, Codes, Floats
from orchestrator.analysis.two_way import Estimate, chance_within, ends, estimates
from tests.lab.calibration.measure import Figure, of_chances
from tests.lab.calibration.shipped import Question

HALVINGS = 40  # of each question
ALONE = "Student's t over seeds alone"
TOLERANCES = (1.0, 2.0, 3.0, 5.0, 10.0)
WAYS = ("the interval that decides", "one setting at one look", ALONE)


def halves(questions: Sequence[Question], halvings: int = HALVINGS, seed: int = 0) -> Iterator[Figure]:
    """Shares of losses beyond either end, in the mean over all settings of the questions."""
    rng = np.random.default_rng(seed)
    beyond = np.concatenate([_beyond(each, halvings, rng) for each in questions], axis=-1)
    for way, sides in zip(WAYS, beyond, strict=True):
        for end, shares in zip(("upper", "lower"), sides, strict=True):
            known = shares[np.isfinite(shares)]
            goal = None if way == ALONE else ERROR
            yield Figure(f"halves: {way}", f"losses beyond the {end} end", float(known.mean()), goal, len(known))
    chances = [_chances(each, halvings // 4, rng) for each in questions]
    yield from of_chances("chance, halves", *(np.concatenate(each) for each in zip(*chances, strict=True)))


def _chances(question: Question, halvings: int, rng: np.random.Generator) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The chances, by one half, that the other half's mean is within a tolerance, and whether it is."""
    trials = question.trials[question.trials["state"] == COMPLETED]
    trials = trials[trials["freeze"].isin(question.worth_having) | (trials["cell"] == trials["baseline"])]
    items, said, true = _items(trials), list[Floats](), list[npt.NDArray[np.bool_]]()
    for _ in range(halvings):
        seeds, order = rng.permutation(trials["seed"].unique()), rng.permutation(items.max() + 1)
        n_seeds, n_items = (len(seeds) + 1) // 2, len(order) // 2
        first = _pooled(_losses(trials, seeds[:n_seeds], np.isin(items, order[:n_items])))
        second = _pooled(_losses(trials, seeds[n_seeds:], np.isin(items, order[n_items:])))
        for tolerance in TOLERANCES:
            said.append(chance_within(first.mean, first.variance + second.variance, first.df, tolerance))
            true.append(second.mean <= tolerance)
    return np.concatenate(said), np.concatenate(true)


def _beyond(question: Question, halvings: int, rng: np.random.Generator) -> Floats:
    """(ways, 2, settings) shares of halvings with a loss beyond the upper end and beyond the lower one."""
    trials = question.trials[question.trials["state"] == COMPLETED]
    trials = trials[trials["freeze"].isin(question.worth_having) | (trials["cell"] == trials["baseline"])]
    every = _pooled(losses(trials))
    found = np.stack([_of_halving(trials, every, rng) for _ in range(halvings)])
    known = np.isfinite(found)
    with np.errstate(invalid="ignore"):
        shares: Floats = np.where(known, found, 0).sum(axis=0) / known.sum(axis=0)
    return shares


def _of_halving(trials: pd.DataFrame, every: Estimate, rng: np.random.Generator) -> Floats:
    """(ways, 2, settings) 1 where the loss is beyond, NaN where there is no interval."""
    items = _items(trials)
    seeds, order = rng.permutation(trials["seed"].unique()), rng.permutation(items.max() + 1)
    n_seeds, n_items = (len(seeds) + 1) // 2, len(order) // 2
    first = _losses(trials, seeds[:n_seeds], np.isin(items, order[:n_items]))
    second = _losses(trials, seeds[n_seeds:], np.isin(items, order[n_items:])).estimate
    far, own = second.mean - first.estimate.mean, _own_error(every, second)
    rows = []
    for low, high in _ends(first, n_seeds):
        upper, lower = far - np.hypot(high - first.estimate.mean, own), -far - np.hypot(first.estimate.mean - low, own)
        rows.append([np.where(np.isfinite(each), each > 0, np.nan) for each in (upper, lower)])
    return np.array(rows)


def _items(trials: pd.DataFrame) -> Codes:
    """(sentences,) code of what each is drawn with: its document where that is known, else itself."""
    first = trials.iloc[0]
    named = np.arange(len(first["sentences"])) if first["documents"] is None else first["documents"]
    codes: Codes = np.unique(named, return_inverse=True)[1]
    return codes


def _losses(trials: pd.DataFrame, seeds: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> Losses:
    """Of these seeds and sentences; every setting has its place, also without a pair."""
    columns = {
        name: pd.Series([None if each is None else each[kept] for each in trials[name]], trials.index, object)
        for name in ("sentences", "documents")
    }
    is_mine = trials["seed"].isin(seeds)
    state = trials["state"].where(is_mine)
    return losses(trials.assign(state=state, score=[float(each.mean()) for each in columns["sentences"]], **columns))


def _ends(half: Losses, n_seeds: int) -> Iterator[tuple[Floats, Floats]]:
    """Of each setting, by the ways of `WAYS`."""
    decided = joint_intervals(half.values, PlannedLooks(min(FIRST_LOOK, n_seeds), n_seeds), sizes=half.sizes)
    yield decided.low, decided.high
    yield ends(decided.estimate, ERROR)
    alone = estimates([each.mean(axis=1, keepdims=True) for each in half.values])
    reach = _student(alone)
    yield alone.mean - reach, alone.mean + reach


def _pooled(of_each: Losses) -> Estimate:
    return pooled_estimates(of_each.values, np.ones(len(of_each.values), dtype=bool), of_each.sizes)


def _own_error(every: Estimate, half: Estimate) -> Floats:
    """How far the mean of so many seeds and items may lie off, by the variances of all."""
    with np.errstate(divide="ignore"):  # a half without a seed of a setting
        seeds, items = every.n_seeds / half.n_seeds, every.n_sentences / half.n_sentences
    of_seeds = (every.seeds - every.both + every.both * items) * seeds
    return _student(every._replace(variance=of_seeds + (every.variance - every.seeds) * items))


def _student(of: Estimate) -> Floats:
    with np.errstate(invalid="ignore"):
        reach: Floats = -special.stdtrit(of.df, ERROR) * np.sqrt(of.variance)
    return reach
