"""The trials of a store, a line each."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.analysis.freeze_names import froze
from orchestrator.config.console import stdout
from orchestrator.config.quantities import points
from orchestrator.forecast.unfinished import unfinished_trials
from orchestrator.store import ResultStore
from orchestrator.store.schema import TRIALS
from orchestrator.store.stored_specs import stored_spec
from trials.record import COSTS


def list_trials(results: ResultStore, *, as_json: bool) -> None:
    """One line per trial: id, state, best dev score in points, label. Trials that have not ended come last."""
    rows = results.trials(TRIALS.names).to_pylist()
    specs = {row["trial_id"]: stored_spec(row["spec"], row["trial_id"]) for row in rows}
    unfinished = unfinished_trials(results, rows)
    unfinished_ids = {trial.spec.trial_id for trial in unfinished}
    listed: list[dict[str, Any]] = [
        {"trial_id": i, "state": row["state"], "score": row["best_score"], "label": specs[i].label}
        | {"froze": froze(specs[i], row)}
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
    for entry in listed:
        score = "" if entry["score"] is None else points(entry["score"])
        more = f"epoch {entry['epoch']:g}/{entry['epochs']}" if "epoch" in entry else entry["froze"]
        line = f"{entry['trial_id']}  {entry['state'] or 'unknown':<13}  {score:>6}  {entry['label']}  {more}"
        stdout.print_line(line.rstrip())
