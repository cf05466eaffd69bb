"""The result of a search as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from orchestrator.analysis.cells import cell_label, grouped, varying_settings
from orchestrator.config.quantities import counted, points
from orchestrator.search.trial_results import Cell, centred, stacked
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import COSTS, less_is_better
from trials.metrics.metric import metric_label


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

    known = [(cell, values) for cell in cells if (values := _oriented(cell, objectives)) is not None]
    if not known:
        return []
    on_front = pareto_front(np.array([values for _, values in known]))
    best = {values: cell for (cell, values), on in reversed(list(zip(known, on_front, strict=True))) if on}
    return [best[values] for values in sorted(best, reverse=True)]


def _oriented(cell: Cell, objectives: Sequence[str]) -> tuple[float, ...] | None:
    """The means, oriented so that larger is better; None if any is unknown."""
    means = [cell.mean(name) for name in objectives]
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means):
        return None
    return tuple(-mean if less_is_better(name) else mean for name, mean in zip(objectives, known, strict=True))


def _values(cell: Cell, objectives: Sequence[str]) -> str:
    from orchestrator.analysis.describe import describe  # loads pandas

    shown = []
    for name in objectives:
        values = [value for results in cell.results() if (value := results.get(name)) is not None]
        seeds = describe(values)
        if name in COSTS:
            shown.append(COSTS[name].format(seeds.mean))
        else:
            spread = f" ± {100 * seeds.std:.2f}" if seeds.n > 1 else ""
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
    if known := [trial.has_collapsed for trial in cell.progress.values() if trial.has_collapsed is not None]:
        yield f"        {collapses(known).sentence}"
