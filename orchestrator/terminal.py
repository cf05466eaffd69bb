"""What a launch shows: the plan, the running sweep, the table of its cells. Messages go to stderr, data to stdout.

On a terminal the running sweep is one live display; elsewhere one plain line a finished trial.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.plan import Plan
from orchestrator.store.schema import State
from orchestrator.summary import Cell, setting, varying_settings
from trials.record import EpochRecord
from trials.spec import TrialSpec


def plan_lines(plan: Plan, store: str) -> list[str]:
    """What is about to happen."""
    epochs = sum(spec.optim.epochs for spec in plan.to_run)
    sentences = sum(spec.optim.epochs * spec.train_size for spec in plan.to_run)
    return [
        f"sweep   {plan.sweep.name} ({plan.source})",
        f"trials  {len(plan.trials)} = {plan.n_cells} cells x {len(set(plan.sweep.seeds))} seeds; "
        f"{plan.n_skipped} complete in the store, {len(plan.to_run)} to run",
        f"work    {epochs} epochs, {sentences:,} train sentences; nothing to download",
        f"store   {store}",
    ]


class LiveDisplay:
    """A `Listener` that shows the running sweep. Use it as a context."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._console, self._started = console, time.monotonic()
        self._total = len(plan.to_run)
        self._work = sum(_work(spec) for spec in plan.to_run)
        self._running: dict[str, tuple[TrialSpec, EpochRecord | None]] = {}
        self._best: dict[tuple[str, str], float] = {}
        self._ended, self._failed, self._work_ended = 0, 0, 0.0
        self._live = Live(
            get_renderable=self._draw, console=console, refresh_per_second=4, transient=True, redirect_stdout=False
        )

    def __enter__(self) -> LiveDisplay:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def started(self, spec: TrialSpec) -> None:
        """Show the trial as running."""
        self._running[spec.trial_id] = (spec, None)

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Show its newest score."""
        self._running[spec.trial_id] = (spec, record)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Count it, and keep its strategy's best score."""
        _, record = self._running.pop(spec.trial_id, (spec, None))
        self._ended += 1
        self._work_ended += _work(spec)
        if state is State.COMPLETED and record is not None:
            key = (spec.data.name, spec.freeze.label)
            self._best[key] = max(self._best.get(key, 0.0), record.score)
        else:
            self._failed += 1
        if not self._console.is_terminal or error:
            self._console.print(self._line(spec, state, record, error), soft_wrap=True)

    def tick(self) -> None:
        """Nothing: the display redraws itself."""

    def _line(self, spec: TrialSpec, state: State, record: EpochRecord | None, error: str | None) -> Text:
        score = f"  score {record.score:.4f}  {record.train_s:.1f} s the last epoch" if record else ""
        reason = f"  {error.splitlines()[-1]}" if error else ""
        return Text(f"{self._ended}/{self._total} {state.value:<9} {spec.label}{score}{reason}  ETA {self._eta()}")

    def _eta(self) -> str:
        share = self._work_done() / self._work
        if share < 0.01:
            return "-:--"
        left = (time.monotonic() - self._started) * (1 - share) / share
        return f"{int(left // 60)}:{int(left % 60):02d}"

    def _work_done(self) -> float:
        running = (_work(s) * r.epoch / s.optim.epochs for s, r in list(self._running.values()) if r)
        return self._work_ended + sum(running)

    def _draw(self) -> RenderableType:
        head = Table.grid(padding=(0, 2))
        failed = f", {self._failed} failed" if self._failed else ""
        bar = ProgressBar(total=self._work, completed=self._work_done(), width=40)
        head.add_row(bar, f"{self._ended} of {self._total} trials{failed}", f"ETA {self._eta()}")
        return Group(head, self._running_table(), self._best_table())

    def _running_table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for spec, record in list(self._running.values()):
            epoch = f"epoch {record.epoch:g}/{spec.optim.epochs}" if record else "setting up"
            table.add_row(Text(f"  {spec.label}", style="cyan"), epoch, f"score {record.score:.4f}" if record else "")
        return table

    def _best_table(self) -> Table:
        table = Table(box=None, padding=(0, 2), title="best score so far", title_justify="left")
        corpora = sorted({corpus for corpus, _ in self._best})
        table.add_column("freeze")
        for corpus in corpora:
            table.add_column(corpus, justify="right")
        for freeze in dict.fromkeys(freeze for _, freeze in self._best):
            scores = (self._best.get((corpus, freeze)) for corpus in corpora)
            table.add_row(freeze, *(f"{score:.4f}" if score is not None else "" for score in scores))
        return table


def cell_tables(cells: Sequence[Cell]) -> Iterator[RenderableType]:
    """A table for each corpus and train size, a row a cell: score over seeds, parameters, time, what freezing saves."""
    varying = varying_settings([cell.spec for cell in cells])
    width = max((len(_label(cell, varying)) for cell in cells), default=0)
    for (corpus, size), group in _grouped(cells).items():
        title = Text(f"{corpus}, {size:,} train sentences")
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
        table.add_column("freeze", overflow="fold", min_width=min(width, _FREEZE_WIDTH))
        for name, figure_width in _FIGURES.items():
            table.add_column(name, justify="right", no_wrap=True, min_width=figure_width)
        for cell in group:
            table.add_row(Text(_label(cell, varying)), *_figures(cell))
        notes = [Text(f"{_label(cell, varying)}: {lost}") for cell in group if (lost := _lost(cell))]
        yield Padding(Group(table, *notes), (1, 0, 0, 0))


def _label(cell: Cell, varying: Sequence[str]) -> str:
    """What tells a cell from the others of its table; folded where the terminal is narrow."""
    settings = (f"{key.removesuffix('.name').rpartition('.')[2]}={setting(cell.spec, key)}" for key in varying)
    return " ".join([cell.spec.freeze.label, *settings])


def _lost(cell: Cell) -> str:
    """The replicates that ended otherwise than completed."""
    return ", ".join(f"{n} {state}" for state, n in sorted(cell.states.items()) if state != State.COMPLETED)


# Column names and the widths at which the tables of a sweep stand under one another, in 80 columns.
_FREEZE_WIDTH = 13
_FIGURES = {"seeds": 5, "dev score": 12, "test": 5, "trainable": 9, "saved": 6, "train s": 7, "saved s": 7}


def _grouped(cells: Sequence[Cell]) -> dict[tuple[str, int], list[Cell]]:
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.spec.data.name, cell.spec.train_size), []).append(cell)
    return groups


def _figures(cell: Cell) -> tuple[str, ...]:
    seeds = f"{cell.n}/{cell.planned}"
    if cell.score_mean is None:
        return (seeds, *[""] * (len(_FIGURES) - 1))
    assert cell.trainable_params is not None
    assert cell.saved_params is not None
    std = f" ± {100 * cell.score_std:4.2f}" if cell.score_std is not None else ""
    return (
        seeds,
        f"{100 * cell.score_mean:.2f}{std}",
        f"{100 * cell.test_mean:.2f}" if cell.test_mean is not None else "",
        _count(cell.trainable_params),
        f"{100 * cell.saved_params:.1f} %",
        f"{cell.train_s:.1f}",
        f"{100 * cell.saved_train:.0f} %" if cell.saved_train is not None else "",
    )


def _count(n: int) -> str:
    """Three digits or so: `2.23 M`, `795 k`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return str(n)


def _work(spec: TrialSpec) -> float:
    """What a trial's time is roughly proportional to."""
    return float(spec.optim.epochs * spec.train_size)
