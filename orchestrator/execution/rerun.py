"""Run one trial of a store again, in this process, to reproduce its numbers or its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orchestrator.execution.recorder import epoch_row
from orchestrator.store import ResultStore
from orchestrator.store.contents import COMPUTED
from orchestrator.store.schema import EPOCHS, State
from orchestrator.store.specs import stored_spec
from trials.errors import StoreError
from trials.record import EpochRecord
from trials.spec import TrialSpec

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """A number that was not reproduced.

    Attributes:
        step: The step of the evaluation.
        column: The column of the store.
        stored, found: The value in the store and that of the new run; None if there is no such evaluation.
    """

    step: int
    column: str
    stored: Any
    found: Any


def find_trial(store: ResultStore, trial_id: str) -> tuple[TrialSpec, Row]:
    """The spec and row of a completed trial, by its id or a prefix of it.

    Raises:
        StoreError: no completed trial has this prefix, or several have.
    """
    rows = [row for row in store.trials().to_pylist() if (row["trial_id"] or "").startswith(trial_id)]
    if not rows:
        raise StoreError(f"no trial {trial_id!r} in {store.address}. `permafrost status --trials` lists them.")
    if len(rows) > 1:
        ids = ", ".join(row["trial_id"] for row in rows[:4])
        raise StoreError(f"{trial_id!r} matches {len(rows)} trials: {ids}. Give more digits.")
    if rows[0]["state"] != State.COMPLETED:
        raise StoreError(
            f"trial {rows[0]['trial_id']} ended {rows[0]['state']}. Only a completed one can be run again."
        )
    return stored_spec(rows[0]["spec"], rows[0]["trial_id"]), rows[0]


def rerun(spec: TrialSpec, row: Row, on_record: Callable[[EpochRecord], None]) -> tuple[list[Row], Any]:
    """Run a trial with the same number of threads; its epoch rows and its result (`trials.run.Trained`)."""
    import torch

    from trials.run import run_trial

    torch.set_num_threads(row.get("threads") or 1)
    parts, rows = row.get("accumulation") or 1, list[Row]()
    trial = run_trial(spec, predictions="none", accumulation=parts)
    while True:
        try:
            record = next(trial)
        except StopIteration as end:
            # As a store returns them: `step_losses` of a regression are rounded there.
            return pa.Table.from_pylist(rows, EPOCHS).to_pylist(), end.value
        on_record(record)
        rows.append(epoch_row(spec, row["attempt"], record))


def differences(stored: list[Row], found: list[Row]) -> list[Difference]:
    """Every computed number that is not bit-identical, evaluation by evaluation."""
    by_step = {row["step"]: row for row in found}
    differing = []
    for row in stored:
        other = by_step.pop(row["step"], None)
        if other is None:
            differing.append(Difference(row["step"], "step", row["step"], None))
            continue
        pairs = [(column, row.get(column), other.get(column)) for column in ("step", *COMPUTED["epochs"])]
        differing += [Difference(row["step"], name, a, b) for name, a, b in pairs if not _same(a, b)]
    return differing + [Difference(step, "step", None, step) for step in by_step]


def _same(stored: Any, found: Any) -> bool:
    if isinstance(stored, list):
        return len(stored) == len(found) and all(a == b for a, b in zip(stored, found, strict=True))
    return bool(stored == found)
