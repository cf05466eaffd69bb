"""A search and a scheduler as one source of trials.

A cell is all replicates of one point. It is suggested, its trials run as far as the scheduler lets them, it is ranked
when all of them have come there, and told to the search when they are over. What the store knows is taken from there
instead of run, by the same way: so launching again goes through the same decisions and goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from orchestrator.analysis.cells import by_cell
from orchestrator.execution.trial_source import Order, Verdict
from orchestrator.search.cell import Cell
from orchestrator.search.findings import found_lines
from orchestrator.search.schedule import Scheduler
from orchestrator.search.trial_results import Evaluation, Seen, StoredTrials, results_of
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import ScheduleSpec
from trials.record import EpochRecord
from trials.spec import TrialSpec


class Suggester(Protocol):
    """Gives cells."""

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The replicates of the next cell, in the light of those suggested before; None if there will be none."""
        ...


class FixedCells:
    """A plan's cells, in its order."""

    def __init__(self, trials: Iterable[TrialSpec]) -> None:
        self._left = list(by_cell(trials).values())[::-1]

    def suggest(self, past: Sequence[Cell]) -> Sequence[TrialSpec] | None:
        """The next one, whatever came before."""
        return self._left.pop() if self._left else None


class Steering:
    """A `Source` of a suggester's cells, as far as a scheduler lets them run.

    Attributes:
        cells: Those suggested so far, in order.
    """

    def __init__(
        self,
        suggester: Suggester,
        scheduler: Scheduler,
        by: ScheduleSpec,
        known: StoredTrials,
        objectives: Sequence[str] = ("score",),
    ) -> None:
        self._objectives = objectives
        self._suggester, self._scheduler, self._by, self._known = suggester, scheduler, by, known
        self.cells: list[Cell] = []
        self._cell_of: dict[str, Cell] = {}  # by trial
        self._by_id: dict[str, Cell] = {}
        self._ready: deque[TrialSpec] = deque()
        self._records: dict[str, list[EpochRecord]] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._is_closed = False
        self._n_running = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more, if nothing runs."""
        return self._is_closed and not self._ready and not self._n_running and self._looked_for_more()

    def next(self) -> Order | None:
        """A promoted trial, else the next replicate, else the first of a new cell."""
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
        """Note it, and say whether the trial goes on."""
        self._records[spec.trial_id].append(record)
        cell = self._cell_of[spec.trial_id]
        evaluation = Evaluation(record.epoch, record.examples_seen, record.score)
        if record.last:
            cell.seen[spec.trial_id].add(evaluation)
            cell.seen[spec.trial_id].results = results_of(self._records[spec.trial_id])
            return Verdict.CONTINUE
        verdict = self._verdict(cell, spec, evaluation)
        if verdict is not Verdict.CONTINUE:
            self._verdicts[spec.trial_id] = verdict
        return verdict

    def ended(self, spec: TrialSpec, state: State) -> None:
        """The trial waits at its rung, or is over."""
        cell = self._cell_of[spec.trial_id]
        self._n_running -= 1
        verdict = self._verdicts.pop(spec.trial_id, None)
        self._settle(cell, spec, state, paused=state is State.PRUNED and verdict is Verdict.PAUSE)

    def found(self) -> list[str]:
        """The best cells."""
        return found_lines(self.cells, self._objectives)

    def _verdict(self, cell: Cell, spec: TrialSpec, evaluation: Evaluation) -> Verdict:
        is_new = cell.seen[spec.trial_id].add(evaluation)
        if cell.until is not None and evaluation.epoch >= cell.until - 1e-9:
            return Verdict.PAUSE
        time = evaluation.epoch if self._by.by == "epochs" else float(evaluation.examples)
        score = evaluation.score
        if is_new and not self._scheduler.goes_on(cell.cell_id, cell.group, spec.seed, time, score):
            return Verdict.STOP
        return Verdict.CONTINUE

    def _settle(self, cell: Cell, spec: TrialSpec, state: State, *, paused: bool) -> None:
        if paused:
            cell.waiting.add(spec.trial_id)
        else:
            cell.over[spec.trial_id] = state
            cell.seen[spec.trial_id].state = state
        if len(cell.waiting) + len(cell.over) < len(cell.specs):
            return
        score = cell.mean_best(float("inf") if cell.until is None else cell.until)
        if cell.waiting and score is not None:
            self._scheduler.reached(cell.cell_id, score)
        else:
            self._scheduler.left(cell.cell_id)

    def _from_store(self, cell: Cell, spec: TrialSpec) -> bool:
        """Whether the store has what would be run: then it is as if it had just happened."""
        known, seen = self._known.of(spec.trial_id), cell.seen[spec.trial_id]
        for evaluation in known.evaluations:
            is_last = known.results is not None and evaluation is known.evaluations[-1]
            if not is_last and evaluation.epoch > (seen.evaluations[-1].epoch if seen.evaluations else 0.0) + 1e-9:
                verdict = self._verdict(cell, spec, evaluation)
                if verdict is not Verdict.CONTINUE:
                    self._settle(cell, spec, State.PRUNED, paused=verdict is Verdict.PAUSE)
                    return True
        if known.results is None:
            return False
        seen.evaluations, seen.results = known.evaluations, known.results
        self._settle(cell, spec, State.COMPLETED, paused=False)
        return True

    def _promote(self) -> None:
        """The trials of every cell that may go on become ready."""
        while (cell_id := self._scheduler.promoted()) is not None:
            cell = self._by_id[cell_id]
            cell.waiting.clear()
            self._go_on(cell, cell.alive)

    def _suggest(self) -> bool:
        """Ask for another cell; whether there is something to run or to take from the store now."""
        if self._is_closed:
            return False
        specs = self._suggester.suggest(self.cells)
        if specs is None:
            self._is_closed = True
            self._scheduler.closed()
            self._promote()
            return bool(self._ready)
        cell = Cell(specs, {spec.trial_id: Seen() for spec in specs})
        self.cells.append(cell)
        self._by_id[cell.cell_id] = cell
        self._cell_of |= {spec.trial_id: cell for spec in specs}
        self._go_on(cell, specs)
        return True

    def _go_on(self, cell: Cell, specs: Sequence[TrialSpec]) -> None:
        first, counts_epochs = cell.specs[0], self._by.by == "epochs"
        end = first.optim.epochs * (1 if counts_epochs else first.train_size)
        until = self._scheduler.until(cell.cell_id, cell.group, end)
        cell.until = until if until is None or counts_epochs else until / first.train_size
        self._ready.extend(specs)

    def _looked_for_more(self) -> bool:
        """Whether the scheduler, asked once more, promotes nothing."""
        self._promote()
        return not self._ready
