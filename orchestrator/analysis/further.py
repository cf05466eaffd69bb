"""What a decision still takes: further seeds, or more dev sentences.

Further seeds shrink the seeds' part of the variance and more sentences shrink theirs; a decision needs both parts small
enough. The chance to decide is that of the data to come, if the true loss and the variances are the observed ones: with
N instead of n seeds the mean then moves by a standard deviation of sqrt(Vs n (N - n)) / N, with more sentences
accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from orchestrator.analysis.decision_plan import ERROR, PlannedLooks
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.simultaneous import deciding_ends
from orchestrator.analysis.two_way import Estimate, verdict

MOST_SEEDS = 100  # nobody runs more of one setting
MOST_TIMES = 100  # nobody has so many times the sentences


@dataclass(frozen=True)
class Further:
    """What it takes to decide on which side of the tolerance a loss lies.

    Attributes:
        further_seeds: The fewest further seeds, on this dev set, that decide with the wanted chance; 0 if it is
            decided, None if not even `MOST_SEEDS` would.
        further_sentences: The fewest further dev sentences, with the present seeds; 0 if it is decided, None if
            `MOST_TIMES` as many would not, or if the interval is over seeds alone.
        sentences_with_all_seeds: The fewest further dev sentences that decide together with the seeds of the last look;
            likewise.
    """

    further_seeds: int | None
    further_sentences: int | None
    sentences_with_all_seeds: int | None


def further(of: Estimate, looks: PlannedLooks, tolerance: float, tail: float = ERROR, power: float = 0.8) -> Further:
    """What decides on one loss.

    Args:
        of: Of one setting, with a variance.
        looks: When it is looked at. More seeds than `most` have the tail of its last look.
        tail: As of `looks.tails`.

    Raises:
        ValueError: There is no variance.
    """
    if not of.variance > 0:
        raise ValueError("without a variance nothing is known of what a decision takes")
    n, n_i = float(of.n_seeds), float(of.n_sentences)
    low, high = deciding_ends(of, looks, tail)
    decided = verdict(float(low), float(high), tolerance) != "not decided"
    seeds = np.arange(n + 1, n + 1 + MOST_SEEDS)
    sentences = np.unique(np.ceil(n_i * np.geomspace(1.02, MOST_TIMES, 200)))
    of_seeds = np.sqrt(of.seeds * n * (seeds - n)) / seeds * special.ndtri(power)
    theirs = of.variance - _seeds_alone(of)
    of_sentences = np.sqrt(theirs * n_i * (sentences - n_i)) / sentences * special.ndtri(power)
    more_seeds = _first(seeds, _room(_expected(of, seeds, n_i), looks, tolerance, tail) >= of_seeds)
    more_sentences = _first(sentences, _room(_expected(of, n, sentences), looks, tolerance, tail) >= of_sentences)
    last = max(float(looks.most), n)
    moves = np.hypot(of_sentences, np.sqrt(of.seeds * n * (last - n)) / last * special.ndtri(power))
    together = _first(sentences, _room(_expected(of, last, sentences), looks, tolerance, tail) >= moves)
    return Further(
        further_seeds=0 if decided else None if more_seeds is None else int(more_seeds - n),
        further_sentences=0 if decided else None if more_sentences is None else int(more_sentences - n_i),
        sentences_with_all_seeds=0 if decided else None if together is None else int(together - n_i),
    )


def chances_within(of: Estimate, looks: PlannedLooks, tolerance: float, tail: float = ERROR) -> Floats:
    """Chances (seeds,) that looks with one, two, ... more seeds, up to `most`, show a loss of at most the tolerance.

    Predictive: the mean of the seeds to come is as uncertain as those at hand leave it (Student's t), without a prior
    opinion (C. Jennison and B. Turnbull, "Group Sequential Methods" (2000), chapter 10); the variances are taken for
    the observed ones. `of` is of one setting, with a variance.
    """
    n = float(of.n_seeds)
    seeds = np.arange(n + 1, looks.most + 1)
    room = tolerance - _planned_ends(_expected(of, seeds, float(of.n_sentences)), looks, tail)[1]
    with np.errstate(divide="ignore"):
        chances: Floats = special.stdtr(n - 1, room / np.sqrt(of.seeds * (seeds - n) / seeds))
    return np.nan_to_num(chances, nan=0.0)  # at a look with too few degrees of freedom nothing is shown


def _seeds_alone(of: Estimate) -> Floats:
    """What of the seeds' part more sentences do not shrink; all of it where the interval is over seeds alone."""
    found: Floats = np.where(of.n_sentences > 1, np.maximum(of.seeds - of.both, 0), of.seeds)
    return found


def _expected(of: Estimate, n_seeds: float | Floats, n_sentences: float | Floats) -> Estimate:
    """The estimate as it is expected with so many seeds and sentences; arrays broadcast."""
    seeds, sentences = np.broadcast_arrays(np.asarray(n_seeds, np.float64), np.asarray(n_sentences, np.float64))
    times = of.n_sentences / sentences
    alone = _seeds_alone(of)
    v_s = (alone + (of.seeds - alone) * times) * of.n_seeds / seeds
    v_i = (of.variance - of.seeds) * times
    v = v_s + v_i
    rest = np.maximum(of.variance**2 / of.df - of.seeds**2 / (of.n_seeds - 1), 0)  # Vi^2 by its degrees of freedom
    df = v**2 / (v_s**2 / (seeds - 1) + rest * times**3)
    skew = of.sentence_skew * (of.variance / v) ** 1.5 * times**2
    return Estimate(np.broadcast_to(of.mean, v.shape), v, df, v_s, of.seeds - alone, skew, seeds, sentences)


def _room(of: Estimate, looks: PlannedLooks, tolerance: float, tail: float) -> Floats:
    """How far the end towards the tolerance stays from it; negative where it is beyond."""
    low, high = _planned_ends(of, looks, tail)
    room: Floats = np.where(of.mean <= tolerance, tolerance - high, low - tolerance)
    return room


def _planned_ends(of: Estimate, looks: PlannedLooks, tail: float) -> tuple[Floats, Floats]:
    """Both ends as a look has them; past the plan with the tail of its last look, before it infinite."""
    low, high = deciding_ends(of, looks, tail, np.clip(of.n_seeds, looks.first, looks.most))
    is_look = of.n_seeds >= looks.first
    return np.where(is_look, low, -np.inf), np.where(is_look, high, np.inf)


def _first(candidates: Floats, enough: np.ndarray) -> float | None:
    where = np.flatnonzero(enough)
    return float(candidates[where[0]]) if len(where) else None
