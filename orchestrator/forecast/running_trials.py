"""The unfinished trials of a store and their expected end; the store is only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orchestrator.claims import running_drivers
from orchestrator.forecast.curve import Outlook
from orchestrator.forecast.live_curves import LiveCurves, kind_of
from orchestrator.store import ResultStore
from orchestrator.store.follower import Follower
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec
from trials.spec import TrialSpec

_COLUMNS = ("trial_id", "attempt", "step", "epoch", "score")


@dataclass(frozen=True)
class Unfinished:
    """A trial whose newest attempt has evaluations but has not ended.

    Attributes:
        is_running: Whether a driver runs it; else the next launch resumes it.
        epoch, score: The newest evaluation.
        outlook: Its expected end; None if unknown.
    """

    spec: TrialSpec
    is_running: bool
    epoch: float
    score: float
    outlook: Outlook | None


def unfinished_trials(
    store: ResultStore, ended: Sequence[Mapping[str, Any]], specs: Mapping[str, TrialSpec]
) -> list[Unfinished]:
    """The unfinished trials of all sweeps of a store, in the order of their labels. Raises StoreError.

    Args:
        ended: The rows of ended trials: `trial_id`, `attempt`, `state`.
    """
    attempts = {row["trial_id"]: row["attempt"] for row in ended}
    curves = _newest_attempts(store)
    begun = {i for i, (attempt, _) in curves.items() if attempt > attempts.get(i, 0)}
    unfinished = _planned(store, begun) if begun else {}
    kinds = {kind_of(spec) for spec, _ in unfinished.values()}
    live = LiveCurves()
    for row in ended:
        spec = specs[row["trial_id"]]
        if row["state"] == State.COMPLETED and kind_of(spec) in kinds and row["trial_id"] in curves:
            _add(live, spec, curves[row["trial_id"]][1])
            live.completed(spec)
    for spec, _ in unfinished.values():
        _add(live, spec, curves[spec.trial_id][1])
    listed = sorted(unfinished.values(), key=lambda trial: trial[0].label)
    return [
        Unfinished(spec, is_running, *curves[spec.trial_id][1][-1], live.outlook(spec)) for spec, is_running in listed
    ]


def _add(live: LiveCurves, spec: TrialSpec, points: Sequence[tuple[float, float]]) -> None:
    for epoch, score in points:
        live.evaluated(spec, epoch, score)


def _newest_attempts(store: ResultStore) -> dict[str, tuple[int, list[tuple[float, float]]]]:
    """Trial id -> its newest attempt with evaluations, and (epoch, score) of each evaluation in order."""
    parts = Follower(store.storage, "epochs", _COLUMNS).poll().rows
    if not parts:
        return {}
    rows = pa.concat_tables(parts).sort_by([("trial_id", "ascending"), ("attempt", "ascending"), ("step", "ascending")])
    newest: dict[str, tuple[int, list[tuple[float, float]]]] = {}
    columns = (rows[name].to_pylist() for name in ("trial_id", "attempt", "epoch", "score"))
    for trial_id, attempt, epoch, score in zip(*columns, strict=True):
        if newest.get(trial_id, (0, []))[0] != attempt:
            newest[trial_id] = (attempt, [])
        if epoch is not None and score is not None:
            newest[trial_id][1].append((epoch, score))
    return {trial_id: curve for trial_id, curve in newest.items() if curve[1]}


def _planned(store: ResultStore, wanted: set[str]) -> dict[str, tuple[TrialSpec, bool]]:
    """Trial id -> its spec in the newest plan, and whether a driver runs it."""
    running = {trial_id for driver in running_drivers(store.storage) for trial_id in driver.trials}
    specs = {trial_id: spec for plan in store.sweeps() for trial_id, spec in plan.trials if trial_id in wanted}
    return {trial_id: (stored_spec(spec, trial_id), trial_id in running) for trial_id, spec in specs.items()}
