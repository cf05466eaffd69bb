"""The trials of a store, a line each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orchestrator.analysis.freeze_names import froze
from orchestrator.claims import running_drivers
from orchestrator.config.console import stdout
from orchestrator.config.quantities import points
from orchestrator.store import ResultStore
from orchestrator.store.parts import Follower
from orchestrator.store.schema import TRIALS
from orchestrator.store.stored_specs import stored_spec
from trials.record import COSTS
from trials.spec import TrialSpec


def list_trials(results: ResultStore, *, as_json: bool) -> None:
    """One line per trial: id, state, best dev score in points, label. Trials that have not ended come last."""
    rows = results.trials(TRIALS.names).to_pylist()
    specs = {row["trial_id"]: stored_spec(row["spec"], row["trial_id"]) for row in rows}
    unfinished = _unfinished_trials(results, rows)
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
