"""Rows of the four tables, as short as a test needs them; the other columns are null."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from orchestrator.store import ResultStore
from orchestrator.store.contents import COMMIT_ORDER
from orchestrator.store.row_digests import RECORDED, as_columns, recorded
from orchestrator.store.schema import TABLES
from orchestrator.store.sweep_plans import SweepPlan
from trials.spec import TrialSpec, evaluation_steps, steps_an_epoch

TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def epoch(trial_id: str = "a", attempt: int = 1, step: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of `epochs`."""
    row = {"trial_id": trial_id, "attempt": attempt, "step": step, "score": 0.5, "step_losses": [2.0, 1.5]}
    return row | {"time": TIME} | changes


def trial(trial_id: str = "a", attempt: int = 1, state: str = "completed", **changes: Any) -> dict[str, Any]:
    """A row of `trials`."""
    return {"trial_id": trial_id, "attempt": attempt, "state": state, "time": TIME} | changes


def tag(trial_id: str = "a", attempt: int = 1, name: str = "NOUN", **changes: Any) -> dict[str, Any]:
    """A row of `tags`."""
    row = {"trial_id": trial_id, "attempt": attempt, "split": "dev", "level": "token", "tag": name}
    return row | {"support": 4, "predicted": 2, "correct": 1} | changes


def prediction(trial_id: str = "a", attempt: int = 1, sentence: int = 0, **changes: Any) -> dict[str, Any]:
    """A row of `predictions`."""
    row = {"trial_id": trial_id, "attempt": attempt, "split": "dev", "sentence": sentence, "forms": ["a", "b"]}
    return row | {"gold": ["X", "Y"], "predicted": ["X", None], "probability": [0.5, None]} | changes


def plan_of(*specs: TrialSpec, name: str = "tiny", time: float = 1.0) -> SweepPlan:
    """What a sweep of these trials declares."""
    planned = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in specs)
    return SweepPlan(name, time, f"{name}.yaml", planned)


def complete(
    store: ResultStore,
    spec: TrialSpec,
    attempt: int = 1,
    *,
    without: Sequence[str] = (),
    spec_text: str | None = None,
    recording: bool = True,
    **changes: Any,
) -> None:
    """Everything that a completed trial leaves, in the order it is committed: two labels, two sentences a split.

    With `recording` its own row records the others; rows of the oldest versions do not.
    """
    steps = evaluation_steps(steps_an_epoch(spec) * spec.optim.epochs, spec.optim.epochs, spec.eval_every)
    scores = [n / 16 for n in range(1, len(steps) + 1)]
    key: dict[str, Any] = {"trial_id": spec.trial_id, "attempt": attempt}
    splits = ("dev", "test")
    found: dict[str, Any] = {
        "best_score": scores[-1],
        "test_score": 0.5,
        "best_metrics": [("accuracy", scores[-1])],
        "error": None,
    }
    rows: dict[str, list[dict[str, Any]]] = {
        "epochs": [epoch(**key, step=step, score=score) for step, score in zip(steps, scores, strict=True)],
        "tags": [tag(**key, split=split, name=name, support=2) for split in splits for name in ("NOUN", "VERB")],
        "predictions": [prediction(**key, split=split, sentence=n) for split in splits for n in (0, 1)],
        "contributions": [{**key, "split": split, "values": [0.25, 0.75]} for split in splits],
        "trials": [trial(**key, spec=spec_text or spec.model_dump_json(), **(found | changes))],
    }
    if recording:
        found_rows = {name: pa.Table.from_pylist(rows[name], TABLES[name]) for name in RECORDED}
        rows["trials"][0] |= as_columns({name: recorded(name, of_table) for name, of_table in found_rows.items()})
        rows["commits"] = [key]
    for table in COMMIT_ORDER:
        if table in rows and table not in without:
            store.append(table, rows[table])
