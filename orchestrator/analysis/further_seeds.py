"""What a decision still takes: how many more seeds and sentences, and the chance that they decide.

Further seeds shrink the seeds' part of the variance, more sentences theirs; a decision needs both small enough. The
chance to decide is that of the data to come, if the true loss and the variances are as observed: with N instead of n
seeds the mean then moves by a standard deviation of sqrt(Vs n (N - n)) / N, with more sentences accordingly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from orchestrator.analysis.decision_plan import ERROR, PlannedLooks
from orchestrator.analysis.looks import deciding_ends
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import Estimate, lasting_share, verdict

MOST_SEEDS = 30  # most further seeds that are proposed: beyond it seeds are unlikely to decide
MOST_TIMES = 10  # times the present sentences that are proposed at most: few users have more at hand
_STEP = 1.02  # ratio between the numbers of sentences that are tried


@dataclass(frozen=True)
class Further:
    """What it takes to decide on which side of the tolerance a loss lies.

    Attributes:
        further_seeds: The fewest further seeds, on this dev set, that decide with the wanted chance; 0 if it is
            decided, None if not even `MOST_SEEDS` would.
        further_sentences: The fewest further dev sentences, with the present seeds; 0 if it is decided, None if
            `MOST_TIMES` as many would not, or if the interval is over seeds alone.
        sentences_with_all_seeds: The fewest further dev sentences that decide together with the planned seeds; 0 and
            None as for `further_sentences`.
    """

    further_seeds: int | None
    further_sentences: int | None
    sentences_with_all_seeds: int | None


def data_to_decide(
    loss: Estimate,
    looks: PlannedLooks,
    tolerance: float,
    tail: float = ERROR,
    power: float = 0.8,
    *,
    n_run: int | None = None,
) -> Further:
    """The further seeds and sentences that would decide whether one loss is within the tolerance.

    Args:
        loss: Of one setting, with a variance.
        looks: When it is looked at.
        tail: As of `looks.tails`.
        n_run: Seeds run, collapsed ones included: while the plan has some left, none beyond it is proposed. None for
            those of the estimate.

    Raises:
        ValueError: There is no variance.
    """
    if not loss.variance > 0:
        raise ValueError("without a variance nothing is known of what a decision takes")
    n, n_i = float(loss.n_seeds), float(loss.n_sentences)
    if n < looks.first:  # two seeds forecast nothing that a third does not turn round
        return Further(None, None, None)
    low, high = deciding_ends(loss, looks, tail)
    if verdict(float(low), float(high), tolerance) != "not decided":
        return Further(0, 0, 0)
    # A grid of two per cent: finer numbers would promise what variances of a few seeds do not know.
    sentences: Floats = np.unique(np.ceil(n_i * np.geomspace(_STEP, MOST_TIMES, 200)))
    last = max(float(looks.planned), n)

    def decides(seeds: Floats, sentences: Floats) -> npt.NDArray[np.bool_]:
        room = _room(_expected_estimate(loss, seeds, sentences), looks, tolerance, tail)
        enough: npt.NDArray[np.bool_] = room >= _moves(loss, seeds, sentences) * special.ndtri(power)
        return enough

    n_ahead = looks.planned - (n if n_run is None else n_run)
    numbers: Floats = np.arange(n + 1, n + 1 + (n_ahead if n_ahead > 0 else MOST_SEEDS), dtype=np.float64)
    more_seeds = _fewest(numbers, lambda seeds: decides(seeds, np.array(n_i)), looks.planned)
    more_sentences = _fewest(sentences, lambda sentences: decides(np.array(n), sentences)) if n_i > 1 else None
    together = _fewest(sentences, lambda sentences: decides(np.array(last), sentences)) if n_i > 1 else None
    return Further(
        further_seeds=None if more_seeds is None else int(more_seeds - n),
        further_sentences=None if more_sentences is None else int(more_sentences - n_i),
        sentences_with_all_seeds=None if together is None else int(together - n_i),
    )


def provable_tolerance(loss: Estimate, looks: PlannedLooks, tail: float, power: float = 0.8) -> float:
    """The smallest tolerance that future trials, with these expected variances, will show their loss to be within, with
    chance `power`; infinite if they give no interval.
    """
    _, high = _planned_ends(loss, looks, tail)
    within = float(high + np.sqrt(loss.variance) * special.ndtri(power))
    return within if np.isfinite(within) else np.inf


def chances_within(
    loss: Estimate, looks: PlannedLooks, tolerance: float, tail: float = ERROR, most: int | None = None
) -> Floats:
    """Chances (seeds,) that looks with one, two, ... more seeds, up to `most`, show at most the tolerance; None for the
    planned number.

    Predictive: the mean of the seeds to come is as uncertain as those at hand leave it (Student's t), without a prior
    opinion (C. Jennison and B. Turnbull, "Group Sequential Methods" (2000), chapter 10); the variances are taken for
    the observed ones. `loss` is of one setting, with a variance.
    """
    n = float(loss.n_seeds)
    seeds = np.arange(n + 1, (most or looks.planned) + 1)
    n_i = np.asarray(loss.n_sentences)
    room = tolerance - _planned_ends(_expected_estimate(loss, seeds, n_i), looks, tail)[1]
    with np.errstate(divide="ignore"):
        chances: Floats = special.stdtr(loss.seeds_df, room / _moves(loss, seeds, n_i))
    return np.nan_to_num(chances, nan=0.0)  # at a look with too few degrees of freedom nothing is shown


def _moves(loss: Estimate, seeds: Floats, sentences: Floats) -> Floats:
    """Standard deviation of the mean's change until there are this many seeds and sentences."""
    n, n_i, items = loss.n_seeds, _n_scored(loss, loss.n_seeds, loss.n_sentences), _n_scored(loss, seeds, sentences)
    seeds_part = np.where(loss.folds > 0, _seeds_alone(loss), loss.seeds) / (1 + n * lasting_share(loss.folds))
    seeds_part = seeds_part * n * (seeds - n) / seeds**2
    sentences_part = (loss.variance - _seeds_alone(loss)) * n_i * (items - n_i) / items**2
    moves: Floats = np.sqrt(seeds_part + sentences_part)  # the parts are independent, so their variances add
    return moves


def _n_scored(loss: Estimate, seeds: Floats, sentences: Floats) -> Floats:
    """The number of sentences that this many seeds are scored on; with folds each seed sees one fold only."""
    share = np.where(loss.folds > 0, np.minimum(seeds, loss.folds) / np.maximum(loss.folds, 1), 1.0)
    scored: Floats = sentences * share
    return scored


def _seeds_alone(loss: Estimate) -> Floats:
    """The part of the seeds' variance that more sentences do not shrink; all of it if only seeds are sampled."""
    alone: Floats = np.where(loss.n_sentences > 1, np.maximum(loss.seeds - loss.both, 0), loss.seeds)
    return alone


def _expected_estimate(loss: Estimate, n_seeds: Floats, n_sentences: Floats) -> Estimate:
    """The estimate that is expected with these numbers of seeds (alike for all settings) and sentences, broadcast."""
    seeds, sentences = np.broadcast_arrays(np.asarray(n_seeds, np.float64), np.asarray(n_sentences, np.float64))
    times = _n_scored(loss, loss.n_seeds, loss.n_sentences) / _n_scored(loss, seeds, sentences)
    shared = lasting_share(loss.folds)
    alone = _seeds_alone(loss)
    overlap = (1 + seeds * shared) / (1 + loss.n_seeds * shared)
    both = (loss.seeds - alone) * loss.n_sentences / sentences * loss.n_seeds / seeds * overlap
    v_s = alone * loss.n_seeds / seeds * overlap + both
    v_i = (loss.variance - loss.seeds) * times  # further seeds do not shrink the sentences' own part
    is_fold = loss.folds > 0  # whose items are in the seeds' part as well
    v = np.where(is_fold, v_s - both + (loss.variance - alone) * times, v_s + v_i)
    mean, folds, pool = (np.broadcast_to(values, v.shape) for values in (loss.mean, loss.folds, loss.pool))
    pool_df = loss.pool_df * (seeds - 1) / (loss.n_seeds - 1)  # all settings are taken to get as many
    new = Estimate(mean, v, v, v_s, both, v_s, v, seeds, sentences, folds, pool, pool_df)
    df = v**2 / (new.seeds_term() + loss.items_term() * times**3)
    return new._replace(df=df, sentence_skew=loss.sentence_skew * (loss.variance / v) ** 1.5 * times**2)


def _room(loss: Estimate, looks: PlannedLooks, tolerance: float, tail: float) -> Floats:
    """How far the end that faces the tolerance stays away from it; negative if it is beyond."""
    low, high = _planned_ends(loss, looks, tail)
    room: Floats = np.where(loss.mean <= tolerance, tolerance - high, low - tolerance)
    return room


def _planned_ends(loss: Estimate, looks: PlannedLooks, tail: float) -> tuple[Floats, Floats]:
    """Both ends of the interval at a look; infinite before the first look."""
    low, high = deciding_ends(loss, looks, tail)
    is_look = loss.n_seeds >= looks.first
    return np.where(is_look, low, -np.inf), np.where(is_look, high, np.inf)


def _fewest(
    candidates: Floats, decide: Callable[[Floats], npt.NDArray[np.bool_]], planned: float = -np.inf
) -> float | None:
    """The first of ascending numbers that is enough; None if the last is not.

    Above `planned`, larger ones are taken to be enough as well: the error that is left makes a step there.
    """
    near = candidates[candidates <= planned]
    if len(near) and (enough := decide(near)).any():
        return float(near[enough.argmax()])
    low, high = len(near) - 1, len(candidates) - 1
    if not decide(candidates[high:])[0]:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decide(candidates[middle : middle + 1])[0] else (middle, high)
    return float(candidates[high])
