"""The unfinished trials of a store, which is only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orchestrator.claims import running_drivers
from orchestrator.store import ResultStore
from orchestrator.store.parts import Follower
from orchestrator.store.stored_specs import stored_spec
from trials.spec import TrialSpec

_COLUMNS = ("trial_id", "attempt", "step", "epoch", "score")


@dataclass(frozen=True)
class Unfinished:
    """A trial whose newest attempt has evaluations but has not ended.

    Attributes:
        is_running: Whether a driver runs it; else the next launch resumes it.
        epoch, score: The newest evaluation.
    """

    spec: TrialSpec
    is_running: bool
    epoch: float
    score: float


def unfinished_trials(store: ResultStore, ended: Sequence[Mapping[str, Any]]) -> list[Unfinished]:
    """The unfinished trials of all sweeps of a store, in the order of their labels. Raises StoreError.

    Args:
        ended: The rows of ended trials: `trial_id`, `attempt`.
    """
    attempts = {row["trial_id"]: row["attempt"] for row in ended}
    newest = _newest_attempts(store)
    begun = {i for i, (attempt, *_) in newest.items() if attempt > attempts.get(i, 0)}
    unfinished = _planned(store, begun) if begun else {}
    listed = sorted(unfinished.values(), key=lambda trial: trial[0].label)
    return [Unfinished(spec, is_running, *newest[spec.trial_id][1:]) for spec, is_running in listed]


def _newest_attempts(store: ResultStore) -> dict[str, tuple[int, float, float]]:
    """Trial id -> its newest attempt with evaluations, and epoch and score of the last one."""
    parts = Follower(store.storage, "epochs", _COLUMNS).poll().rows
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
