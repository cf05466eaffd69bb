"""Show what a store holds, from the store alone: without Ray, and also while a sweep runs.

permafrost status
permafrost status --store results --json
permafrost status --store results --trials
permafrost status --store results --follow
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
import typer

from orchestrator.analysis.freeze_names import freeze_changes
from orchestrator.analysis.summary import CellSummary, summarise
from orchestrator.api.tabulating import Table, table_notes
from orchestrator.claims.claims import RunningDriver, running_drivers
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, stdout
from orchestrator.config.quantities import amount, points
from orchestrator.execution.failures import last_line
from orchestrator.forecast import pace
from orchestrator.session.so_far import so_far_lines
from orchestrator.store import ResultStore, open_store
from orchestrator.store.evidence import TRIAL_COLUMNS
from orchestrator.store.parts import Follower
from orchestrator.store.plans import SweepPlan, stored_spec
from orchestrator.store.schema import TRIALS
from orchestrator.store.sweep_notes import SweepNote, notes_by_sweep
from orchestrator.sweeps.corpus_words import dev_size
from trials.metrics.metric import metric_label
from trials.record import COSTS, State
from trials.spec import TrialSpec
from trials.tasks.task import score_name

_POLL_S = 2.0  # a person watches


def status(
    store: options.Store = DEFAULT_STORE,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show each trial as it ends. Ctrl-C stops watching; the sweep continues.")
    ] = False,
    sweep: Annotated[
        str | None, typer.Option("--sweep", metavar="NAME", help="Only this sweep.", show_default="all of the store")
    ] = None,
    earlier: Annotated[
        bool, typer.Option("--all", help="Show the trials that an earlier version of a sweep declared, too.")
    ] = False,
    as_json: options.Json = False,
    each_trial: Annotated[bool, typer.Option("--trials", help="List every trial with its id.")] = False,
) -> None:
    """Show the sweeps of a store and their progress.

    Examples:
        permafrost status

        permafrost status --store results --json

        permafrost status --trials

        permafrost status --follow --store s3://bucket/results
    """
    with errors_as_exit_codes():
        results = open_store(store)
        if follow:
            _follow_store(results, results.sweep(sweep), stdout.print_line)
        if each_trial:
            _list_trials(results, as_json=as_json)
            return
        plans = results.sweeps() if sweep is None else [results.sweep(sweep)]
        if earlier:
            plans = [replace(plan, trials=(*results.earlier_trials(plan).trials, *plan.trials)) for plan in plans]
        _show(results, plans, as_json=as_json)


def _show(results: ResultStore, plans: Sequence[SweepPlan], *, as_json: bool) -> None:
    """The progress of sweeps, with their tables."""
    columns = dict.fromkeys([*TRIAL_COLUMNS, *pace.TRIAL_COLUMNS, "checkpoint_error"])
    rows = {row["trial_id"]: row for row in results.trials(list(columns)).to_pylist()}
    notes = notes_by_sweep(results.storage)
    if as_json:
        counts = [_counts(plan, rows) | {"note": str(notes.get(plan.name, ""))} for plan in plans]
        print(json.dumps({"store": str(results.address), "sweeps": counts}))
        return
    drivers = running_drivers(results.storage)
    running = {driver.holder.sweep for driver in drivers}
    in_order = sorted(plans, key=lambda plan: plan.name in running)  # those that run stand nearest to the prompt
    if stdout.is_terminal:
        draws = [partial(_show_sweep, results, rows, drivers, plan, notes) for plan in reversed(in_order)]
        stdout.file.write("".join(reversed(stdout.output_that_fits(draws, "sweeps, the newest last"))))
    else:
        for plan, cells in zip(in_order, _summaries([plan.specs for plan in in_order], rows.values()), strict=True):
            _show_sweep(results, rows, drivers, plan, notes, cells)
    stdout.print_line(f"{amount(len(rows), 'trial')} in {results.address}")


def _show_sweep(
    results: ResultStore,
    rows: Mapping[str, Mapping[str, Any]],
    drivers: Sequence[RunningDriver],
    plan: SweepPlan,
    notes: Mapping[str, SweepNote],
    cells: Sequence[CellSummary] | None = None,
) -> None:
    """Print how far a sweep is and its table; `rows` are those of the store's ended trials, by trial id."""
    counts, specs = _counts(plan, rows), plan.specs
    own = [rows[trial_id] for trial_id, _ in plan.trials if trial_id in rows]
    states = ", ".join(f"{n} {state}" for state, n in counts["states"].items()) or "none ended"
    stdout.print(f"sweep {plan.name}: {amount(counts['planned'], 'trial')}, {states}")
    if plan.name in notes:
        stdout.print_line(f"note    {notes[plan.name]}")
    for task, data in dict.fromkeys((spec.task, spec.data) for spec in specs if spec.data.sizes):
        stdout.print_line(f"data    {data.name}: {dev_size(task, data)}")
    of_sweep = [driver for driver in drivers if driver.holder.sweep == plan.name]
    for driver in of_sweep:
        stdout.print_line(f"driver  {driver}")
    if of_sweep:
        for line in so_far_lines(results, specs, plan.decision_plan):
            stdout.print_line(line)
    if text := pace.stored_time_left(results, plan, own, of_sweep):
        stdout.print_line(f"time left: {text}")
    table = Table(tuple(summarise(specs, own) if cells is None else cells), table_notes(results, plan, specs, rows))
    for part in table.parts():
        stdout.print(part)
    for note in [*table.notes, *_checkpoint_notes(own, len(plan.trials))]:
        stdout.print_line(f"note: {note}")


def _summaries(sweeps: Sequence[Sequence[TrialSpec]], rows: Collection[Mapping[str, Any]]) -> list[list[CellSummary]]:
    """`summarise` of each sweep; those that share no setting in one go, which takes a tenth of the time."""
    cells = [{spec.cell_id: spec for spec in reversed(specs)} for specs in sweeps]
    n_sweeps = Counter(cell for of_sweep in cells for cell in of_sweep)
    # Without a baseline of its own it may be compared with one at another learning rate, of this sweep alone.
    alone = [
        any(n_sweeps[cell] > 1 or spec.baseline_id not in of_sweep for cell, spec in of_sweep.items())
        for of_sweep in cells
    ]
    together = [spec for specs, is_alone in zip(sweeps, alone, strict=True) if not is_alone for spec in specs]
    found = {summary.spec.cell_id: summary for summary in summarise(together, rows)}
    return [
        summarise(specs, rows) if is_alone else [found[cell] for cell in dict.fromkeys(spec.cell_id for spec in specs)]
        for specs, is_alone in zip(sweeps, alone, strict=True)
    ]


def _checkpoint_notes(rows: Sequence[Mapping[str, Any]], n_trials: int) -> list[str]:
    errors = [row["checkpoint_error"] for row in rows if row["checkpoint_error"]]
    where = f"in {len(errors)} of {amount(n_trials, 'trial')} checkpoints could not be written, the last time: "
    return [where + errors[-1]] if errors else []


def _counts(plan: SweepPlan, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    states = Counter(rows[trial_id]["state"] for trial_id, _ in plan.trials if trial_id in rows)
    n_cells = len({spec.cell_id for spec in plan.specs})
    return {"name": plan.name, "planned": len(plan.trials), "cells": n_cells, "states": dict(sorted(states.items()))}


def _list_trials(results: ResultStore, *, as_json: bool) -> None:
    """One line per trial: id, state, best dev score in points, label. Trials that have not ended come last."""
    rows = results.trials(TRIALS.names).to_pylist()
    specs = {row["trial_id"]: stored_spec(row["spec"], row["trial_id"]) for row in rows}
    unfinished = _unfinished_trials(results, rows)
    unfinished_ids = {trial.spec.trial_id for trial in unfinished}
    listed: list[dict[str, Any]] = [
        {"trial_id": i, "state": row["state"], "score": row["best_score"], "label": specs[i].label}
        | {"froze": freeze_changes(specs[i], row)}
        | ({"costs": {name: row[name] for name in COSTS}} if as_json else {})
        for row in sorted(rows, key=lambda row: specs[row["trial_id"]].label)
        if (i := row["trial_id"]) not in unfinished_ids
    ]
    for trial in unfinished:
        state = "running" if trial.is_running else "interrupted"
        values = {"trial_id": trial.spec.trial_id, "state": state, "score": trial.score, "label": trial.spec.label}
        listed.append(values | {"epoch": trial.epoch, "epochs": trial.spec.optim.epochs})
    if as_json:
        print(json.dumps({"trials": listed}))
        return
    labels = _labels(specs | {trial.spec.trial_id: trial.spec for trial in unfinished})
    for entry in listed:
        score = "" if entry["score"] is None else points(entry["score"])
        more = f"epoch {entry['epoch']:g}/{entry['epochs']}" if "epoch" in entry else entry["froze"]
        label = labels[entry["trial_id"]]
        line = f"{entry['trial_id']}  {entry['state'] or 'unknown':<13}  {score:>6}  {label}  {more}"
        stdout.print_line(line.rstrip())


def _labels(specs: Mapping[str, TrialSpec]) -> dict[str, str]:
    """The names of trials by id, after those of their models where these differ."""
    several = len({spec.model.name for spec in specs.values()}) > 1
    return {i: f"{spec.model.name}_{spec.label}" if several else spec.label for i, spec in specs.items()}


@dataclass(frozen=True)
class _Unfinished:
    """A trial whose newest attempt has evaluations but has not ended.

    Attributes:
        is_running: Whether a driver runs it; else the next launch resumes it.
        epoch, score: The newest evaluation.
    """

    spec: TrialSpec
    is_running: bool
    epoch: float
    score: float


def _unfinished_trials(store: ResultStore, ended: Sequence[Mapping[str, Any]]) -> list[_Unfinished]:
    """The unfinished trials of all sweeps of a store, in the order of their labels. Raises StoreError.

    Args:
        ended: The rows of ended trials: `trial_id`, `attempt`.
    """
    attempts = {row["trial_id"]: row["attempt"] for row in ended}
    newest = _newest_attempts(store)
    begun = {i for i, (attempt, *_) in newest.items() if attempt > attempts.get(i, 0)}
    unfinished = _planned(store, begun) if begun else {}
    listed = sorted(unfinished.values(), key=lambda trial: trial[0].label)
    return [_Unfinished(spec, is_running, *newest[spec.trial_id][1:]) for spec, is_running in listed]


def _newest_attempts(store: ResultStore) -> dict[str, tuple[int, float, float]]:
    """Trial id -> its newest attempt with evaluations, and epoch and score of the last one."""
    parts = Follower(store.storage, "epochs", ("trial_id", "attempt", "step", "epoch", "score")).poll().rows
    if not parts:
        return {}
    rows = pa.concat_tables(parts).sort_by([("trial_id", "ascending"), ("attempt", "ascending"), ("step", "ascending")])
    columns = (rows[name].to_pylist() for name in ("trial_id", "attempt", "epoch", "score"))
    return {
        trial_id: (attempt, epoch, score)
        for trial_id, attempt, epoch, score in zip(*columns, strict=True)
        if epoch is not None and score is not None
    }


def _planned(store: ResultStore, wanted: set[str]) -> dict[str, tuple[TrialSpec, bool]]:
    """Trial id -> its spec in the newest plan, and whether a driver runs it."""
    running = {trial_id for driver in running_drivers(store.storage) for trial_id in driver.trials}
    specs = {trial_id: spec for plan in store.sweeps() for trial_id, spec in plan.trials if trial_id in wanted}
    return {trial_id: (stored_spec(spec, trial_id), trial_id in running) for trial_id, spec in specs.items()}


def _follow_store(store: ResultStore, plan: SweepPlan, write: Callable[[str], None]) -> None:
    """Write one line for each trial that has ended or ends, until no driver runs the sweep. Raises StoreError."""
    specs = {trial_id: stored_spec(spec, trial_id) for trial_id, spec in plan.trials}
    labels = _labels(specs)
    follower, ended = (
        Follower(store.storage, "trials", ("trial_id", "attempt", "state", "best_score", "error")),
        dict[str, str](),
    )
    while True:
        is_running = bool(running_drivers(store.storage, plan.name))
        for part in follower.poll().rows:
            for row in part.to_pylist():
                spec = specs.get(row["trial_id"])
                if spec is not None and ended.get(spec.trial_id) != (result := _result(row, spec)):
                    ended[spec.trial_id] = result
                    write(f"{len(ended)}/{len(specs)} {row['state']:<9} {labels[spec.trial_id]}{result}")
        if not is_running:
            write(f"sweep {plan.name}: not running; {len(ended)} of {amount(len(specs), 'trial')} ended.")
            return
        time.sleep(_POLL_S)


def _result(row: dict[str, Any], spec: TrialSpec) -> str:
    metric = metric_label(score_name(spec.task, spec.score))
    score = "" if row["best_score"] is None else f"  {metric} {points(row['best_score'])}"
    error = "" if row["state"] == State.COMPLETED else f"  {last_line(str(row['error'] or ''))}"
    return score + error
