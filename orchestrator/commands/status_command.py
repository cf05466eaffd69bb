"""Show what a store holds, from the store alone: without Ray, and also while a sweep runs.

permafrost status
permafrost status --store results --json
permafrost status --store results --trials
permafrost status --store results --follow
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from orchestrator.analysis.summary import CellSummary
from orchestrator.api.answering import chosen_sweep
from orchestrator.api.tabulating import Table
from orchestrator.claims import running_drivers
from orchestrator.commands.trial_list import list_trials
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, stdout
from orchestrator.config.quantities import counted
from orchestrator.forecast import pace
from orchestrator.session.following import follow_store
from orchestrator.session.so_far import so_far_lines
from orchestrator.store import ResultStore, open_store
from orchestrator.store.evidence import TRIAL_COLUMNS
from orchestrator.store.stored_specs import planned_specs
from orchestrator.store.sweep_plans import SweepPlan
from orchestrator.sweeps.corpus_words import dev_size


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
    with reported():
        results = open_store(store)
        if follow:
            follow_store(results, chosen_sweep(results, sweep), stdout.print_line)
        if each_trial:
            list_trials(results, as_json=as_json)
            return
        plans = results.sweeps() if sweep is None else [chosen_sweep(results, sweep)]
        if earlier:
            plans = [replace(plan, trials=(*results.earlier_trials(plan).trials, *plan.trials)) for plan in plans]
        _show(results, plans, as_json=as_json)


def _show(results: ResultStore, plans: Sequence[SweepPlan], *, as_json: bool) -> None:
    """The progress of sweeps, with their tables."""
    columns = dict.fromkeys([*TRIAL_COLUMNS, *pace.TRIAL_COLUMNS, "checkpoint_error"])
    trials = results.trials(list(columns)).to_pylist()
    sweeps = [(plan, Table.of_rows(results, plan, planned_specs(plan), trials)) for plan in plans]
    if as_json:
        print(
            json.dumps(
                {"store": str(results.address), "sweeps": [_counts(plan, table.cells) for plan, table in sweeps]}
            )
        )
        return
    drivers = running_drivers(results.storage)
    for plan, table in sweeps:
        counts = _counts(plan, table.cells)
        states = ", ".join(f"{n} {state}" for state, n in counts["states"].items()) or "none ended"
        stdout.print(f"sweep {plan.name}: {counted(counts['planned'], 'trial')}, {states}")
        for task, data in dict.fromkeys((spec.task, spec.data) for spec in planned_specs(plan) if spec.data.sizes):
            stdout.print_line(f"data    {data.name}: {dev_size(task, data)}")
        of_sweep = [driver for driver in drivers if driver.holder.sweep == plan.name]
        for driver in of_sweep:
            stdout.print_line(f"driver  {driver}")
        if of_sweep:
            for line in so_far_lines(results, planned_specs(plan), plan.asks):
                stdout.print_line(line)
        if left := pace.stored_time_left(results, plan, trials, of_sweep):
            stdout.print_line(f"time left: {left}")
        for part in table.parts():
            stdout.print(part)
        for note in [*table.notes, *_checkpoint_notes(plan, trials)]:
            stdout.print_line(f"note: {note}")
    stdout.print_line(f"{counted(len(trials), 'trial')} in {results.address}")


def _checkpoint_notes(plan: SweepPlan, trials: list[dict[str, Any]]) -> list[str]:
    planned = dict(plan.trials)
    errors = [row["checkpoint_error"] for row in trials if row["trial_id"] in planned and row["checkpoint_error"]]
    where = f"in {len(errors)} of {counted(len(planned), 'trial')} checkpoints could not be written, the last time: "
    return [where + errors[-1]] if errors else []


def _counts(plan: SweepPlan, cells: Sequence[CellSummary]) -> dict[str, Any]:
    states: Counter[str] = sum((cell.states for cell in cells), Counter())
    return {"name": plan.name, "planned": len(plan.trials), "cells": len(cells), "states": dict(sorted(states.items()))}
