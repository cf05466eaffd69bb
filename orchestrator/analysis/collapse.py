"""Runs that learned nothing: how they are recognised for any task, and how many there may be beyond those seen.

A run has collapsed if it scores as the best constant prediction does, or if its training loss did not fall: what
fine-tuning with a bad seed looks like (M. Mosbach, M. Andriushchenko and D. Klakow, "On the Stability of Fine-tuning
BERT", 2021, arXiv 2006.04884). The trial completes, and only its numbers show it. A run that scores below the constant
prediction has collapsed, too, unless its training loss fell by a quarter: where a task is hard, good runs scatter
around the majority class, and to leave those out would hide a loss.

A freeze that collapses is not recommended. Runs that are bad without a collapse, and rare, are not seen by a few seeds,
whatever the method: that condition stands in every answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orchestrator.analysis.rows import ROUNDING, Floats
from orchestrator.analysis.stability import clopper_pearson
from orchestrator.config.quantities import counted

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
        """Whether fewer than half of the runs collapsed: else collapsing is what the setting does."""
        return 2 * self.collapsed < self.runs

    @property
    def sentence(self) -> str:
        """What was seen and what is still possible."""
        if not self.runs:
            return "whether runs collapsed was not recorded"
        seen = f"{self.collapsed} of {counted(self.runs, 'run')} collapsed"
        return f"{seen}; up to {100 * self.possible:.0f} % could, {100 * self.level:g} % bound"


def collapses(collapsed: npt.ArrayLike, level: float = 0.95) -> Collapses:
    """The count and its bound from whether each run collapsed (runs,)."""
    runs = np.asarray(collapsed, dtype=bool)
    k, n = int(runs.sum()), len(runs)
    high = clopper_pearson(np.array([float(k)]), np.array([float(n)]), 2 * level - 1)[1][0]
    return Collapses(k, n, float(high) if n else 1.0, level)


def excess_p(own: Collapses, baseline: Collapses) -> float:
    """Chance of so many collapses among a setting's runs if it collapses as often as its baseline (Fisher's test)."""
    total, n = own.collapsed + baseline.collapsed, own.runs + baseline.runs
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
    found: Floats = np.where(np.isfinite(scores) & np.isfinite(constant), 1.0 - learned, np.nan)
    return found
