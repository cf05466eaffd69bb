"""The cells of a search or a sweep as a source of trials, stopped early by a schedule.

A cell is all replicates of one setting. It is suggested, its trials run until they end or the schedule stops them, and
the search receives their results. What a search knows follows from its suggestions, which the stored plan holds, and
from its trials in the store: these are read instead of run, so a new launch knows the same and continues the search.
A finished search returns what it found as text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Protocol

from orchestrator.analysis.cells import cell_label, cell_specs, group_by, objective_group, varying_settings
from orchestrator.config.quantities import amount, points
from orchestrator.execution.trial_queue import End, Source
from orchestrator.search.trial_results import Cell, Evaluation, StoredTrials, centre, stack_losses
from orchestrator.sweeps.search_spec import ScheduleSpec, less_is_better
from trials.metrics.metric import metric_label
from trials.record import EpochRecord, State
from trials.spec import TrialSpec


class Suggester(Protocol):
    """Suggests cells."""

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The replicates of the next cell, given those before; None if there are no more."""
        ...


class FixedCells:
    """The cells of a plan, in its order."""

    def __init__(self, trials: Iterable[TrialSpec]) -> None:
        self._cells = iter(cell_specs(trials).values())

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The next cell, independent of the results."""
        return next(self._cells, None)


class Asha:
    """Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter tuning", 2020).

    A trial reaches a rung at its first evaluation after `first`, `first * factor`, `first * factor^2`, ... It goes on
    if its cell is among the best `1 / factor` that have reached this rung so far, at least one; otherwise it stops. The
    value of a cell is the mean best score of its trials that have reached the rung, and only cells of one objective
    group are ranked against each other.
    """

    def __init__(self, spec: ScheduleSpec) -> None:
        self._spec = spec
        self._scores: dict[tuple[Hashable, int], dict[str, list[float]]] = {}  # by group and rung, of each cell

    def rung(self, evaluations: Sequence[Evaluation]) -> int | None:
        """The rung, counted from 1, that a trial reached at the last of its evaluations; None if it reached none."""
        before, now = map(self._n_passed, (evaluations[-2:-1], evaluations[-1:]))
        return now if now > before else None

    def continues(self, spec: TrialSpec, evaluations: Sequence[Evaluation]) -> bool:
        """Whether a trial goes on after these evaluations; to be asked once after each."""
        rung = self.rung(evaluations)
        if rung is None:
            return True
        cells = self._scores.setdefault((objective_group(spec), rung), {})
        cells.setdefault(spec.cell_id, []).append(max(evaluation.score for evaluation in evaluations))
        means = {cell_id: fmean(scores) for cell_id, scores in cells.items()}
        n_better = sum(mean > means[spec.cell_id] for mean in means.values())
        return n_better < max(1, int(len(means) / self._spec.factor))

    def _n_passed(self, newest: Sequence[Evaluation]) -> int:
        n = 0
        for evaluation in newest:
            time = evaluation.epoch if self._spec.by == "epochs" else evaluation.examples
            while self._spec.first * self._spec.factor**n <= time + 1e-9:
                n += 1
        return n


class Steering(Source):
    """A `Source` of the cells of a suggester, run as long as a schedule lets them.

    Attributes:
        cells: The cells suggested so far, in order.
    """

    def __init__(
        self, suggester: Suggester, schedule: ScheduleSpec, stored: StoredTrials, objective: str = "score"
    ) -> None:
        self._suggester, self._stored, self._objective = suggester, stored, objective
        self._asha = Asha(schedule) if schedule.kind == "asha" else None
        self.cells: list[Cell] = []
        self._cell_of: dict[str, Cell] = {}  # by trial id
        self._ready: deque[TrialSpec] = deque()
        self._records: dict[str, list[EpochRecord]] = {}  # of the trials that were handed out

    @property
    def is_over(self) -> bool:
        """Whether no trial will follow, provided that none is running."""
        return not (self._records or self._ready or self._suggest_cell())

    def next(self) -> TrialSpec | None:
        """The next replicate, else the first trial of a new cell; those that the store has are taken from there."""
        while self._ready or self._suggest_cell():
            spec = self._ready.popleft()
            if not self._from_store(spec):
                self._records[spec.trial_id] = []
                return spec
        return None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> bool:
        """Record an evaluation and decide whether the trial continues."""
        records, trial = self._records[spec.trial_id], self._cell_of[spec.trial_id].progress[spec.trial_id]
        records.append(record)
        is_new = trial.add(Evaluation(record.epoch, record.examples_seen, record.score))
        if record.last:
            trial.complete(records)
        return record.last or not is_new or self._asha is None or self._asha.continues(spec, trial.evaluations)

    def ended(self, end: End) -> None:
        """The trial has ended; if elsewhere, its results are in the store."""
        spec = end.spec
        del self._records[spec.trial_id]
        if not end.is_here:
            self._stored.look_for(spec.trial_id)
            if self._from_store(spec):
                return
        self._end(spec, end.state)

    def answer_lines(self, columns: int = 100) -> list[str]:
        """The best cells."""
        return result_lines(self.cells, self._objective)

    def _suggest_cell(self) -> bool:
        """Ask for the next cell; return whether there is one."""
        specs = self._suggester.suggest(self.cells)
        if specs is None:
            return False
        cell = Cell(specs)
        self.cells.append(cell)
        self._cell_of |= {spec.trial_id: cell for spec in specs}
        self._ready.extend(specs)
        return True

    def _from_store(self, spec: TrialSpec) -> bool:
        """Take a trial from the store as if it had just run; False if it did not end there as it would here."""
        stored = self._stored.progress(spec.trial_id)
        is_complete, asha = stored.results is not None, self._asha
        if not is_complete and (stored.state is not State.PRUNED or asha is None or not asha.rung(stored.evaluations)):
            return False
        if asha is not None:
            for n in range(1, len(stored.evaluations) + (not is_complete)):
                asha.continues(spec, stored.evaluations[:n])
        self._cell_of[spec.trial_id].progress[spec.trial_id] = stored
        self._end(spec, State.COMPLETED if is_complete else State.PRUNED)
        return True

    def _end(self, spec: TrialSpec, state: State) -> None:
        cell = self._cell_of[spec.trial_id]
        cell.ends[spec.trial_id] = cell.progress[spec.trial_id].state = state


def result_lines(cells: Sequence[Cell], objective: str = "score") -> list[str]:
    """The best cell of each objective group."""
    varying = varying_settings([spec for cell in cells for spec in cell.specs[:1]])
    lines = []
    for group in group_by(cells, lambda cell: cell.group).values():
        cell = best_cell(group, objective)
        if cell is not None:
            lines += [f"best    {cell_label(cell.specs[0], varying)}: {_value(cell, objective)}", *_test_lines(cell)]
    n_early = sum(list(cell.ends.values()).count(State.PRUNED) for cell in cells)
    if n_early:
        n_trials = amount(sum(len(cell.specs) for cell in cells), "trial")
        lines.append(f"        {n_early} of {n_trials} stopped early")
    return lines


def best_cell(cells: Sequence[Cell], objective: str = "score") -> Cell | None:
    """The cell with the best mean over complete trials; of equal cells the first.

    A cell that was stopped under some seeds is considered only if every cell was.
    """
    means = [(cell, mean) for cell in cells if (mean := cell.mean(objective)) is not None]
    whole = [(cell, mean) for cell, mean in means if State.PRUNED not in cell.ends.values()]
    sign = -1 if less_is_better(objective) else 1
    best = max(whole or means, key=lambda found: sign * found[1], default=None)
    return None if best is None else best[0]


def _value(cell: Cell, objective: str) -> str:
    from orchestrator.analysis.describe import describe  # loads pandas

    seeds = describe([value for results in cell.results() if (value := results.get(objective)) is not None])
    spread = f" ± {points(seeds.std)}" if seeds.n > 1 else ""
    n = amount(len(cell.results()), "seed")
    return f"{metric_label(objective)} {points(seeds.mean)}{spread} on dev, which selected it ({n})"


def _test_lines(cell: Cell) -> Iterator[str]:
    """The score of a selected setting on the split that took no part in selecting it, and how many runs collapsed."""
    from orchestrator.analysis.losses import collapses  # loads scipy
    from orchestrator.analysis.two_way import document_sizes, interval, item_losses

    items, sizes = [], None
    for trial in cell.progress.values():
        if trial.results is not None and (score := trial.results["test_score"]) is not None:
            sentences = trial.sentences.get("test", {})
            # The guarded end of an interval is that of large losses: of low scores.
            values = -centre(sentences.get("sentences"), score)
            items.append(item_losses(values[None], sentences.get("documents"), sentences.get("words"))[0])
            sizes = document_sizes(sentences.get("documents"), len(values))
    if items:
        test = interval(stack_losses(items), sizes=sizes)
        ends = ""
        if test.low is not None and test.high is not None:
            sample = "seeds" if test.n_sentences is None else "seeds and sentences"
            ends = f" ({points(-test.high)} to {points(-test.low)}, 95 % interval over {sample})"
        yield f"        score {points(-test.mean)}{ends} on test, which took no part in that"
    if collapsed := [trial.has_collapsed for trial in cell.progress.values() if trial.has_collapsed is not None]:
        yield f"        {collapses(collapsed).sentence}"
