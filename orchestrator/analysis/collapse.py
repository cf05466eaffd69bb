"""Runs that learned nothing: how they are recognised for any task, and how many there may be beyond those seen.

A run has collapsed if its score is at or below that of the best constant prediction, or if its training loss did not
fall: what fine-tuning with a bad seed looks like (M. Mosbach, M. Andriushchenko and D. Klakow, "On the Stability of
Fine-tuning BERT", 2021, arXiv 2006.04884). The trial completes, and only its numbers show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orchestrator.analysis.rows import Floats, number
from orchestrator.analysis.stability import clopper_pearson
from trials.metrics.pseudo_values import Score

ROUNDING = 1e-9  # scores of equal counts differ by less
LEAST_FALL = 0.05  # share of its start by which a training loss falls if anything is learned


@dataclass(frozen=True)
class Collapses:
    """How many runs collapsed.

    Attributes:
        collapsed: Runs that did.
        runs: Runs that ended and are evidence.
        possible: Largest share of runs that may collapse, by the one-sided bound of Clopper and Pearson; 1 without
            runs.
        level: Of that bound.
    """

    collapsed: int
    runs: int
    possible: float
    level: float

    @property
    def sentence(self) -> str:
        """What was seen and what is still possible."""
        if not self.runs:
            return "no run has ended: nothing is known of collapses"
        seen = f"{self.collapsed} of {number(self.runs, 'run')} collapsed"
        return f"{seen}; up to {100 * self.possible:.0f} % could, {100 * self.level:g} % bound"


def collapses(collapsed: npt.ArrayLike, level: float = 0.95) -> Collapses:
    """The count and its bound from whether each run collapsed (runs,)."""
    runs = np.asarray(collapsed, dtype=bool)
    k, n = int(runs.sum()), len(runs)
    high = clopper_pearson(np.array([float(k)]), np.array([float(n)]), 2 * level - 1)[1][0]
    return Collapses(k, n, float(high) if n else 1.0, level)


def has_collapsed(scores: Floats, constant: float | Floats, fell: npt.ArrayLike = True) -> npt.NDArray[np.bool_]:
    """Whether each run collapsed (runs,).

    Args:
        scores: (runs,) on the split whose gold labels `constant` is of; NaN of a diverged run, which counts as
            collapsed.
        constant: Score of the best constant prediction, see `constant_score`; 0 for spans and correlations.
        fell: (runs,) whether the training loss fell, see `loss_fell`; true where it is not known.
    """
    learned = (scores > np.asarray(constant) + ROUNDING) & np.asarray(fell, dtype=bool)
    collapsed: npt.NDArray[np.bool_] = ~learned
    return collapsed


def constant_score(support: npt.ArrayLike, score: Score) -> float:
    """The best score of predicting one label for all items.

    For accuracy it is the share of the most frequent label, for Matthews' correlation 0, for the F1 of a label that of
    predicting it everywhere.

    Args:
        support: (labels,) items of each label in gold.
        score: Takes counts (..., 3, labels) to scores, as those of `pseudo_values`.

    Raises:
        ValueError: There is no item.
    """
    gold = np.asarray(support, dtype=np.float64)
    if not gold.sum() > 0:
        raise ValueError("a split without items has no constant prediction")
    each = np.eye(len(gold))  # (predictions, labels)
    counts = np.stack([np.broadcast_to(gold, each.shape), each * gold.sum(), each * gold], axis=1)
    return float(score(counts).max())


def loss_fell(losses: npt.ArrayLike) -> bool:
    """Whether a training loss fell: its last tenth lies, in the mean, `LEAST_FALL` below its first tenth.

    Args:
        losses: (steps,) in order; one that is not finite at the end has not fallen.

    Raises:
        ValueError: There are fewer than two steps.
    """
    steps = np.asarray(losses, dtype=np.float64)
    if len(steps) < 2:
        raise ValueError(f"a loss of {number(len(steps), 'step')} cannot fall")
    tenth = max(1, len(steps) // 10)
    return bool(steps[-tenth:].mean() <= (1 - LEAST_FALL) * steps[:tenth].mean())
