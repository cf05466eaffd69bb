"""The trials of a store that have begun and not ended, and how they will probably end; reads the store only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orchestrator.forecast.curve import Outlook
from orchestrator.forecast.live_curves import WatchedCurves, kind_of
from orchestrator.lease import running_driver
from orchestrator.store import ResultStore
from orchestrator.store.follower import Follower
from orchestrator.store.plans import SweepPlan
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec
from trials.spec import TrialSpec

_COLUMNS = ("trial_id", "attempt", "step", "epoch", "score")


@dataclass(frozen=True)
class Unfinished:
    """A trial that has evaluations and, of their attempt, no end.

    Attributes:
        spec: It.
        is_running: Whether a driver runs its sweep; else the next launch goes on with it.
        epoch, score: Of its newest evaluation.
        outlook: How it will end; None where not known.
    """

    spec: TrialSpec
    is_running: bool
    epoch: float
    score: float
    outlook: Outlook | None


def unfinished_trials(
    store: ResultStore, ended: Sequence[Mapping[str, Any]], specs: Mapping[str, TrialSpec]
) -> list[Unfinished]:
    """The trials of all sweeps of the store that have begun and not ended, in the order of their labels.

    Args:
        store: It.
        ended: A row a trial that has ended, read before: `trial_id`, `attempt`, `state`.
        specs: Of those rows, by trial id.

    Raises:
        StoreError: it cannot be read.
    """
    attempts = {row["trial_id"]: row["attempt"] for row in ended}
    curves = _newest_attempts(store)
    begun = {i for i, (attempt, _) in curves.items() if attempt > attempts.get(i, 0)}
    found = _planned(store, begun) if begun else {}
    kinds = {kind_of(spec) for spec, _ in found.values()}
    watched = WatchedCurves()
    for row in ended:
        spec = specs[row["trial_id"]]
        if row["state"] == State.COMPLETED and kind_of(spec) in kinds and row["trial_id"] in curves:
            _tell(watched, spec, curves[row["trial_id"]][1])
            watched.completed(spec)
    for spec, _ in found.values():
        _tell(watched, spec, curves[spec.trial_id][1])
    listed = sorted(found.values(), key=lambda trial: trial[0].label)
    return [
        Unfinished(spec, is_running, *curves[spec.trial_id][1][-1], watched.outlook(spec))
        for spec, is_running in listed
    ]


def _tell(watched: WatchedCurves, spec: TrialSpec, points: Sequence[tuple[float, float]]) -> None:
    for epoch, score in points:
        watched.evaluated(spec, epoch, score)


def _newest_attempts(store: ResultStore) -> dict[str, tuple[int, list[tuple[float, float]]]]:
    """Of each trial its newest attempt that left rows, and (epoch, score) of its evaluations in their order."""
    parts = Follower(store.storage, "epochs", _COLUMNS).poll().rows
    if not parts:
        return {}
    rows = pa.concat_tables(parts).sort_by([("trial_id", "ascending"), ("attempt", "ascending"), ("step", "ascending")])
    found: dict[str, tuple[int, list[tuple[float, float]]]] = {}
    columns = (rows[name].to_pylist() for name in ("trial_id", "attempt", "epoch", "score"))
    for trial_id, attempt, epoch, score in zip(*columns, strict=True):
        if found.get(trial_id, (0, []))[0] != attempt:
            found[trial_id] = (attempt, [])
        if epoch is not None and score is not None:
            found[trial_id][1].append((epoch, score))
    return {trial_id: kept for trial_id, kept in found.items() if kept[1]}


def _planned(store: ResultStore, wanted: set[str]) -> dict[str, tuple[TrialSpec, bool]]:
    """The specs of some trials from the newest plans that name them, and whether a driver runs the plan's sweep."""
    found: dict[str, tuple[TrialSpec, bool]] = {}
    for plan in store.sweeps():
        named = [(trial_id, spec) for trial_id, spec in plan.trials if trial_id in wanted]
        if named:
            runs = _runs(store, plan)
            found |= {i: (stored_spec(spec, i), runs or found.get(i, (None, False))[1]) for i, spec in named}
    return found


def _runs(store: ResultStore, plan: SweepPlan) -> bool:
    return running_driver(store.storage, plan.name) is not None
