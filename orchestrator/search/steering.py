"""A search and a scheduler as one source of trials.

A cell is all replicates of one setting. It is suggested, its trials run until the scheduler pauses them, it is ranked
when all have paused, and reported to the search when all have ended. Which cell is suggested, which one is promoted,
and which trial is stopped early are decisions (`DecisionLog`): whatever drivers share the search, each is made once,
and all of them follow it. What a search knows is a function of its decisions and of the evaluations of its trials.
Those in the store are taken from there instead of run, so a new launch, or another driver, knows the same and then
resumes. A finished search tells what it found as text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from orchestrator.analysis.cells import by_cell, cell_label, grouped, varying_settings
from orchestrator.config.quantities import counted, points
from orchestrator.execution.trial_source import Order, Source, Verdict
from orchestrator.search.schedule import NoEarlyStopping
from orchestrator.search.trial_results import Cell, Evaluation, StoredTrials, TrialProgress, centred, stacked
from orchestrator.store.decisions import Choice, DecisionLog, Promoted, Stopped, Suggested
from orchestrator.store.sweep_plans import SweepPlan
from orchestrator.sweeps.search_spec import COSTS, ScheduleSpec, less_is_better
from trials.metrics.metric import metric_label
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State

_EPS = 1e-9  # of an epoch


class Suggester(Protocol):
    """Suggests cells.

    Attributes:
        is_adaptive: Whether its suggestions depend on results, and are decisions.
    """

    is_adaptive: bool

    def suggest(self, past: Sequence[Cell]) -> tuple[Suggested, Sequence[TrialSpec]] | None:
        """The next cell and its replicates, given those before; None if there are no more."""
        ...

    def add(self, suggested: Suggested) -> Sequence[TrialSpec] | None:
        """The replicates of a suggestion that is followed; None if it is no new cell of the space."""
        ...


class FixedCells:
    """The cells of a plan, in its order."""

    is_adaptive = False

    def __init__(self, trials: Iterable[TrialSpec]) -> None:
        self._cells = list(by_cell(trials).values())

    def suggest(self, past: Sequence[Cell]) -> tuple[Suggested, Sequence[TrialSpec]] | None:
        """The next cell, independent of the results."""
        return (Suggested(len(past), {}), self._cells[len(past)]) if len(past) < len(self._cells) else None

    def add(self, suggested: Suggested) -> Sequence[TrialSpec]:
        """The replicates of a cell."""
        return self._cells[suggested.number]


class Steering(Source):
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
        log: DecisionLog | None = None,
        plan_of: Callable[[Sequence[TrialSpec]], SweepPlan] | None = None,
    ) -> None:
        """`log` has the decisions of all drivers, and `plan_of` makes what it keeps of the trials of a suggested cell.
        Without them nobody shares or records decisions.
        """
        self._objectives, self._log, self._plan_of = objectives, log, plan_of
        self._suggester, self._scheduler, self._by, self._stored = suggester, scheduler, by, stored
        self.cells: list[Cell] = []
        self._cell_of: dict[str, Cell] = {}  # by trial id
        self._by_id: dict[str, Cell] = {}
        self._ready: deque[TrialSpec] = deque()
        self._out: dict[str, float | None] = {}  # trials that were handed out, and the epoch at which they pause
        self._records: dict[str, list[EpochRecord]] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._stopped: set[str] = set()
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether no trial will follow, provided that none is running."""
        return self._is_closed and not (self._ready or self._out) and not self._decide(look=True)

    def next(self) -> Order | None:
        """A promoted trial, else the next replicate, else the first trial of a new cell."""
        while self._ready or self._decide():
            while self._ready:
                spec = self._ready.popleft()
                cell = self._cell_of[spec.trial_id]
                if spec.trial_id not in cell.over and not self._from_store(cell, spec):
                    self._out[spec.trial_id] = cell.until
                    self._records[spec.trial_id] = []
                    return Order(spec, cell.until)
        return None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """Record an evaluation and decide whether the trial continues."""
        self._records[spec.trial_id].append(record)
        trial = self._cell_of[spec.trial_id].progress[spec.trial_id]
        evaluation = Evaluation(record.epoch, record.examples_seen, record.score)
        if record.last:
            trial.add(evaluation)
            trial.complete(self._records[spec.trial_id])
            return Verdict.CONTINUE
        verdict = self._verdict(spec, evaluation)
        if verdict is not Verdict.CONTINUE:
            self._verdicts[spec.trial_id] = verdict
        return verdict

    def ended(self, spec: TrialSpec, state: State) -> None:
        """The trial is paused or has ended."""
        del self._out[spec.trial_id]
        verdict = self._verdicts.pop(spec.trial_id, None)
        if state is State.PRUNED and verdict is Verdict.PAUSE:
            self._paused(spec)
        else:
            self._over(spec, state)

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """Take its evaluations from the store."""
        cell = self._cell_of[spec.trial_id]
        del self._out[spec.trial_id], self._records[spec.trial_id]
        self._stored.look_for(spec.trial_id)
        if state is State.PRUNED:  # another driver may have stopped it
            self._catch_up()
        if not self._from_store(cell, spec):
            if state is State.PRUNED:  # by a schedule that pauses it earlier
                self._ready.append(spec)
            else:
                self._over(spec, state)
        return spec.trial_id in cell.over

    def found(self, columns: int = 100) -> list[str]:
        """The best cells."""
        return result_lines(self.cells, self._objectives)

    # --- Decisions

    def _following(self, *, look: bool = False) -> Choice | None:
        """The next decision that was made before, or by another driver; with `look` it is looked for."""
        return None if self._log is None else self._log.following(look=look)

    def _make(self, choice: Choice, specs: Sequence[TrialSpec] = ()) -> Choice:
        """Decide; this choice, or one of another driver, which has to be followed first."""
        return choice if self._log is None or self._plan_of is None else self._log.make(choice, self._plan_of(specs))

    def _decide(self, *, look: bool = False) -> bool:
        """Follow the next decision, or make it, and promote what may be promoted; whether there was one."""
        choice = self._following(look=look) or self._choice()
        if choice is None:
            return False
        self._follow(choice)
        while (choice := self._following() or self._promotion()) is not None:
            self._follow(choice)
        return True

    def _choice(self) -> Choice | None:
        """What is decided now, by this driver or by another one that was first; None if there is nothing to decide."""
        if (promotion := self._promotion()) is not None:
            return promotion
        suggestion = None if self._is_closed else self._suggester.suggest(self.cells)
        if suggestion is not None:
            return self._make(*suggestion) if self._suggester.is_adaptive else suggestion[0]
        if not self._is_closed:
            self._is_closed = True
            self._scheduler.closed()
            return self._choice()
        return None

    def _promotion(self) -> Choice | None:
        """A promotion, or the decision of another driver that was first; None if no cell may be promoted."""
        best = self._scheduler.best()
        if best is None:
            return None
        until = self._by_id[best].until
        assert until is not None
        return self._make(Promoted(best, until))

    def _catch_up(self) -> None:
        while (choice := self._following(look=True)) is not None:
            self._follow(choice)

    def _follow(self, choice: Choice) -> None:
        match choice:
            case Suggested():
                self._add(choice)
            case Promoted(cell_id, beyond):
                self._promote(cell_id, beyond)
            case Stopped(trial_id):
                self._stopped.add(trial_id)

    def _add(self, suggested: Suggested) -> None:
        specs = self._suggester.add(suggested)
        if specs is not None:
            cell = Cell(specs, {spec.trial_id: TrialProgress() for spec in specs})
            self.cells.append(cell)
            self._by_id[cell.cell_id] = cell
            self._cell_of |= {spec.trial_id: cell for spec in specs}
            self._extend(cell)
            self._ready.extend(specs)

    def _promote(self, cell_id: str, beyond: float) -> None:
        """A cell goes on, unless it does not pause by that epoch any more, as the sweep's schedule was changed."""
        while cell_id not in self._by_id and not self._suggester.is_adaptive:
            suggestion = self._suggester.suggest(self.cells)
            if suggestion is None:  # the sweep no longer has it
                return
            self._add(suggestion[0])
        cell = self._by_id.get(cell_id)
        if cell is None or cell.until is None or cell.until > beyond + _EPS:
            return
        self._scheduler.promote(cell_id)
        self._extend(cell)
        self._ready.extend(spec for spec in cell.specs if spec.trial_id in cell.waiting)
        cell.waiting.clear()

    def _extend(self, cell: Cell) -> None:
        """Ask the scheduler for the next pause of a cell."""
        first, counts_epochs = cell.specs[0], self._by.by == "epochs"
        end = first.optim.epochs * (1 if counts_epochs else first.train_size)
        until = self._scheduler.until(cell.cell_id, cell.group, end)
        cell.until = until if until is None or counts_epochs else until / first.train_size
        if cell.until is not None:
            cell.pauses.append(cell.until)

    # --- Evaluations

    def _verdict(self, spec: TrialSpec, evaluation: Evaluation) -> Verdict:
        until = self._out[spec.trial_id]
        is_new = self._note(spec, evaluation)
        if until is not None and evaluation.epoch >= until - _EPS:
            return Verdict.PAUSE
        if is_new and not self._continues(spec, evaluation) and spec.trial_id not in self._stopped:
            while (choice := self._make(Stopped(spec.trial_id))) != Stopped(spec.trial_id):
                self._follow(choice)
            self._follow(choice)
        return Verdict.STOP if spec.trial_id in self._stopped else Verdict.CONTINUE

    def _note(self, spec: TrialSpec, evaluation: Evaluation) -> bool:
        return self._cell_of[spec.trial_id].progress[spec.trial_id].add(evaluation)

    def _continues(self, spec: TrialSpec, evaluation: Evaluation) -> bool:
        cell = self._cell_of[spec.trial_id]
        time = evaluation.epoch if self._by.by == "epochs" else float(evaluation.examples)
        return self._scheduler.continues(cell.cell_id, cell.group, spec.seeds.key, time, evaluation.score)

    def _paused(self, spec: TrialSpec) -> None:
        """A trial came to a pause: to that of its cell, or to an earlier one, as the cell was promoted meanwhile."""
        cell = self._cell_of[spec.trial_id]
        if cell.until is None or not cell.progress[spec.trial_id].has_reached(cell.until):
            self._ready.append(spec)
        else:
            cell.waiting.add(spec.trial_id)
        self._rank(cell)

    def _over(self, spec: TrialSpec, state: State) -> None:
        cell = self._cell_of[spec.trial_id]
        cell.over[spec.trial_id] = cell.progress[spec.trial_id].state = state
        self._rank(cell)

    def _rank(self, cell: Cell) -> None:
        """Tell the scheduler of each pause that all trials of a cell have come to, or ended before."""
        for level, until in enumerate(cell.pauses[cell.ranked :], cell.ranked):
            came = [trial_id for trial_id, trial in cell.progress.items() if trial.has_reached(until)]
            if len(set(came) | cell.over.keys()) < len(cell.specs):
                return
            cell.ranked = level + 1
            score = cell.mean_best(until) if came else None
            if score is None:
                self._scheduler.left(cell.cell_id, level)
            else:
                self._scheduler.reached(cell.cell_id, level, score)

    def _from_store(self, cell: Cell, spec: TrialSpec) -> bool:
        """Take a trial from the store as if it had just run; False if the store does not have it as far as needed."""
        stored, trial = self._stored.of(spec.trial_id), cell.progress[spec.trial_id]
        for evaluation in stored.evaluations:
            is_last = stored.results is not None and evaluation is stored.evaluations[-1]
            if not is_last and self._note(spec, evaluation):
                self._continues(spec, evaluation)
                if cell.until is not None and trial.has_reached(cell.until):
                    self._paused(spec)
                    return True
        if stored.results is not None:
            cell.progress[spec.trial_id] = stored
            self._over(spec, State.COMPLETED)
        elif stored.state is State.PRUNED and spec.trial_id in self._stopped:
            self._over(spec, State.PRUNED)
        else:
            self._rank(cell)  # by pauses that the cell has gone beyond
        return spec.trial_id in cell.over


def result_lines(cells: Sequence[Cell], objectives: Sequence[str] = ("score",)) -> list[str]:
    """The best cell of each objective group; with several objectives, the cells on the Pareto front."""
    varying = varying_settings([spec for cell in cells for spec in cell.specs[:1]])
    lines = []
    for group in grouped(cells, lambda cell: cell.group).values():
        best = front(group, objectives)
        for cell in best:
            lines += [f"best    {cell_label(cell.specs[0], varying)}: {_values(cell, objectives)}", *_on_test(cell)]
    n_early = sum(len(cell.waiting) + list(cell.over.values()).count(State.PRUNED) for cell in cells)
    if n_early:
        n_trials = counted(sum(len(cell.specs) for cell in cells), "trial")
        lines.append(f"        {n_early} of {n_trials} stopped early")
    return lines


def front(cells: Sequence[Cell], objectives: Sequence[str]) -> list[Cell]:
    """The cells on the Pareto front of their means over complete trials, best first; of equal cells the first."""
    from orchestrator.analysis.savings import front as pareto_front  # loads pandas

    scored = [(cell, values) for cell in cells if (values := _oriented(cell, objectives)) is not None]
    if not scored:
        return []
    on_front = pareto_front(np.array([values for _, values in scored]))
    best = {values: cell for (cell, values), on in reversed(list(zip(scored, on_front, strict=True))) if on}
    return [best[values] for values in sorted(best, reverse=True)]


def _oriented(cell: Cell, objectives: Sequence[str]) -> tuple[float, ...] | None:
    """The means, oriented so that larger is better; None if any is unknown."""
    means = [cell.mean(name) for name in objectives]
    known_means = [mean for mean in means if mean is not None]
    if len(known_means) < len(means):
        return None
    return tuple(-mean if less_is_better(name) else mean for name, mean in zip(objectives, known_means, strict=True))


def _values(cell: Cell, objectives: Sequence[str]) -> str:
    from orchestrator.analysis.describe import describe  # loads pandas

    shown = []
    for name in objectives:
        values = [value for results in cell.results() if (value := results.get(name)) is not None]
        seeds = describe(values)
        if name in COSTS:
            shown.append(COSTS[name].format(seeds.mean))
        else:
            spread = f" ± {points(seeds.std)}" if seeds.n > 1 else ""
            shown.append(f"{metric_label(name)} {points(seeds.mean)}{spread} on dev")
    return f"{', '.join(shown)}, which selected it ({counted(len(cell.results()), 'seed')})"


def _on_test(cell: Cell) -> Iterator[str]:
    """The score of a selected setting on the split that took no part in selecting it, and how many runs collapsed."""
    from orchestrator.analysis.losses import collapses  # loads scipy
    from orchestrator.analysis.two_way import document_sizes, interval, item_losses

    items, sizes = [], None
    for trial in cell.progress.values():
        if trial.results is not None and (score := trial.results["test_score"]) is not None:
            sentences = trial.sentences.get("test", {})
            # The guarded end of an interval is that of large losses: of low scores.
            values = -centred(sentences.get("sentences"), score)
            items.append(item_losses(values[None], sentences.get("documents"), sentences.get("words"))[0])
            sizes = document_sizes(sentences.get("documents"), len(values))
    if items:
        test = interval(stacked(items), sizes=sizes)
        ends = ""
        if test.low is not None and test.high is not None:
            over = "seeds" if test.n_sentences is None else "seeds and sentences"
            ends = f" ({points(-test.high)} to {points(-test.low)}, 95 % interval over {over})"
        yield f"        score {points(-test.mean)}{ends} on test, which took no part in that"
    if collapsed := [trial.has_collapsed for trial in cell.progress.values() if trial.has_collapsed is not None]:
        yield f"        {collapses(collapsed).sentence}"
