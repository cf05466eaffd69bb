"""A running sweep: a live display on a terminal or in a notebook, else one line per ended trial."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.console import Group as Stack
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.freeze_names import strip_and_word
from orchestrator.config.console import SafeConsole
from orchestrator.config.quantities import amount, duration, points
from orchestrator.execution.failures import last_line
from orchestrator.execution.trial_queue import Chances, End
from orchestrator.forecast.pace import Pace
from orchestrator.session.so_far import SoFar
from orchestrator.session.tables import TrialName, unbroken
from orchestrator.store import ResultStore
from orchestrator.sweeps.plan import Plan
from trials.cache.set_up_work import SetUpWork
from trials.metrics.metric import metric_label
from trials.record import EpochRecord, State
from trials.spec import TrialSpec
from trials.tasks.task import score_name


class RunningTrials:
    """The running trials, one per line; if the terminal is too narrow, their figures are below their names."""

    def __init__(self, rows: Sequence[tuple[str, ...]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [TrialName(f"  {label}", "cyan") for label, *_ in self._rows]
        widths = [max(map(cell_len, column)) for column in zip(*(figures for _, *figures in self._rows), strict=True)]
        least = max((name.least for name in names), default=0)
        if least + sum(width + _GAP for width in widths) <= options.max_width:
            table = Table.grid(padding=(0, _GAP))
            table.add_column()
            for width in widths:
                table.add_column(no_wrap=True, min_width=width)
            for name, (_, *figures) in zip(names, self._rows, strict=True):
                table.add_row(name, *figures)
            yield table
            return
        for name, (_, *figures) in zip(names, self._rows, strict=True):
            yield name
            yield Text("    " + "  ".join(filter(None, figures)))


_GAP = 2  # between columns
SAY_WORK_EVERY_S = 30.0  # a log gets a line each time


class LiveDisplay:
    """Shows the running sweep. Use it as a context manager."""

    def __init__(
        self,
        plan: Plan,
        console: Console,
        *,
        chances: Callable[[], Chances | None] = lambda: None,
        announce: Callable[..., None] = lambda likely, most: None,
        results: ResultStore | None = None,
    ) -> None:
        """Show a plan.

        Args:
            chances: Returns which trials a search is likely to run from now on.
            announce: Publishes how large a share of the work this is.
            results: The store, from whose ended trials the display says what the tolerance buys; None to leave it out.
        """
        self._console, self._started = console, time.monotonic()
        self._total, self._label, self._has_models = len(plan.workload), plan.label, plan.has_models
        self._freezes = list(dict.fromkeys(map(_freeze, plan.workload)))
        self._metrics = list(dict.fromkeys(map(_metric, plan.workload)))
        self._pace = Pace(plan.workload)
        self._pace.likely = 1.0 if plan.runs_all else None
        self._running: dict[str, tuple[TrialSpec, EpochRecord | None]] = {}
        self._work: dict[str, SetUpWork] = {}  # of the trials whose set-up takes long
        self._said_work: dict[str, float] = {}  # when it was printed
        self._scores: dict[str, float] = {}  # the best dev score of each running trial
        self._best: dict[tuple[str, str], float] = {}
        self._ended, self._failed = 0, 0
        self._noted = set[str]()
        self._output = console.output if isinstance(console, SafeConsole) else None
        self._is_live = console.is_terminal or self._output is not None
        self._shown = ExitStack()
        self._chances, self._announce = chances, announce
        self._so_far = SoFar(plan, results) if results else None

    def __enter__(self) -> LiveDisplay:
        if self._output is not None:
            self._shown.enter_context(self._output.drawing(lambda console: console.print(self._draw())))
        elif self._console.is_terminal:
            self._shown.enter_context(
                Live(
                    get_renderable=self._draw,
                    console=self._console,
                    refresh_per_second=4,
                    transient=True,
                    redirect_stdout=False,
                )
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._shown.close()

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Show the trial as running."""
        self._pace.add_start(spec, self._elapsed_s())
        self._weigh()
        self._running[spec.trial_id] = (spec, None)
        self._work.pop(spec.trial_id, None)

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        """Show the progress of a set-up; without a display, print it every half minute at most. Print notes."""
        if work.is_note:
            self._note(str(work), str(work))  # each of the workers that start together has it
            return
        self._work[spec.trial_id] = work
        if not self._is_live and time.monotonic() - self._said_work.get(spec.trial_id, -math.inf) >= SAY_WORK_EVERY_S:
            self._said_work[spec.trial_id] = time.monotonic()
            self._say(f"set-up: {self._label(spec)}  {work}")

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Show the newest score."""
        self._work.pop(spec.trial_id, None)
        self._pace.add_evaluation(spec, record, self._elapsed_s())
        self._running[spec.trial_id] = (spec, record)
        if record.checkpoint_error:
            note = "checkpoints cannot be written; trials go on, and start again if they are interrupted: "
            self._note(note, note + record.checkpoint_error)
        self._scores[spec.trial_id] = max(self._scores.get(spec.trial_id, record.score), record.score)

    def retried(self, end: End) -> None:
        """Print that the trial will run again, and why."""
        self._pace.forget(end.spec)
        self._running.pop(end.spec.trial_id, None)
        self._say(f"retry: {self._label(end.spec)}  {end.state.value}: {last_line(end.error)}")

    def ended(self, end: End) -> None:
        """Count a trial that has ended here or elsewhere, and update the best score of its strategy."""
        spec, is_complete = end.spec, end.state is State.COMPLETED
        self._running.pop(spec.trial_id, None)
        self._ended += 1
        self._failed += end.state not in (State.COMPLETED, State.PRUNED)
        self._pace.add_end(spec, is_complete=is_complete)
        self._weigh()
        best = self._scores.pop(spec.trial_id, None)
        if is_complete and best is not None:
            corpus = f"{spec.data.name}, {spec.model.name}" if self._has_models else spec.data.name
            key = corpus, _freeze(spec)
            self._best[key] = max(self._best.get(key, best), best)
        if not self._is_live or (end.error and end.is_here):
            self._say(self._line(end, best))

    def _note(self, kind: str, text: str) -> None:
        """Print the first note of its kind."""
        if kind not in self._noted:
            self._noted.add(kind)
            self._console.print(Text(f"note    {text}"), soft_wrap=True)

    def _say(self, line: str) -> None:
        """Print a line; if the terminal is too narrow, break it, but not within a word of a trial's name."""
        parts = unbroken(line, self._console.width) if self._console.is_terminal else [line]
        for part in parts:
            self._console.print(Text(part), soft_wrap=True)

    def _line(self, end: End, best: float | None) -> str:
        score = "" if best is None else f"  {_metric(end.spec)} {points(best)} (best epoch)"
        reason = f"  {last_line(end.error)}" if end.error and end.is_here else ""
        eta = f"  ETA {self._eta()}" if self._ended < self._total else ""
        where = "" if end.is_here else "  by another driver"
        return f"{self._ended}/{self._total} {end.state.value:<9} {self._label(end.spec)}{score}{reason}{eta}{where}"

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def _weigh(self) -> None:
        if chances := self._chances():
            self._pace.weigh(chances)
        if self._pace.likely != 1.0:
            self._announce(likely=self._pace.likely, most=self._pace.most)

    def _eta(self) -> str:
        return self._pace.time_left(self._elapsed_s())

    def _draw(self) -> RenderableType:
        head = Table.grid(padding=(0, _GAP))
        failed = f", {self._failed} failed" if self._failed else ""
        count, eta = f"{self._ended} of {amount(self._total, 'trial')}{failed}", f"ETA {self._eta()}"
        room = self._console.width - cell_len(count) - cell_len(eta) - 2 * _GAP
        head.add_row(ProgressBar(1.0, self._pace.share_done(), width=max(8, min(room, 40))), count, eta)
        lines = self._so_far.lines(self._ended) if self._so_far else []
        answers = [Text(line, style="bold", overflow="fold") for line in lines]
        best = Text(f"best {' or '.join(self._metrics)} of this launch", style="italic")
        ended: list[RenderableType] = [best, self._best_table()] if self._best else []
        return Stack(head, *answers, RunningTrials(self._running_rows()), *ended)

    def _running_rows(self) -> list[tuple[str, ...]]:
        """Name, epoch, score and time left of each running trial."""
        rows = list[tuple[str, ...]]()
        for spec, record in list(self._running.values()):
            set_up = str(self._work.get(spec.trial_id, "set-up"))
            epoch = f"epoch {record.epoch:g}/{spec.optim.epochs}" if record else set_up
            rest = self._pace.seconds_left(spec, self._elapsed_s())
            end = f"{duration(rest)} left" if rest is not None and rest >= 1 else ""  # it may take longer
            scored = f"{_metric(spec)} {points(record.score)}" if record else ""
            rows.append((self._label(spec), epoch, scored, end))
        return rows

    def _best_table(self) -> Table:
        best = dict(self._best)  # the display draws in a thread of its own
        corpora = sorted({corpus for corpus, _ in best})
        table = Table(box=None, padding=(0, 2))
        table.add_column("freeze")
        for corpus in corpora:
            table.add_column(Text(corpus), justify="right")
        for freeze in (each for each in self._freezes if any(freeze == each for _, freeze in best)):
            scores = (best.get((corpus, freeze)) for corpus in corpora)
            table.add_row(freeze, *(points(score) if score is not None else "" for score in scores))
        return table


def _freeze(spec: TrialSpec) -> str:
    return strip_and_word(spec.freeze, spec.model.n_layers)


def _metric(spec: TrialSpec) -> str:
    return metric_label(score_name(spec.task, spec.score))
