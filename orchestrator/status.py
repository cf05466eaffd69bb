"""What a store holds, read from the store only: it needs no Ray, and a sweep may be running.

python -m orchestrator.status
python -m orchestrator.status --store results --json
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from orchestrator.command import DEFAULT_STORE, DebugOption, JsonOption, StoreOption, reported, run, stdout
from orchestrator.store import open_store
from orchestrator.store.results import SweepPlan
from orchestrator.summary import Cell, summarise
from orchestrator.terminal import cell_tables
from trials.spec import TrialSpec


def status(store: StoreOption = DEFAULT_STORE, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Show the sweeps of a store and how far they are.

    Examples:
        permafrost status

        permafrost status --store results --json
    """
    with reported(debug=debug):
        results = open_store(store)
        trials = results.trials()
        found = [(plan, summarise(_specs(plan), trials)) for plan in results.sweeps()]
        if as_json:
            print(json.dumps({"store": str(results.root), "sweeps": [_counts(plan, cells) for plan, cells in found]}))
            return
        for plan, cells in found:
            counts = _counts(plan, cells)
            states = ", ".join(f"{n} {state}" for state, n in counts["states"].items()) or "none ended"
            stdout.print(f"sweep {plan.name}: {counts['planned']} trials, {states}", markup=False, highlight=False)
            for table in cell_tables(cells):
                stdout.print(table)
        stdout.print(f"{len(trials)} trials in {results.root}", markup=False, highlight=False, soft_wrap=True)


def _specs(plan: SweepPlan) -> list[TrialSpec]:
    return [TrialSpec.model_validate(spec) for _, spec in plan.trials]


def _counts(plan: SweepPlan, cells: list[Cell]) -> dict[str, Any]:
    states: Counter[str] = sum((cell.states for cell in cells), Counter())
    return {"name": plan.name, "planned": len(plan.trials), "cells": len(cells), "states": dict(sorted(states.items()))}


if __name__ == "__main__":
    run(status)
