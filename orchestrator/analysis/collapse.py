"""Runs that learned nothing: how they are recognised for any task, and how many there may be beyond those seen.

A run has collapsed if its score is at or below that of the best constant prediction, or if its training loss did not
fall: what fine-tuning with a bad seed looks like (M. Mosbach, M. Andriushchenko and D. Klakow, "On the Stability of
Fine-tuning BERT", 2021, arXiv 2006.04884). The trial completes, and only its numbers show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orchestrator.analysis.rows import ROUNDING, Floats
from orchestrator.analysis.stability import clopper_pearson
from orchestrator.config.quantities import counted

LEAST_FALL = 0.05  # share of its start by which a training loss falls if anything is learned


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


def has_collapsed(scores: Floats, constant: Floats, fall: Floats) -> Floats:
    """1 for each run (runs,) that collapsed, 0 for the others, NaN where it was not recorded.

    Args:
        scores: (runs,) best scores on dev.
        constant: (runs,) scores of the best constant prediction there; NaN where not recorded.
        fall: (runs,) see `trials.record.loss_fall`; NaN where not recorded, which then decides nothing.
    """
    learned = (scores > constant + ROUNDING) & ~(fall < LEAST_FALL)
    found: Floats = np.where(np.isfinite(scores) & np.isfinite(constant), 1.0 - learned, np.nan)
    return found
