"""What a launch prints before and after its trials: the plan, and tables of settings, results and failures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.console import Group as Stack
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.cells import cell_label, group_by, objective_group, varying_settings
from orchestrator.analysis.freeze_names import LEGEND, layer_strip
from orchestrator.analysis.summary import CellSummary
from orchestrator.config.quantities import amount, points
from orchestrator.execution.failures import last_line
from orchestrator.execution.trial_queue import End
from orchestrator.sweeps.cluster_spec import ClusterSpec, device_line
from orchestrator.sweeps.corpus_words import corpora_lines
from orchestrator.sweeps.plan import Plan
from trials.metrics.metric import metric_label
from trials.record import State
from trials.spec import TrialSpec, examples_seen, steps_an_epoch
from trials.tasks.task import head_of


def plan_lines(plan: Plan, store: str, cluster: ClusterSpec) -> list[str]:
    """The plan as lines of text. Work that checkpoints keep is not counted."""
    kept = sum(examples_seen(spec, plan.kept_steps.get(spec.trial_id, 0)) for spec in plan.to_run)
    kept_epochs = sum(_kept_epochs(plan, spec) for spec in plan.to_run)
    epochs_left = sum(spec.optim.epochs for spec in plan.workload) - kept_epochs
    epochs = int(epochs_left) if epochs_left == int(epochs_left) else round(epochs_left, 2)
    sentences = sum(spec.optim.epochs * spec.train_size for spec in plan.workload) - kept
    corpora = list(dict.fromkeys((spec.task, spec.data) for spec in plan.workload))
    most = "" if plan.runs_all else "at most "
    seeds = amount(len({spec.seeds for spec in (*plan.trials, *plan.stand_ins)}), "seed")
    resumed = f", {len(plan.kept_steps):,} of them from a checkpoint{_places(plan)}" if plan.kept_steps else ""
    return [
        f"sweep   {plan.sweep.name} ({plan.source})",
        f"trials  {plan.n_trials:,} = {amount(plan.n_cells, 'setting')} x {seeds}; "
        f"{plan.n_skipped:,} complete in the store, {most}{len(plan.workload):,} to run{resumed}",
        *([f"work    {most}{amount(epochs, 'epoch')}, {amount(sentences, 'training sentence')}"] * bool(plan.workload)),
        *(f"search  {line}" for line in plan.sweep.search_words()),
        *(f"data    {line}" for line in corpora_lines(corpora)),
        *([f"device  {device_line(cluster, plan.sweep.resources)}"] if plan.workload else []),
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


def cell_tables(cells: Sequence[CellSummary]) -> Iterator[RenderableType]:
    """One table per objective group, one row per setting: score over seeds, parameters, time, savings of freezing."""
    varying = varying_settings([cell.spec for cell in cells])
    width = max((len(cell_label(cell.spec, varying)) for cell in cells), default=0)
    for (task, metric, corpus, size), group in group_by(cells, lambda cell: objective_group(cell.spec)).items():
        title = f"{corpus}, {size:,} train {ITEMS[head_of(task)]}, {metric_label(metric)}"
        rows = [(cell_label(cell.spec, varying), *_figures(cell)) for cell in group]
        notes = [Text(f"{cell_label(cell.spec, varying)}: {note}") for cell in group for note in _notes(cell)]
        notes += [Text(note) for note in (_unevenness(group),) if note]
        own = [_statistics_table(group, varying)] if group[0].statistics else []
        yield Padding(Stack(_CellTable(title, rows, min(width, _FREEZE_WIDTH)), *notes, *own), (1, 0, 0, 0))
    if any(layer_strip(cell.spec.freeze, cell.spec.model.n_layers) for cell in cells):
        yield Text(LEGEND, style="dim")
    if any(not cell.spec.freeze.is_baseline for cell in cells):
        yield Text(dropout_of([cell.spec for cell in cells]), style="dim")


class _CellTable:
    """A row per setting: its name, then as many of `_FIGURES` as there is room for."""

    def __init__(self, title: str, rows: Sequence[Sequence[str]], freeze_width: int) -> None:
        self._title, self._rows, self._freeze_width = title, rows, freeze_width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        figures, room = list(_FIGURES.items()), options.max_width - self._freeze_width - 1
        while figures and sum(width + 1 for _, width in figures) > room:
            figures.pop()
        table = Table(title=Text(self._title), title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("freeze", overflow="fold", min_width=min(self._freeze_width, options.max_width - 1))
        for name, width in figures:
            table.add_column(name, justify="right", no_wrap=True, min_width=width)
        for freeze, *values in self._rows:
            table.add_row(Text(freeze), *values[: len(figures)])
        yield table
        if left_out := [name.partition("\n")[0] for name in list(_FIGURES)[len(figures) :]]:
            yield Text(f"{', '.join(left_out)}: on a wider terminal", style="dim")


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
    """The baseline's costs, what was frozen if that changed, and the trials that ended without completing."""
    lost = ", ".join(f"{n} {state}" for state, n in sorted(cell.states.items()) if state != State.COMPLETED)
    return [note for note in (_costs(cell), cell.froze, lost) if note]


def _costs(cell: CellSummary) -> str:
    """Absolute costs of training, for tables without shares of a baseline's costs."""
    if cell.trainable_params is None or cell.training_cost_s is None:
        return ""
    if not cell.is_baseline and cell.saved_time is not None:
        return ""
    flops = "" if cell.training_flops is None else f", {_magnitude(cell.training_flops)}FLOPs"
    return f"{_magnitude(cell.trainable_params)} trained parameters, {cell.training_cost_s:.1f} s of training{flops}"


def _unevenness(cells: Sequence[CellSummary]) -> str:
    """A note where a setting took very different times under its seeds, which freezing does not explain; else empty."""
    slowest = max((cell.slowest or 1.0 for cell in cells), default=1.0)
    return f"times of one setting differ up to {slowest:.1f}-fold: a busy machine" if slowest >= _SLOWED else ""


# Column names and widths, so that the tables of a sweep align in 80 columns.
ITEMS = {"tokens": "sentences", "text": "texts", None: "items"}
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
        f"{points(cell.score_mean)}{std}",
        points(cell.test_mean) if cell.test_mean is not None else "",
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


def failure_table(failures: Sequence[End]) -> Table:
    """One row for all failures with the same state and the same last line of the error."""
    groups: dict[tuple[State, str], list[str]] = {}
    for end in failures:
        groups.setdefault((end.state, last_line(end.error)), []).append(end.spec.label)
    table = Table(box=None, padding=(0, 2))
    for column in ("trials", "state", "error", "first trial"):
        table.add_column(column, overflow="fold", justify="right" if column == "trials" else "left")
    for (state, error), labels in sorted(groups.items(), key=lambda group: -len(group[1])):
        table.add_row(str(len(labels)), state.value, Text(error), TrialName(labels[0]))
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


def dropout_of(specs: Iterable[TrialSpec]) -> str:
    """Below a table: under which of the two its settings were measured."""
    kinds = {spec.has_frozen_dropout for spec in specs if not spec.freeze.is_baseline}
    return "frozen layers " + " or ".join("with dropout" if kind else "without dropout" for kind in sorted(kinds))


def cut_off_notes(specs: Sequence[TrialSpec], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each corpus, model and `max_length` of which words of dev or train were cut off.

    Args:
        specs: The trials of a sweep.
        rows: Rows of the store's `trials` table with `evidence.TRIAL_COLUMNS`; rows without counts say nothing.
    """
    by_id = {spec.trial_id: spec for spec in specs}
    most: dict[tuple[str, str, str, int], tuple[int, int]] = {}
    for row in rows:
        spec = by_id.get(row["trial_id"])
        if spec is not None and row["dev_cut_off"] is not None:
            key = spec.task, spec.data.name, spec.model.name, spec.max_length
            dev, train = most.get(key, (0, 0))
            most[key] = max(dev, row["dev_cut_off"]), max(train, row["train_cut_off"])
    return [_sentence(*key, *cut) for key, cut in most.items() if any(cut)]


def _sentence(task: str, corpus: str, model: str, max_length: int, dev: int, train: int) -> str:
    noun, end, fate = ("word", "", ", counted as errors,")
    if head_of(task) == "text":
        noun, end, fate = "text", "the end of ", ""
    return (
        f"{corpus}, {model}: max_length {max_length} cuts off {end}{amount(dev, noun)} of dev{fate} and "
        f"{'of ' if end else ''}up to {amount(train, noun)} of a train subset."
    )
