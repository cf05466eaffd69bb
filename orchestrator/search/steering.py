"""A search and a scheduler as one source of trials.

A cell is all replicates of one setting. It is suggested, its trials run until the scheduler pauses them, it is ranked
when all have paused, and reported to the search when all have ended. Trials in the store are replayed from there
instead of run, in the same way: so a new launch makes the same decisions and then resumes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from orchestrator.analysis.cells import by_cell
from orchestrator.execution.trial_source import Order, Verdict
from orchestrator.search.cell import Cell
from orchestrator.search.findings import result_lines
from orchestrator.search.schedule import NoEarlyStopping
from orchestrator.search.trial_results import Evaluation, StoredTrials, TrialProgress
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import ScheduleSpec
from trials.record import EpochRecord
from trials.spec import TrialSpec


class Suggester(Protocol):
    """Suggests cells."""

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The replicates of the next cell, given those suggested before; None if there are no more."""
        ...


class FixedCells:
    """The cells of a plan, in its order."""

    def __init__(self, trials: Iterable[TrialSpec]) -> None:
        self._left = list(by_cell(trials).values())[::-1]

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The next cell, independent of the results."""
        return self._left.pop() if self._left else None


class Steering:
    """A `Source` of the cells of a suggester, run as long as a scheduler decides.

    Attributes:
        cells: The cells suggested so far, in order.
    """

    def __init__(
        self,
        suggester: Suggester,
        scheduler: NoEarlyStopping,
        by: ScheduleSpec,
        stored: StoredTrials,
        objectives: Sequence[str] = ("score",),
    ) -> None:
        self._objectives = objectives
        self._suggester, self._scheduler, self._by, self._stored = suggester, scheduler, by, stored
        self.cells: list[Cell] = []
        self._cell_of: dict[str, Cell] = {}  # by trial id
        self._by_id: dict[str, Cell] = {}
        self._ready: deque[TrialSpec] = deque()
        self._records: dict[str, list[EpochRecord]] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._is_closed = False
        self._n_running = 0

    @property
    def is_over(self) -> bool:
        """Whether no trial will follow, provided that none is running."""
        if not self._is_closed or self._ready or self._n_running:
            return False
        self._promote()
        return not self._ready

    def next(self) -> Order | None:
        """A promoted trial, else the next replicate, else the first trial of a new cell."""
        while True:
            if not self._ready:
                self._promote()
            if not self._ready and not self._suggest():
                return None
            while self._ready:
                spec = self._ready.popleft()
                cell = self._cell_of[spec.trial_id]
                if spec.trial_id not in cell.over and not self._from_store(cell, spec):
                    self._n_running += 1
                    self._records[spec.trial_id] = []
                    return Order(spec, cell.until)

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """Record an evaluation and decide whether the trial continues."""
        self._records[spec.trial_id].append(record)
        cell = self._cell_of[spec.trial_id]
        evaluation = Evaluation(record.epoch, record.examples_seen, record.score)
        if record.last:
            cell.progress[spec.trial_id].add(evaluation)
            cell.progress[spec.trial_id].complete(self._records[spec.trial_id])
            return Verdict.CONTINUE
        verdict = self._verdict(cell, spec, evaluation)
        if verdict is not Verdict.CONTINUE:
            self._verdicts[spec.trial_id] = verdict
        return verdict

    def ended(self, spec: TrialSpec, state: State) -> None:
        """The trial is paused or has ended."""
        cell = self._cell_of[spec.trial_id]
        self._n_running -= 1
        verdict = self._verdicts.pop(spec.trial_id, None)
        self._settle(cell, spec, state, paused=state is State.PRUNED and verdict is Verdict.PAUSE)

    def settle(self, spec: TrialSpec, state: State) -> None:
        """Take its evaluations from the store."""
        cell = self._cell_of[spec.trial_id]
        self._n_running -= 1
        self._stored.look_for(spec.trial_id)
        if not self._from_store(cell, spec):
            self._settle(cell, spec, state, paused=False)

    def chances(self) -> None:
        """Nobody can tell which settings will go on."""

    def found(self) -> list[str]:
        """The best cells."""
        return result_lines(self.cells, self._objectives)

    def _verdict(self, cell: Cell, spec: TrialSpec, evaluation: Evaluation) -> Verdict:
        is_new = cell.progress[spec.trial_id].add(evaluation)
        if cell.until is not None and evaluation.epoch >= cell.until - 1e-9:
            return Verdict.PAUSE
        time = evaluation.epoch if self._by.by == "epochs" else float(evaluation.examples)
        score = evaluation.score
        if is_new and not self._scheduler.continues(cell.cell_id, cell.group, spec.seeds.key, time, score):
            return Verdict.STOP
        return Verdict.CONTINUE

    def _settle(self, cell: Cell, spec: TrialSpec, state: State, *, paused: bool) -> None:
        if paused:
            cell.waiting.add(spec.trial_id)
        else:
            cell.over[spec.trial_id] = state
            cell.progress[spec.trial_id].state = state
        if len(cell.waiting) + len(cell.over) < len(cell.specs):
            return
        score = cell.mean_best(float("inf") if cell.until is None else cell.until)
        if cell.waiting and score is not None:
            self._scheduler.reached(cell.cell_id, score)
        else:
            self._scheduler.left(cell.cell_id)

    def _from_store(self, cell: Cell, spec: TrialSpec) -> bool:
        """Replay a trial from the store as if it had just run; False if the store does not have it as far as needed."""
        stored, trial = self._stored.of(spec.trial_id), cell.progress[spec.trial_id]
        for evaluation in stored.evaluations:
            is_last = stored.results is not None and evaluation is stored.evaluations[-1]
            if not is_last and evaluation.epoch > (trial.evaluations[-1].epoch if trial.evaluations else 0.0) + 1e-9:
                verdict = self._verdict(cell, spec, evaluation)
                if verdict is not Verdict.CONTINUE:
                    self._settle(cell, spec, State.PRUNED, paused=verdict is Verdict.PAUSE)
                    return True
        if stored.results is None:
            return False
        cell.progress[spec.trial_id] = stored
        self._settle(cell, spec, State.COMPLETED, paused=False)
        return True

    def _promote(self) -> None:
        """Make the trials of every promoted cell ready."""
        while (cell_id := self._scheduler.promoted()) is not None:
            cell = self._by_id[cell_id]
            cell.waiting.clear()
            self._extend(cell, cell.alive)

    def _suggest(self) -> bool:
        """Ask for another cell; whether any trial is ready now."""
        if self._is_closed:
            return False
        specs = self._suggester.suggest(self.cells)
        if specs is None:
            self._is_closed = True
            self._scheduler.closed()
            self._promote()
            return bool(self._ready)
        cell = Cell(specs, {spec.trial_id: TrialProgress() for spec in specs})
        self.cells.append(cell)
        self._by_id[cell.cell_id] = cell
        self._cell_of |= {spec.trial_id: cell for spec in specs}
        self._extend(cell, specs)
        return True

    def _extend(self, cell: Cell, specs: Sequence[TrialSpec]) -> None:
        first, counts_epochs = cell.specs[0], self._by.by == "epochs"
        end = first.optim.epochs * (1 if counts_epochs else first.train_size)
        until = self._scheduler.until(cell.cell_id, cell.group, end)
        cell.until = until if until is None or counts_epochs else until / first.train_size
        self._ready.extend(specs)
