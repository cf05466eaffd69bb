"""The losses of settings against their baselines, and the runs that collapsed.

A run has collapsed if it scores as the best constant prediction does, or if its training loss did not fall: what
fine-tuning with a bad seed looks like (M. Mosbach, M. Andriushchenko and D. Klakow, "On the Stability of Fine-tuning
BERT", 2021, arXiv 2006.04884). The trial completes, and only its numbers show it. A run that scores below the constant
prediction has collapsed, too, unless its training loss fell by a quarter: where a task is hard, good runs scatter
around the majority class, and to leave those out would hide a loss.

A freeze that collapses is not recommended. Runs that are bad without a collapse, and rare, are not seen by a few seeds,
whatever the method: that condition stands in every answer.

A score is a share of 1, as the store, the metrics and plug-ins have it; a loss is in points, as the tolerance is that
it is held against. This module is where the one becomes the other: all that follows from a loss is in points.

Every interval and verdict on quality starts here. A loss is the baseline's score less the setting's under the same
seed. Where both trials recorded what each sentence contributes to their score, it is a row of one value a sentence
whose mean is that loss, and intervals are over seeds and sentences; else a single value, and they are over seeds alone.

An answer is about runs that do not collapse, and is given only if all runs together pass as well. So a pair with a
collapsed run is left out of `values` and `estimate`, unless half or more of the setting's own runs collapsed: then
collapsing is what the setting does, and the pair counts. `estimate_all_runs` has every pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from orchestrator.analysis.rows import ROUNDING, Floats, is_measured, numbers, pair
from orchestrator.analysis.two_way import Estimate, Folds, Sample, document_sizes, estimates, item_losses
from orchestrator.config.quantities import POINTS, amount
from trials.spec import Seeds

BROKEN = ("diverged", "out_of_memory", "failed")


def clopper_pearson(k: Floats, n: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """(shares,) ends of the exact interval of each share of k in n; NaN where n is 0.

    C. Clopper and E. Pearson, Biometrika 26 (1934), 404-413.
    """
    tail = (1 - level) / 2
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, tail), 0.0)
    high = np.where(k < n, special.betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail), 1.0)
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


LEAST_FALL = 0.05  # share of its start by which a training loss falls if anything is learned
WEAK_FALL = 0.25  # and by which it falls more than that of constant predictions of one of several classes


@dataclass(frozen=True)
class Collapses:
    """How many runs collapsed.

    Attributes:
        runs: Runs that ended and are evidence.
        possible: Largest share of runs that may collapse, by the one-sided bound of Clopper and Pearson; 1 without
            runs.
    """

    collapsed: int
    runs: int
    possible: float
    level: float

    @property
    def is_rare(self) -> bool:
        """Whether fewer than half of the runs collapsed; otherwise collapsing is what the setting usually does."""
        return 2 * self.collapsed < self.runs

    @property
    def sentence(self) -> str:
        """What was seen and what is still possible."""
        if not self.runs:
            return "whether runs collapsed was not recorded"
        seen = f"{self.collapsed} of {amount(self.runs, 'run')} collapsed"
        return f"{seen}; up to {100 * self.possible:.0f} % could, {100 * self.level:g} % bound"


def collapses(collapsed: npt.ArrayLike, level: float = 0.95) -> Collapses:
    """The count and its bound from whether each run collapsed (runs,)."""
    runs = np.asarray(collapsed, dtype=bool)
    k, n = int(runs.sum()), len(runs)
    high = clopper_pearson(np.array([float(k)]), np.array([float(n)]), 2 * level - 1)[1][0]  # one end at `level`
    return Collapses(k, n, float(high) if n else 1.0, level)


def excess_p(own: Collapses, baseline: Collapses) -> float:
    """P value of Fisher's test: the chance of as many collapses if a setting collapses as often as its baseline."""
    total, n = own.collapsed + baseline.collapsed, own.runs + baseline.runs  # both margins, which the test holds fixed
    ways = [math.comb(own.runs, k) * math.comb(baseline.runs, total - k) for k in range(min(total, own.runs) + 1)]
    return sum(ways[own.collapsed :]) / math.comb(n, total) if n else 1.0


def has_collapsed(scores: Floats, constant: Floats, fall: Floats) -> Floats:
    """1 for each run (runs,) that collapsed, 0 for the others, NaN where it was not recorded.

    Args:
        scores: (runs,) best scores on dev.
        constant: (runs,) scores of the best constant prediction there; NaN where not recorded.
        fall: (runs,) see `trials.record.loss_fall`; NaN where not recorded: the score alone then decides.
    """
    above, below = scores > constant + ROUNDING, (scores < constant - ROUNDING) & (fall >= WEAK_FALL)
    learned = (above | below) & ~(fall < LEAST_FALL)
    collapsed: Floats = np.where(np.isfinite(scores) & np.isfinite(constant), 1.0 - learned, np.nan)
    return collapsed


_SAME = 1e-4  # contributions whose mean is farther from the score are those of another metric


@dataclass(frozen=True)
class Losses:
    """The losses of all settings of a frame.

    Attributes:
        cells: One row a setting as of `rows.Pairs.cells`; `n_pairs` counts the pairs that `values` holds. Further
            columns: `n_run` (pairs, collapsed ones included), `median` (loss over all of them, in points),
            `n_sentences` (Int64, NA where losses are of whole seeds), `n_documents` (Int64, NA where they are
            unknown), `n_folds` (Int64, NA where all seeds have one dev set).
        values: Points (seeds, sentences), or (seeds, 1), of each setting, in the order of the seeds;
            (seeds, documents) where the document of each sentence is known (`two_way.item_losses`). With folds, the
            items of all folds, NaN for those that a seed is not scored on.
        sizes: (documents,) sentences of each, or the folds of a cross-validation, whose `n_sentences` are all examples;
            None where neither is known.
        estimate: The estimates (settings,); NaN without a pair.
        estimate_all_runs: Likewise of all pairs, with those that have a collapsed run.
        own: How many runs of each setting collapsed.
        baseline: How many runs of its baseline did.
    """

    cells: pd.DataFrame
    values: tuple[Floats, ...]
    sizes: Sample | None
    estimate: Estimate
    estimate_all_runs: Estimate
    own: tuple[Collapses, ...]
    baseline: tuple[Collapses, ...]


def losses(frame: pd.DataFrame, value: str = "score") -> Losses:
    """The losses in a score, paired by seed.

    Args:
        frame: As of `trial_frame`; the columns `sentences` (arrays whose mean is `value`, or None), `documents` and
            `words` (likewise, as of `two_way.item_losses`) and `collapsed` (1, 0 or NaN) may be absent.

    Raises:
        ValueError: A column is absent, or a cell has two completed trials of one seed.
    """
    keep = [name for name in ("sentences", "documents", "words", "collapsed") if name in frame.columns]
    pairs = pair(frame, value, keep)
    rows, places = pairs.rows, np.argsort(pairs.codes, kind="stable")
    ends = np.searchsorted(pairs.codes[places], np.arange(len(pairs.cells) + 1))
    runs = _collapses(frame)
    own, baseline = (tuple(runs[cell] for cell in pairs.cells[side]) for side in ("cell", "baseline"))
    left_out = _unusable(rows, pairs.codes, own)
    columns = {name: rows[name].to_numpy() for name in rows.columns}
    values, every, medians = [], [], []
    counts: list[_Counts] = []
    folds = _folds(frame, value)
    by_fold = None
    if folds is not None:
        # For all settings at once: an item needs the same column in each, as settings are correlated item by item.
        folds, by_fold = _losses_by_fold(columns, value, folds)
    for row in range(len(pairs.cells)):
        mine = places[ends[row] : ends[row + 1]]
        mine = mine[np.argsort(columns["seed"][mine], kind="stable")]  # settings are correlated seed by seed
        used = mine[~left_out[mine]]
        if by_fold is None:
            values.append(_losses_of(columns, used, value, counts))
            every.append(values[-1] if len(used) == len(mine) else _losses_of(columns, mine, value, []))
        else:
            values.append(by_fold[used])
            every.append(by_fold[mine])
        medians.append(-POINTS * float(np.median(columns["difference"][mine])) if len(mine) else np.nan)
    if folds is not None:
        counts = [_Counts(folds.examples) for _ in values]
    cells = pairs.cells.assign(
        n_run=pairs.cells["n_pairs"],
        n_pairs=np.array([len(array) for array in values], dtype=np.int64),
        median=np.array(medians, dtype=np.float64),
        n_sentences=pd.array([count.sentences for count in counts], dtype="Int64"),
        n_documents=pd.array([count.documents for count in counts], dtype="Int64"),
        n_folds=pd.array([None if folds is None else folds.n for _ in counts], dtype="Int64"),
    )
    sizes = folds or next((count.sizes for count in counts if count.sizes is not None), None)
    return Losses(cells, tuple(values), sizes, estimates(values, sizes), estimates(every, sizes), own, baseline)


def _folds(frame: pd.DataFrame, value: str) -> Folds | None:
    """The folds that seeds are scored on (test is not among them); None if all seeds share one dev set."""
    if "folds" not in frame.columns or value.startswith("test") or not len(frame) or not frame["folds"].max():
        return None
    return Folds(int(frame["folds"].max()), int(frame["examples"].max()))


class _Counts(NamedTuple):
    """Sentences and documents of a dev set; None if unknown."""

    sentences: int | None = None
    documents: int | None = None
    sizes: Floats | None = None


def _losses_by_fold(columns: Mapping[str, Any], value: str, folds: Folds) -> tuple[Folds, Floats]:
    """Points (pairs, items of all folds) and what the items are; NaN for items of folds on which a pair is not scored.

    (pairs, 1) where contributions are not known of all.
    """
    counts: list[_Counts] = []
    by_pair = [_losses_of(columns, np.array([row]), value, counts)[0] for row in range(len(columns["seed"]))]
    fold_of = [Seeds.from_key(int(key)).seed % folds.n for key in columns["seed"]]
    first = {fold: row for row, fold in reversed([*enumerate(fold_of)])}  # a pair of each fold
    same = all(len(items) == len(by_pair[first[fold]]) for items, fold in zip(by_pair, fold_of, strict=True))
    if not same or any(count.sentences is None for count in counts):  # of a fold that changed as well
        return folds, -POINTS * columns["difference"][:, None].astype(np.float64)
    ends = np.cumsum([0, *(len(by_pair[row]) for row in first.values())])
    place = dict(zip(first, ends, strict=False))
    losses = np.full((len(by_pair), ends[-1]), np.nan)
    for row, (items, fold) in enumerate(zip(by_pair, fold_of, strict=True)):
        losses[row, place[fold] : place[fold] + len(items)] = items
    if any(counts[row].sizes is not None for row in first.values()):  # where a fold has none, sentences are documents
        sizes = (np.ones(len(by_pair[row])) if (own := counts[row].sizes) is None else own for row in first.values())
        folds = folds._replace(sizes=np.concatenate([*sizes]))
    return folds, losses


def _losses_of(columns: Mapping[str, Any], rows: npt.NDArray[np.intp], value: str, counts: list[_Counts]) -> Floats:
    """Points (seeds, sentences or documents) of these pairs; (seeds, 1) unless the contributions of all are known."""
    by_sentence = _losses_by_sentence(columns, rows, value) if "sentences" in columns and len(rows) else None
    if by_sentence is None:
        counts.append(_Counts())
        whole: Floats = -POINTS * columns["difference"][rows][:, None].astype(np.float64)
        return whole
    n = by_sentence.shape[1]
    documents = _common_values(columns, "documents", rows, n)
    codes = None if documents is None else np.unique(documents, return_inverse=True)[1]
    sizes = document_sizes(codes, n)
    counts.append(_Counts(n, None if sizes is None else len(sizes), sizes))
    return item_losses(by_sentence, codes, _common_values(columns, "words", rows, n))


def _common_values(
    columns: Mapping[str, Any], name: str, rows: npt.NDArray[np.intp], n: int
) -> npt.NDArray[Any] | None:
    """A column's values for each of `n` sentences, if all of these rows share them; None if unknown."""
    if name not in columns:
        return None
    arrays = [array for array in columns[name][rows].tolist() if array is not None and len(array) == n]
    return np.asarray(arrays[0]) if arrays else None


def _losses_by_sentence(columns: Mapping[str, Any], rows: npt.NDArray[np.intp], value: str) -> Floats | None:
    """Points (seeds, sentences); None where a trial has no contributions, or of other sentences or another metric."""
    sides = []
    for suffix in ("_base", ""):
        arrays = columns[f"sentences{suffix}"][rows].tolist()
        # Of another number of sentences, the dev split has changed under the sweep: they do not pair.
        if any(array is None or len(array) < 2 or len(array) != len(arrays[0]) for array in arrays):
            return None
        stack = np.stack(arrays).astype(np.float64)
        rounding = columns[f"{value}{suffix}"][rows].astype(np.float64) - stack.mean(axis=1)
        if (np.abs(rounding) > _SAME).any():
            return None
        sides.append(stack + rounding[:, None])  # they are stored in single precision
    return None if sides[0].shape != sides[1].shape else POINTS * (sides[0] - sides[1])


def _collapses(frame: pd.DataFrame) -> dict[str, Collapses]:
    """How many runs of each cell, and of its baseline, collapsed, among those for which it was recorded."""
    flags: dict[str, list[bool]] = {cell: [] for side in ("cell", "baseline") for cell in frame[side].unique()}
    if "collapsed" in frame.columns:
        recorded = np.flatnonzero(is_measured(frame, "collapsed"))
        for cell, flag in zip(frame["cell"].array[recorded], numbers(frame, "collapsed")[recorded], strict=True):
            flags[cell].append(flag == 1)
    return {cell: collapses(runs) for cell, runs in flags.items()}


def _unusable(rows: pd.DataFrame, codes: npt.NDArray[np.intp], own: tuple[Collapses, ...]) -> npt.NDArray[np.bool_]:
    """Which pairs a collapse makes unusable."""
    if "collapsed" not in rows.columns:
        return np.zeros(len(rows), dtype=bool)
    theirs, ours = (numbers(rows, name) == 1 for name in ("collapsed_base", "collapsed"))
    rare = np.array([runs.is_rare for runs in own], dtype=bool)
    # A baseline that collapsed tells nothing of a freeze; a freeze that mostly does is judged with its collapses.
    left_out: npt.NDArray[np.bool_] = theirs | (ours & rare[codes] if len(rows) else ours)
    return left_out
