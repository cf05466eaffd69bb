"""Races of replicates (Maron and Moore 1994; Birattari et al. 2002): seeds are spent where they decide.

Every cell gets its first seed. Then rounds of one more seed for each cell that is still in the race; after each, a cell
leaves that is clearly worse than the best one on the seeds they share. Which test says so is the sweep's to choose:

- `student`: the mean of the paired differences over its standard error, with one variance for all cells of a group
  (what is left of their scores after the means of cells and of seeds are taken out). It can tell after the first seed,
  as a few of the best cells get a second one to estimate that variance from.
- `wilcoxon`: the signed ranks of the same differences, exact; below five of them it cannot reach 5 %.
- `hoeffding`: for scores between 0 and 1, nothing else supposed: the two means with their bounds (Hoeffding 1963).

The error (1 - confidence) is shared equally by all looks and all cells, so it bounds the chance that the best cell
leaves, for `student` as far as scores are normal with equal variances.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from orchestrator.execution.trial_source import Order, Verdict
from orchestrator.search.cell import Cell
from orchestrator.search.findings import found_lines
from orchestrator.search.trial_results import Evaluation, Seen, StoredTrials, results_of
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import RacingSpec
from trials.record import EpochRecord
from trials.spec import TrialSpec

PROBED = 10  # one cell in so many gets a second seed first, and at least ...
LEAST_PROBED = 6

Scores = Sequence[float]


class Race:
    """A `Source` of a plan's trials, a seed at a time.

    Attributes:
        cells: All cells.
        left: Ids of those that left the race.
    """

    def __init__(self, cells: Sequence[Sequence[TrialSpec]], spec: RacingSpec, known: StoredTrials) -> None:
        """`cells` are replicates in the order of the seeds, which is the same for all."""
        self.cells = [Cell(specs, {one.trial_id: Seen() for one in specs}) for specs in cells]
        self.left: set[str] = set()
        self._spec, self._known = spec, known
        self._n_seeds = max((len(cell.specs) for cell in self.cells), default=0)
        self._cell_of = {one.trial_id: cell for cell in self.cells for one in cell.specs}
        self._records: dict[str, list[EpochRecord]] = {}
        self._ready: deque[TrialSpec] = deque()
        self._begun: dict[str, int] = dict.fromkeys((cell.cell_id for cell in self.cells), 0)  # seeds
        self._running: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether every cell has all its seeds or has left."""
        return not self._running and not self._ready and not self._next_round()

    def next(self) -> Order | None:
        """The next trial of a round; None while the round waits for its last ones."""
        while self._ready or (not self._running and self._next_round()):
            spec = self._ready.popleft()
            if not self._from_store(spec):
                self._running.add(spec.trial_id)
                self._records[spec.trial_id] = []
                return Order(spec)
        return None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """Note it; all go on to their end."""
        self._records[spec.trial_id].append(record)
        seen = self._cell_of[spec.trial_id].seen[spec.trial_id]
        seen.add(Evaluation(record.epoch, record.examples_seen, record.score))
        if record.last:
            seen.results = results_of(self._records.pop(spec.trial_id))
        return Verdict.CONTINUE

    def ended(self, spec: TrialSpec, state: State) -> None:
        """A cell with a trial that did not complete leaves the race."""
        self._running.discard(spec.trial_id)
        cell = self._cell_of[spec.trial_id]
        cell.over[spec.trial_id] = state
        if state is not State.COMPLETED:
            self.left.add(cell.cell_id)

    def found(self) -> list[str]:
        """The best cell of those that stayed to the end, and how many left."""
        stayed = [cell for cell in self.cells if cell.cell_id not in self.left]
        left = f"        {len(self.left)} of {len(self.cells)} cells left the race early"
        return [*found_lines(stayed), *([left] if self.left else [])]

    def _next_round(self) -> bool:
        """Look who leaves, and make the next trials ready; whether there are any."""
        for cells in self._groups():
            racing = [cell for cell in cells if cell.cell_id not in self.left]
            self._drop_dominated(racing)
            racing = [cell for cell in racing if cell.cell_id not in self.left]
            self._add_seed(racing)
        return bool(self._ready)

    def _groups(self) -> list[list[Cell]]:
        found: dict[Hashable, list[Cell]] = {}
        for cell in self.cells:
            found.setdefault(cell.group, []).append(cell)
        return list(found.values())

    def _add_seed(self, racing: Sequence[Cell]) -> None:
        """One more seed for those that have the fewest; the second one to a few of the best first."""
        least = min((self._begun[cell.cell_id] for cell in racing), default=self._n_seeds)
        if least >= self._n_seeds:
            return
        behind = [cell for cell in racing if self._begun[cell.cell_id] == least]
        if least == 1 and self._spec.test == "student" and len(behind) == len(racing):
            n = max(LEAST_PROBED, len(behind) // PROBED)
            behind = sorted(behind, key=lambda cell: -(cell.mean("score") or 0.0))[:n]
        for cell in behind:
            self._ready.append(cell.specs[least])
            self._begun[cell.cell_id] += 1

    def _drop_dominated(self, racing: Sequence[Cell]) -> None:
        """Compare each with the best of those that have most seeds."""
        scores = {cell.cell_id: _scores(cell) for cell in racing}
        if len(racing) < 2 or not all(scores.values()):
            return
        most = max(map(len, scores.values()))
        leader = max((i for i in scores if len(scores[i]) == most), key=lambda i: statistics.fmean(scores[i]))
        error = (1 - self._spec.confidence) / (self._n_seeds * max(len(self.cells) - 1, 1))
        is_worse = _TESTS[self._spec.test](list(scores.values()), error)
        for cell_id, own in scores.items():
            if cell_id != leader and is_worse(own, scores[leader][: len(own)]):
                self.left.add(cell_id)

    def _from_store(self, spec: TrialSpec) -> bool:
        known = self._known.of(spec.trial_id)
        if known.results is None:
            return False
        self._cell_of[spec.trial_id].seen[spec.trial_id] = known
        self._cell_of[spec.trial_id].over[spec.trial_id] = State.COMPLETED
        return True


def _scores(cell: Cell) -> list[float]:
    """Of the complete replicates, in the order of the seeds."""
    found = [cell.seen[spec.trial_id].results for spec in cell.specs]
    return [results["score"] or 0.0 for results in found if results is not None]


IsWorse = Callable[[Scores, Scores], bool]


def by_student(scores: Sequence[Scores], error: float) -> IsWorse:
    """By one variance for all; nothing is worse where there is none to estimate it from."""
    from scipy.stats import t

    variance, freedom = residual_variance([one for one in scores if len(one) == max(map(len, scores))])

    def is_worse(own: Scores, best: Scores) -> bool:
        if not freedom:
            return False
        loss = statistics.fmean(best) - statistics.fmean(own)
        return loss > float(t.isf(error, freedom)) * math.sqrt(2 * variance / len(own))

    return is_worse


def residual_variance(scores: Sequence[Scores]) -> tuple[float, int]:
    """Of scores (cells, seeds) without the means of cells and of seeds, and its degrees of freedom, (c - 1)(s - 1)."""
    table = np.array(scores, np.float64)
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom < 2:
        return math.nan, 0
    left = table - table.mean(1, keepdims=True) - table.mean(0, keepdims=True) + table.mean()
    return float((left**2).sum() / freedom), freedom


def by_wilcoxon(scores: Sequence[Scores], error: float) -> IsWorse:
    """By the signed ranks of paired differences."""
    from scipy.stats import wilcoxon

    def is_worse(own: Scores, best: Scores) -> bool:
        differences = np.subtract(best, own)
        if len(own) < 2 or not differences.any():
            return False
        return bool(wilcoxon(differences, alternative="greater", method="auto").pvalue <= error)

    return is_worse


def by_hoeffding(scores: Sequence[Scores], error: float) -> IsWorse:
    """By means that are apart by more than both bounds, each sqrt(ln(2 / error) / 2n)."""

    def is_worse(own: Scores, best: Scores) -> bool:
        half = math.sqrt(math.log(2 / error) / (2 * len(own)))
        return statistics.fmean(best) - statistics.fmean(own) > 2 * half

    return is_worse


_TESTS = {"student": by_student, "wilcoxon": by_wilcoxon, "hoeffding": by_hoeffding}
