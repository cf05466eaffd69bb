"""What a search found, in words."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence

from orchestrator.search.cell import Cell
from orchestrator.store.schema import State
from orchestrator.store.summary import cell_label, varying_settings
from orchestrator.sweeps.search_spec import COSTS, less_is_better
from trials.metrics.metric import metric_label

_COSTS = {
    "train_s": "{:.1f} s of training",
    "energy_j": "{:.0f} J",
    "peak_memory_bytes": "{:.3g} bytes",
    "trainable_params": "{:,.0f} trainable",
}


def found_lines(cells: Sequence[Cell], objectives: Sequence[str] = ("score",)) -> list[str]:
    """The best cell of each objective group, or, of several objectives, those that no other is better than in all."""
    varying = varying_settings([spec for cell in cells for spec in cell.specs[:1]])
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    found = []
    for group in groups.values():
        best = front(group, objectives)
        found += [f"best    {cell_label(cell.specs[0], varying)}: {_values(cell, objectives)}" for cell in best]
    n_stopped = sum(state is State.PRUNED for cell in cells for state in cell.over.values())
    n_paused = sum(len(cell.waiting) for cell in cells)
    if n_stopped + n_paused:
        found.append(f"        {n_stopped + n_paused} of {sum(len(cell.specs) for cell in cells)} trials stopped early")
    return found


def front(cells: Sequence[Cell], objectives: Sequence[str]) -> list[Cell]:
    """The cells that no other beats or equals in all objectives, with one objective the best; of complete trials."""
    having = [(cell, values) for cell in cells if (values := _oriented(cell, objectives)) is not None]
    best = [
        (cell, values)
        for i, (cell, values) in enumerate(having)
        if not any(_beats(other, values, before=j < i) for j, (_, other) in enumerate(having) if j != i)
    ]
    return [cell for cell, _ in sorted(best, key=lambda one: one[1], reverse=True)]


def _beats(other: Sequence[float], values: Sequence[float], *, before: bool) -> bool:
    """Whether another is at least as good in all; of equals the first stands."""
    at_least = all(a >= b for a, b in zip(other, values, strict=True))
    return at_least and (before or tuple(other) != tuple(values))


def _oriented(cell: Cell, objectives: Sequence[str]) -> tuple[float, ...] | None:
    """The means, larger is better; None where one is not known."""
    means = [cell.mean(name) for name in objectives]
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means):
        return None
    return tuple(-mean if less_is_better(name) else mean for name, mean in zip(objectives, known, strict=True))


def _values(cell: Cell, objectives: Sequence[str]) -> str:
    shown = []
    for name in objectives:
        values = [value for results in cell.results() if (value := results.get(name)) is not None]
        mean = statistics.fmean(values)
        if name in COSTS:
            shown.append(_COSTS[name].format(mean))
        else:
            spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
            shown.append(f"{metric_label(name)} {100 * mean:.2f}{spread}")
    n = len(cell.results())
    return f"{', '.join(shown)} ({n} seed{'s' if n > 1 else ''})"
