"""The output of a launch before and after the sweep: its plan, and tables of results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.cells import Group, cell_label, objective_group, varying_settings
from orchestrator.analysis.layer_strip import LEGEND, layer_strip
from orchestrator.analysis.summary import CellSummary
from orchestrator.config.quantities import counted
from orchestrator.store.schema import State
from orchestrator.sweeps.plan import Plan
from trials.metrics.metric import metric_label
from trials.tasks.task import head_of


def plan_lines(plan: Plan, store: str) -> list[str]:
    """The plan as lines of text."""
    epochs = sum(spec.optim.epochs for spec in plan.ahead)
    sentences = sum(spec.optim.epochs * spec.train_size for spec in plan.ahead)
    most = "" if plan.runs_all else "at most "
    seeds = counted(len({spec.seeds for spec in (*plan.trials, *plan.stand_ins)}), "seed")
    return [
        f"sweep   {plan.sweep.name} ({plan.source})",
        f"trials  {plan.n_trials:,} = {counted(plan.n_cells, 'setting')} x {seeds}; "
        f"{plan.n_skipped:,} complete in the store, {most}{len(plan.ahead):,} to run",
        f"work    {most}{counted(epochs, 'epoch')}, {counted(sentences, 'training sentence')}",
        *(f"search  {words}" for words in plan.sweep.search_words()),
        f"store   {store}",
        *(f"note    {note}" for note in plan.notes),
    ]


def cell_tables(cells: Sequence[CellSummary]) -> Iterator[RenderableType]:
    """One table per objective group, one row per setting: score over seeds, parameters, time, savings of freezing."""
    varying = varying_settings([cell.spec for cell in cells])
    width = max((len(cell_label(cell.spec, varying)) for cell in cells), default=0)
    for (task, metric, corpus, size), group in _grouped(cells).items():
        title = Text(f"{corpus}, {size:,} train {_ITEMS[head_of(task)]}, {metric_label(metric)}")
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("freeze", overflow="fold", min_width=min(width, _FREEZE_WIDTH))
        for name, figure_width in _FIGURES.items():
            table.add_column(name, justify="right", no_wrap=True, min_width=figure_width)
        for cell in group:
            table.add_row(Text(cell_label(cell.spec, varying)), *_figures(cell))
        notes = [Text(f"{cell_label(cell.spec, varying)}: {words}") for cell in group for words in _notes(cell)]
        own = [_statistics_table(group, varying)] if group[0].statistics else []
        yield Padding(Stack(table, *notes, *own), (1, 0, 0, 0))
    if any(layer_strip(cell.spec.freeze.label, cell.spec.model.n_layers) for cell in cells):
        yield Text(LEGEND, style="dim")


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
    """What its rule froze, and counts of the trials that ended in another state than completed."""
    lost = ", ".join(f"{n} {state}" for state, n in sorted(cell.states.items()) if state != State.COMPLETED)
    return [words for words in (cell.froze, lost) if words]


# Column names and widths, so that the tables of a sweep align in 80 columns.
_ITEMS = {"tokens": "sentences", "text": "texts", None: "items"}
_FREEZE_WIDTH = 20
_FIGURES = {"seeds": 5, "dev score": 12, "test": 5, "trainable": 9, "saved": 6, "time s": 7, "saved s": 7}


def _grouped(cells: Sequence[CellSummary]) -> dict[Group, list[CellSummary]]:
    groups: dict[Group, list[CellSummary]] = {}
    for cell in cells:
        groups.setdefault(objective_group(cell.spec), []).append(cell)
    return groups


def _figures(cell: CellSummary) -> tuple[str, ...]:
    seeds = f"{cell.n}/{cell.planned}"
    if cell.score_mean is None:
        return (seeds, *[""] * (len(_FIGURES) - 1))
    assert cell.trainable_params is not None
    assert cell.training_cost_s is not None
    std = f" ± {100 * cell.score_std:4.2f}" if cell.score_std is not None else ""
    return (
        seeds,
        f"{100 * cell.score_mean:.2f}{std}",
        f"{100 * cell.test_mean:.2f}" if cell.test_mean is not None else "",
        _count(cell.trainable_params),
        _share(cell.saved_params, 1),
        f"{cell.training_cost_s:.1f}",
        _share(cell.saved_time, 1),
    )


def _share(value: float | None, digits: int) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def _count(n: int) -> str:
    """About three digits: `2.23 M`, `795 k`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return str(n)


def failure_table(failures: Sequence[tuple[str, str, str]]) -> Table:
    """One row for all failures with the same state and error; `failures` are (state, last line of the error, label)."""
    groups: dict[tuple[str, str], list[str]] = {}
    for state, error, label in failures:
        groups.setdefault((state, error), []).append(label)
    table = Table(box=None, padding=(0, 2))
    for column in ("trials", "state", "error", "first trial"):
        table.add_column(column, overflow="fold", justify="right" if column == "trials" else "left")
    for (state, error), labels in sorted(groups.items(), key=lambda group: -len(group[1])):
        table.add_row(str(len(labels)), state, Text(error), Text(labels[0]))
    return table
