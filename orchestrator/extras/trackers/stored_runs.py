"""The runs of a sweep, written to a tracker from its store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from orchestrator.analysis.answer_text import NO_ANSWER
from orchestrator.analysis.cells import cell_label, objective_group, varying_settings
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.summary import CellSummary, summarise
from orchestrator.config.quantities import points
from orchestrator.extras.trackers.tracked_run import RunWriter, Tracker
from orchestrator.store import ResultStore
from orchestrator.store.evidence import TRIAL_COLUMNS
from trials.escaping import markdown
from trials.metrics.metric import metric_label
from trials.spec import TrialSpec

_HEAD = (
    *("corpus", "train size", "metric", "frozen", "seeds", "dev score", "test score", "trainable", "parameters saved"),
    *("time s", "time saved"),
)


def replay(
    results: ResultStore,
    sweep: str,
    specs: Sequence[TrialSpec],
    tracker: Tracker,
    done: Callable[[TrialSpec], None] = lambda spec: None,
) -> int:
    """Write the runs of some trials of a sweep; returns how many have rows. `done` is called after each of them. Raises
    StoreError.
    """
    if not specs:
        return 0
    writer, n = RunWriter(tracker, sweep), 0
    epochs, ended = _by_trial(results.epochs().drop_columns(["step_losses"])), _by_trial(results.trials())
    for spec in specs:
        evaluations, ends = epochs(spec.trial_id), ended(spec.trial_id)
        for row in evaluations:
            writer.evaluated(spec, row)
        for row in ends:
            writer.ended(spec, row)
        n += bool(evaluations or ends)
        done(spec)
    return n


def documents_of(
    results: ResultStore, sweep: str, specs: Sequence[TrialSpec], plan: DecisionPlan | None = None
) -> dict[str, str]:
    """What the whole sweep found: `answer.json`, as `permafrost answer --json`, and `summary.md`. Raises StoreError."""
    from orchestrator.analysis.answer import answers  # loads pandas

    try:
        trials = results.evidence(specs)
        answered = answers(trials.frame, trials.specs, plan)
        paragraphs = [
            line for answer in answered for line in (f"**{markdown(answer.heading)}**", markdown(answer.sentence))
        ]
        lines = [line for paragraph in paragraphs for line in (paragraph, "")]
    except ValueError as error:  # the trials cannot be compared
        answered, lines = [], [markdown(f"no answer: {error}."), ""]
    cells = summarise(specs, results.trials(list(TRIAL_COLUMNS)).to_pylist())
    text = [f"# {markdown(sweep)}", "", *(lines or [NO_ANSWER, ""]), *_table(cells)]
    return {
        "answer.json": json.dumps([answer.as_json() for answer in answered], indent=1),
        "summary.md": "\n".join(text),
    }


def _by_trial(rows: pa.Table) -> Callable[[str], list[dict[str, Any]]]:
    """The rows of a trial, from rows that are ordered by trial; of a large store, only those of one are in memory."""
    ids: list[str] = rows["trial_id"].to_pylist()
    starts, n_rows = {trial_id: n for n, trial_id in reversed([*enumerate(ids)])}, Counter(ids)
    return lambda trial_id: rows.slice(starts.get(trial_id, 0), n_rows[trial_id]).to_pylist()


def _table(cells: Sequence[CellSummary]) -> list[str]:
    varying = varying_settings([cell.spec for cell in cells])
    rows = [_HEAD, ("---",) * len(_HEAD), *(_figures(cell, varying) for cell in cells)]
    return [f"| {' | '.join(row)} |" for row in rows] + [""]


def _figures(cell: CellSummary, varying: Sequence[str]) -> tuple[str, ...]:
    _, metric, corpus, size = objective_group(cell.spec)
    std = f" ± {points(cell.score_std)}" if cell.score_std is not None else ""
    return (
        markdown(corpus),
        f"{size:,}",
        markdown(metric_label(metric)),
        markdown(cell_label(cell.spec, varying)),
        f"{cell.n}/{cell.planned}",
        "" if cell.score_mean is None else points(cell.score_mean) + std,
        "" if cell.test_mean is None else points(cell.test_mean),
        "" if cell.trainable_params is None else f"{cell.trainable_params:,}",
        _share(cell.saved_params),
        "" if cell.training_cost_s is None else f"{cell.training_cost_s:.1f}",
        _share(cell.saved_time),
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{round(100 * value, 1) + 0.0:.1f} %"  # never -0.0
