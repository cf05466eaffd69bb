"""What a store holds, read from the store only: it needs no Ray, and a sweep may be running.

permafrost status
permafrost status --store results --json
permafrost status --store results --trials
permafrost status --store results --follow
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any

import typer

from orchestrator.analysis.summary import CellSummary, summarise
from orchestrator.analysis.trial_frame import COLUMNS
from orchestrator.config.console import (
    DEFAULT_STORE,
    ClusterOption,
    DebugOption,
    JsonOption,
    StoreOption,
    reported,
    stdout,
)
from orchestrator.forecast.live_curves import reach_words
from orchestrator.forecast.running_trials import Unfinished, unfinished_trials
from orchestrator.session.follow import follow_store
from orchestrator.session.tables import cell_tables
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan
from orchestrator.store.specs import stored_spec
from orchestrator.sweeps.cluster_spec import find_cluster
from trials.spec import TrialSpec


def status(
    store: StoreOption = DEFAULT_STORE,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show each trial as it ends, until no driver runs; Ctrl-C only looks away.")
    ] = False,
    sweep: Annotated[
        str | None, typer.Option("--sweep", metavar="NAME", help="Follow this one.", show_default="the newest")
    ] = None,
    cluster: ClusterOption = "local",
    as_json: JsonOption = False,
    each_trial: Annotated[bool, typer.Option("--trials", help="List every trial with its id.")] = False,
    debug: DebugOption = False,
) -> None:
    """Show the sweeps of a store and how far they are.

    Examples:
        permafrost status

        permafrost status --store results --json

        permafrost status --trials

        permafrost status --follow --cluster http://head:8265
    """
    with reported(debug=debug):
        where = find_cluster(cluster)
        if where.is_remote:
            from orchestrator.session.submit import follow_newest

            raise typer.Exit(follow_newest(where.address, sweep))
        results = open_store(store)
        if follow:
            follow_store(results, sweep, lambda line: stdout.print(line, markup=False, highlight=False, soft_wrap=True))
        if each_trial:
            _list_trials(results, results.trials().to_pylist(), as_json=as_json)
            return
        trials = results.trials(list(COLUMNS)).to_pylist()
        found = [(plan, summarise(_specs(plan), trials)) for plan in results.sweeps()]
        if as_json:
            print(
                json.dumps({"store": str(results.address), "sweeps": [_counts(plan, cells) for plan, cells in found]})
            )
            return
        for plan, cells in found:
            counts = _counts(plan, cells)
            states = ", ".join(f"{n} {state}" for state, n in counts["states"].items()) or "none ended"
            stdout.print(f"sweep {plan.name}: {counts['planned']} trials, {states}", markup=False, highlight=False)
            for table in cell_tables(cells):
                stdout.print(table)
        stdout.print(f"{len(trials)} trials in {results.address}", markup=False, highlight=False, soft_wrap=True)


def _list_trials(results: ResultStore, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """A line a trial: id, state, best dev score, label; by label, those that have not ended after the others."""
    specs = {row["trial_id"]: stored_spec(row["spec"], row["trial_id"]) for row in rows}
    begun = unfinished_trials(results, rows, specs)
    going_on = {trial.spec.trial_id for trial in begun}
    listed = [
        {"trial_id": i, "state": row["state"], "score": row["best_score"], "label": specs[i].label}
        for row in sorted(rows, key=lambda row: specs[row["trial_id"]].label)
        if (i := row["trial_id"]) not in going_on
    ]
    if as_json:
        print(json.dumps({"trials": [*listed, *map(_unfinished_values, begun)]}))
        return
    lines = [
        *(_trial_line(one["trial_id"], one["state"], one["score"], one["label"]) for one in listed),
        *map(_unfinished_line, begun),
    ]
    for line in lines:
        stdout.print(line, markup=False, highlight=False, soft_wrap=True)


def _trial_line(trial_id: str, state: str | None, score: float | None, label: str) -> str:
    shown = "" if score is None else f"{score:.4f}"
    return f"{trial_id}  {state or 'unknown':<13}  {shown:<6}  {label}"


def _unfinished_line(trial: Unfinished) -> str:
    spec = trial.spec
    epoch = f"epoch {trial.epoch:g}/{spec.optim.epochs}"
    line = _trial_line(spec.trial_id, _state(trial), trial.score, spec.label)
    return "  ".join(filter(None, [line, epoch, reach_words(trial.outlook)]))


def _unfinished_values(trial: Unfinished) -> dict[str, Any]:
    """As JSON: `score` is the newest, `best` what it will probably reach, with its 80 % interval."""
    best = trial.outlook.best if trial.outlook else None
    return {
        "trial_id": trial.spec.trial_id,
        "state": _state(trial),
        "score": trial.score,
        "label": trial.spec.label,
        "epoch": trial.epoch,
        "epochs": trial.spec.optim.epochs,
        "best": best and {"low": best.low, "median": best.median, "high": best.high, "source": best.source},
    }


def _state(trial: Unfinished) -> str:
    return "running" if trial.is_running else "interrupted"


def _specs(plan: SweepPlan) -> list[TrialSpec]:
    return [stored_spec(spec, trial_id) for trial_id, spec in plan.trials]


def _counts(plan: SweepPlan, cells: list[CellSummary]) -> dict[str, Any]:
    states: Counter[str] = sum((cell.states for cell in cells), Counter())
    return {"name": plan.name, "planned": len(plan.trials), "cells": len(cells), "states": dict(sorted(states.items()))}
