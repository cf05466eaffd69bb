"""The output of a running sweep: a live display on a terminal or in a notebook, else one line per ended trial."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.console import Group as Stack
from rich.live import Live
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.cells import (
    LEGEND,
    by_cell,
    cell_label,
    dropout_of,
    grouped,
    layer_strip,
    objective_group,
    strip_and_word,
    varying_settings,
)
from orchestrator.analysis.summary import CellSummary
from orchestrator.config.console import SafeConsole
from orchestrator.config.quantities import counted, duration, points
from orchestrator.execution.events import Listener, last_line
from orchestrator.execution.trial_source import Chances
from orchestrator.forecast.pace import Pace
from orchestrator.own_data.corpus_guess import corpora_lines
from orchestrator.store.schema import State
from orchestrator.sweeps.cluster_spec import ClusterSpec, device_line
from orchestrator.sweeps.plan import Plan
from trials.cache.set_up_work import SetUpWork
from trials.metrics.metric import metric_label
from trials.record import EpochRecord
from trials.spec import TrialSpec, examples_seen, steps_an_epoch
from trials.tasks.task import head_of, score_name

# The output of a launch before and after the sweep: its plan, and tables of results.

MOST_SETTINGS = 60  # that a plan lists


def plan_lines(plan: Plan, store: str, cluster: ClusterSpec) -> list[str]:
    """The plan as lines of text. Work that checkpoints keep is not counted."""
    kept = sum(examples_seen(spec, plan.kept_steps.get(spec.trial_id, 0)) for spec in plan.to_run)
    left = sum(spec.optim.epochs for spec in plan.ahead) - sum(_kept_epochs(plan, spec) for spec in plan.to_run)
    epochs = int(left) if left == int(left) else round(left, 2)
    sentences = sum(spec.optim.epochs * spec.train_size for spec in plan.ahead) - kept
    corpora = list(dict.fromkeys((spec.task, spec.data) for spec in plan.ahead))
    most = "" if plan.runs_all else "at most "
    seeds = counted(len({spec.seeds for spec in (*plan.trials, *plan.stand_ins)}), "seed")
    resumed = f", {len(plan.kept_steps):,} of them from a checkpoint{_places(plan)}" if plan.kept_steps else ""
    return [
        f"sweep   {plan.sweep.name} ({plan.source})",
        f"trials  {plan.n_trials:,} = {counted(plan.n_cells, 'setting')} x {seeds}; "
        f"{plan.n_skipped:,} complete in the store, {most}{len(plan.ahead):,} to run{resumed}",
        f"work    {most}{counted(epochs, 'epoch')}, {counted(sentences, 'training sentence')}",
        *(f"search  {line}" for line in plan.sweep.search_words()),
        *(f"data    {line}" for line in corpora_lines(corpora)),
        *([f"device  {device_line(cluster, plan.sweep.resources)}"] if plan.ahead else []),
        f"store   {store}",
        *(f"note    {note}" for note in plan.notes),
    ]


def _kept_epochs(plan: Plan, spec: TrialSpec) -> float:
    return plan.kept_steps.get(spec.trial_id, 0) / steps_an_epoch(spec)


def _places(plan: Plan) -> str:
    """` (epoch 1/2)`, if all resume there."""
    places = {
        f"{_kept_epochs(plan, spec):.3g}/{spec.optim.epochs}"
        for spec in plan.to_run
        if spec.trial_id in plan.kept_steps
    }
    return f" (epoch {places.pop()})" if len(places) == 1 else ""


def setting_table(plan: Plan) -> Table:
    """One row per setting of a plan: what it freezes, and how many of its seeds are complete."""
    specs = [*plan.trials, *plan.stand_ins]
    varying, cells = varying_settings(specs), by_cell(specs)
    to_run = {spec.trial_id for spec in plan.ahead}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("setting", overflow="fold")
    table.add_column("seeds complete", justify="right", no_wrap=True)
    names = {cell: _name_of(replicates[0], varying, cells) for cell, replicates in cells.items()}
    for cell, replicates in [*cells.items()][:MOST_SETTINGS]:
        complete = sum(spec.trial_id not in to_run for spec in replicates)
        table.add_row(Text(names[cell]), f"{complete} of {len(replicates)}")
    if (more := len(cells) - MOST_SETTINGS) > 0:
        table.add_row(f"and {more:,} more", "")
    return table


def _name_of(spec: TrialSpec, varying: Sequence[str], cells: Mapping[str, Sequence[TrialSpec]]) -> str:
    """The label of a setting, with its corpus and train size where these vary."""
    name = cell_label(spec, varying)
    groups = {objective_group(replicates[0]) for replicates in cells.values()}
    _, _, corpus, size = objective_group(spec)
    return name if len(groups) == 1 else f"{name}, {corpus}, {size:,} train {_ITEMS[head_of(spec.task)]}"


def cell_tables(cells: Sequence[CellSummary]) -> Iterator[RenderableType]:
    """One table per objective group, one row per setting: score over seeds, parameters, time, savings of freezing."""
    varying = varying_settings([cell.spec for cell in cells])
    width = max((len(cell_label(cell.spec, varying)) for cell in cells), default=0)
    for (task, metric, corpus, size), group in grouped(cells, lambda cell: objective_group(cell.spec)).items():
        title = Text(f"{corpus}, {size:,} train {_ITEMS[head_of(task)]}, {metric_label(metric)}")
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("freeze", overflow="fold", min_width=min(width, _FREEZE_WIDTH))
        for name, figure_width in _FIGURES.items():
            table.add_column(name, justify="right", no_wrap=True, min_width=figure_width)
        for cell in group:
            table.add_row(Text(cell_label(cell.spec, varying)), *_figures(cell))
        notes = [Text(f"{cell_label(cell.spec, varying)}: {note}") for cell in group for note in _notes(cell)]
        notes += [Text(note) for note in (_unevenness(group),) if note]
        own = [_statistics_table(group, varying)] if group[0].statistics else []
        yield Padding(Stack(table, *notes, *own), (1, 0, 0, 0))
    if any(layer_strip(cell.spec.freeze.label, cell.spec.model.n_layers) for cell in cells):
        yield Text(LEGEND, style="dim")
    if any(not cell.spec.freeze.is_baseline for cell in cells):
        yield Text(dropout_of([cell.spec for cell in cells]), style="dim")


def _statistics_table(group: Sequence[CellSummary], varying: Sequence[str]) -> Table:
    """The statistics of plug-ins, below the table: there is no room beside it."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for number, head in enumerate(("freeze", *group[0].statistics)):
        table.add_column(Text(head), justify="right" if number else "left", overflow="fold")
    for cell in group:
        values = ("" if math.isnan(value) else f"{value:.2f}" for value in cell.statistics.values())
        table.add_row(Text(cell_label(cell.spec, varying)), *values)
    return table


def _notes(cell: CellSummary) -> list[str]:
    """What a baseline costs, what was frozen if that changed, and the trials that ended otherwise than completed."""
    lost = ", ".join(f"{n} {state}" for state, n in sorted(cell.states.items()) if state != State.COMPLETED)
    return [note for note in (_costs(cell), cell.froze, lost) if note]


def _costs(cell: CellSummary) -> str:
    """What training costs in figures, where the table has no share of a baseline's."""
    if cell.trainable_params is None or cell.training_cost_s is None:
        return ""
    if not cell.is_baseline and cell.saved_time is not None:
        return ""
    flops = "" if cell.training_flops is None else f", {_magnitude(cell.training_flops)}FLOPs"
    return f"{_magnitude(cell.trainable_params)} trained parameters, {cell.training_cost_s:.1f} s of training{flops}"


def _unevenness(cells: Sequence[CellSummary]) -> str:
    """That a setting took very different times under its seeds, which freezing does not explain."""
    slowest = max((cell.slowest or 1.0 for cell in cells), default=1.0)
    return f"times of one setting differ up to {slowest:.1f}-fold: a busy machine" if slowest >= _SLOWED else ""


# Column names and widths, so that the tables of a sweep align in 80 columns.
_ITEMS = {"tokens": "sentences", "text": "texts", None: "items"}
_FREEZE_WIDTH = 19
_FIGURES = {
    "seeds": 5,
    "dev score": 12,
    "test": 5,
    "parameters\nsaved": 10,
    "FLOPs\nsaved": 6,
    "time saved\n(95 % interval)": 16,
}
_SLOWED = 1.5  # times of one setting differ by that factor only if something else slowed the machine


def _figures(cell: CellSummary) -> tuple[str, ...]:
    seeds = f"{cell.n}/{cell.planned}"
    if cell.score_mean is None:
        return (seeds, *[""] * (len(_FIGURES) - 1))
    std = f" ± {100 * cell.score_std:4.2f}" if cell.score_std is not None else ""
    low, high = cell.saved_time_low, cell.saved_time_high
    interval = "" if low is None or high is None else f" ({100 * low:.0f} to {100 * high:.0f})"
    return (
        seeds,
        f"{100 * cell.score_mean:.2f}{std}",
        f"{100 * cell.test_mean:.2f}" if cell.test_mean is not None else "",
        *("" if cell.is_baseline else _share(saved) for saved in (cell.saved_params, cell.saved_flops)),
        "" if cell.is_baseline else _share(cell.saved_time, 0) + interval,
    )


def _share(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def _magnitude(n: float) -> str:
    """`2.23 M`, `795,392`, `1.2 P`."""
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n:,.0f}"


def failure_table(failures: Sequence[tuple[str, str, str]]) -> Table:
    """One row for all failures with the same state and error; `failures` are (state, last line of the error, label)."""
    groups: dict[tuple[str, str], list[str]] = {}
    for state, error, label in failures:
        groups.setdefault((state, error), []).append(label)
    table = Table(box=None, padding=(0, 2))
    for column in ("trials", "state", "error", "first trial"):
        table.add_column(column, overflow="fold", justify="right" if column == "trials" else "left")
    for (state, error), labels in sorted(groups.items(), key=lambda group: -len(group[1])):
        table.add_row(str(len(labels)), state, Text(error), TrialName(labels[0]))
    return table


def unbroken(text: str, width: int) -> list[str]:
    """A text in lines, broken after spaces and the underscores of trial names; only a longer word is cut."""
    lines = [""]
    for word in re.split(r"(?<=[_ ])(?=[^ ])", text):
        if lines[-1] and cell_len(lines[-1]) + cell_len(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [part for line in lines for part in chop_cells(line.rstrip(), width)]


class TrialName:
    """The name of a trial, in a table or alone."""

    def __init__(self, label: str, style: str = "") -> None:
        self._label, self._style = label, style

    @property
    def least(self) -> int:
        """The width of its longest part."""
        return max(map(cell_len, re.split("(?<=_)", self._label)))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(self.least, cell_len(self._label))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(unbroken(self._label, options.max_width)), style=self._style)


class RunningTrials:
    """The running trials, a line each; figures below the names where the terminal is too narrow for both."""

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
SAY_WORK_EVERY_S = 30.0


class LiveDisplay(Listener):
    """A `Listener` that shows the running sweep. Use it as a context manager.

    Attributes:
        chances: What a search is likely to run from now on.
        announce: Publishes the shares of the work that this is.
    """

    def __init__(self, plan: Plan, console: Console) -> None:
        self._console, self._started = console, time.monotonic()
        self._total = len(plan.ahead)
        self._freezes = list(dict.fromkeys(map(_freeze, plan.ahead)))
        self._metrics = list(dict.fromkeys(map(_metric, plan.ahead)))
        self._pace = Pace(plan.ahead)
        self._pace.likely = 1.0 if plan.runs_all else None
        self._running: dict[str, tuple[TrialSpec, EpochRecord | None]] = {}
        self._work: dict[str, SetUpWork] = {}  # of the trials whose set-up takes long
        self._said_work: dict[str, float] = {}  # when it was printed
        self._scores: dict[str, float] = {}  # the best dev score of each running trial
        self._best: dict[tuple[str, str], float] = {}
        self._ended, self._failed = 0, 0
        self._noted_checkpoints = False
        self._noted = set[str]()
        self._output = console.output if isinstance(console, SafeConsole) else None
        self._is_live = console.is_terminal or self._output is not None
        self._shown = ExitStack()
        self.chances: Callable[[], Chances | None] = lambda: None
        self.announce: Callable[..., None] = lambda likely, most: None

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
        self._pace.started(spec, self._elapsed_s())
        self._weigh()
        self._running[spec.trial_id] = (spec, None)
        self._forget_work(spec)

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        """Show how far its set-up is; without a display print that at most every half a minute. Print notes."""
        if work.is_note:
            if str(work) not in self._noted:  # by each of the workers that start together
                self._noted.add(str(work))
                self._console.print(Text(f"note    {work}"), soft_wrap=True)
            return
        self._work[spec.trial_id] = work
        if not self._is_live and time.monotonic() - self._said_work.get(spec.trial_id, -math.inf) >= SAY_WORK_EVERY_S:
            self._said_work[spec.trial_id] = time.monotonic()
            self._say(f"set-up: {spec.label}  {work}")

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Show the newest score."""
        self._forget_work(spec)
        self._pace.evaluated(spec, record, self._elapsed_s())
        self._running[spec.trial_id] = (spec, record)
        if record.checkpoint_error and not self._noted_checkpoints:
            self._noted_checkpoints = True
            note = "note    checkpoints cannot be written; trials go on, and start again if they are interrupted: "
            self._console.print(Text(note + record.checkpoint_error), soft_wrap=True)
        self._scores[spec.trial_id] = max(self._scores.get(spec.trial_id, record.score), record.score)

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Print that the trial will run again, and why; for a paused trial only if there is no display."""
        self._pace.forget(spec)
        _, record = self._running.pop(spec.trial_id, (spec, None))
        if state is State.PRUNED:
            if not self._is_live and record is not None:
                self._say(f"paused: {spec.label}  epoch {record.epoch:g}  {_scored(spec, record)}")
            return
        self._say(f"retry: {spec.label}  {state.value}: {last_line(error)}")

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count the trial, and update the best score of its strategy."""
        _, record = self._running.pop(spec.trial_id, (spec, None))
        self._ended += 1
        self._pace.ended(spec, is_complete=state is State.COMPLETED)
        self._weigh()
        if state is State.COMPLETED and record is not None:
            score, key = self._scores.pop(spec.trial_id, record.score), (spec.data.name, _freeze(spec))
            self._best[key] = max(self._best.get(key, score), score)
        else:
            self._failed += state is not State.PRUNED
        if not self._is_live or error:
            self._say(self._line(spec, state, record, error))

    def settled(self, spec: TrialSpec, state: State) -> None:
        """Count a trial that another driver has ended."""
        self._ended += 1
        self._failed += state not in (State.COMPLETED, State.PRUNED)
        self._pace.ended(spec, is_complete=state is State.COMPLETED)
        if not self._is_live:
            self._say(f"{self._line(spec, state, None, None)}  by another driver")

    def _forget_work(self, spec: TrialSpec) -> None:
        self._work.pop(spec.trial_id, None)
        self._said_work.pop(spec.trial_id, None)

    def _say(self, line: str) -> None:
        """Print a line; on a terminal too narrow for it, in parts that cut no trial's name inside a word."""
        parts = unbroken(line, self._console.width) if self._console.is_terminal else [line]
        for part in parts:
            self._console.print(Text(part), soft_wrap=True)

    def _line(self, spec: TrialSpec, state: State, record: EpochRecord | None, error: str | None) -> str:
        score = f"  {_scored(spec, record)}" if record else ""
        reason = f"  {last_line(error)}" if error else ""
        return f"{self._ended}/{self._total} {state.value:<9} {spec.label}{score}{reason}  ETA {self._eta()}"

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def _weigh(self) -> None:
        if chances := self.chances():
            self._pace.weigh(chances)
        if self._pace.likely != 1.0:
            self.announce(likely=self._pace.likely, most=self._pace.most)

    def _eta(self) -> str:
        return self._pace.time_left(self._elapsed_s())

    def _draw(self) -> RenderableType:
        head = Table.grid(padding=(0, 2))
        failed = f", {self._failed} failed" if self._failed else ""
        bar = ProgressBar(total=1.0, completed=self._pace.share_done(), width=40)
        head.add_row(bar, f"{self._ended} of {counted(self._total, 'trial')}{failed}", f"ETA {self._eta()}")
        return Stack(head, RunningTrials(self._running_rows()), self._best_table())

    def _running_rows(self) -> list[tuple[str, ...]]:
        """Name, epoch, score and time left of each running trial."""
        rows = list[tuple[str, ...]]()
        for spec, record in list(self._running.values()):
            set_up = str(self._work.get(spec.trial_id, "set-up"))
            epoch = f"epoch {record.epoch:g}/{spec.optim.epochs}" if record else set_up
            left = self._pace.seconds_left(spec, self._elapsed_s())
            end = f"{duration(left)} left" if left is not None else ""
            rows.append((spec.label, epoch, _scored(spec, record), end))
        return rows

    def _best_table(self) -> Table:
        best = dict(self._best)  # the display draws in a thread of its own
        corpora = sorted({corpus for corpus, _ in best})
        title = f"best {' or '.join(self._metrics)} so far"
        table = Table(box=None, padding=(0, 2), title=title, title_justify="left")
        table.add_column("freeze")
        for corpus in corpora:
            table.add_column(Text(corpus), justify="right")
        for freeze in self._freezes:
            scores = (best.get((corpus, freeze)) for corpus in corpora)
            table.add_row(freeze, *(points(score) if score is not None else "" for score in scores))
        return table


def _freeze(spec: TrialSpec) -> str:
    return strip_and_word(spec.freeze.label, spec.model.n_layers)


def _metric(spec: TrialSpec) -> str:
    return metric_label(score_name(spec.task, spec.score))


def _scored(spec: TrialSpec, record: EpochRecord | None) -> str:
    """`accuracy 86.20`."""
    return f"{_metric(spec)} {points(record.score)}" if record else ""
