"""The time left of a running sweep by the rows of its store, as its driver's own terminal says it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from orchestrator.claims.claims import RunningDriver, began_at, likely_shares
from orchestrator.forecast.pace import Pace
from orchestrator.store import ResultStore
from orchestrator.store.parts import Follower
from orchestrator.store.stored_specs import stored_spec
from orchestrator.store.sweep_plans import SweepPlan
from trials.record import paid_prefix_s
from trials.spec import TrialSpec
from trials.state import State

# columns of the tables `trials` and `epochs` that are read
TRIAL_COLUMNS = ("trial_id", "state", "time", "last_epoch", "setup_s", "prefix_s", "prefix_paid_s", "train_s", "eval_s")
_SUMS = [("epoch", "max"), ("train_s", "sum"), ("eval_s", "sum"), ("time", "max")]


class Begun(NamedTuple):
    """A trial that has evaluations but has not ended.

    Attributes:
        epochs: Epochs at its newest evaluation.
        seconds: Their seconds of training and evaluation.
        at: Unix time of that evaluation.
    """

    spec: TrialSpec
    epochs: float
    seconds: float
    at: float


def time_left(
    since: float,
    shares: tuple[float | None, float],
    planned: Iterable[TrialSpec],
    ended: Iterable[tuple[TrialSpec, Mapping[str, Any]]],
    begun: Iterable[Begun],
) -> str:
    """The time left of a sweep that runs (`Pace.time_left`).

    Args:
        since: Unix time at which its first driver started.
        shares: `Pace.likely` and `Pace.most`.
        planned: The trials that had not ended by then.
        ended: Those of them that have, with their rows of `TRIAL_COLUMNS`.
        begun: Those that run.
    """
    pace = Pace(planned)
    pace.likely, pace.most = shares
    for spec, row in ended:
        seconds = paid_prefix_s(row) + sum(row[name] or 0.0 for name in ("setup_s", "train_s", "eval_s"))
        pace.add_ended(spec, row["last_epoch"] or 0.0, seconds, is_complete=row["state"] == State.COMPLETED)
    for trial in begun:
        pace.add_running(trial.spec, trial.epochs, trial.seconds, trial.at - since)
    return pace.time_left(time.time() - since)


def stored_time_left(
    store: ResultStore, plan: SweepPlan, trials: Iterable[Mapping[str, Any]], drivers: Sequence[RunningDriver]
) -> str | None:
    """The time left of a stored sweep by its `drivers`; None if none runs it. Raises StoreError.

    Args:
        trials: Rows of `TRIAL_COLUMNS` of all ended trials of the store.
    """
    since = began_at(drivers)
    if since is None:
        return None
    rows = {row["trial_id"]: row for row in trials}
    before = {trial_id for trial_id, row in rows.items() if row["time"].timestamp() < since}
    specs = {trial_id: stored_spec(spec, trial_id) for trial_id, spec in plan.trials if trial_id not in before}
    ended = [(spec, rows[trial_id]) for trial_id, spec in specs.items() if trial_id in rows]
    waiting = {trial_id: spec for trial_id, spec in specs.items() if trial_id not in rows}
    return time_left(since, likely_shares(drivers), specs.values(), ended, _begun(store, waiting))


def _begun(store: ResultStore, waiting: Mapping[str, TrialSpec]) -> list[Begun]:
    """By the evaluations of each trial's newest attempt."""
    columns = ("trial_id", "attempt", *(name for name, _ in _SUMS))
    parts = Follower(store.storage, "epochs", columns).poll().rows
    if not parts:
        return []
    sums = pa.concat_tables(parts).group_by(["trial_id", "attempt"]).aggregate(_SUMS)
    newest = {row["trial_id"]: row for row in sums.sort_by("attempt").to_pylist() if row["trial_id"] in waiting}
    return [
        Begun(waiting[i], row["epoch_max"], row["train_s_sum"] + row["eval_s_sum"], row["time_max"].timestamp())
        for i, row in newest.items()
        if row["epoch_max"] is not None
    ]
