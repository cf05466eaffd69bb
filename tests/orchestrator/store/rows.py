"""Rows of the four tables, as short as a test needs them; the other columns are null."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore
from orchestrator.store.plans import SweepPlan, spec_columns
from orchestrator.store.schema import COMMIT_ORDER, COUNTED
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
    **changes: Any,
) -> None:
    """Everything that a completed trial leaves, in the order it is committed: two labels, two sentences a split."""
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
        "commits": [key],
    }
    counts = [(name, len(rows[name])) for name in COUNTED]
    rows["trials"] = [trial(**(spec_columns(spec) | key | {"row_counts": counts} | found | changes))]
    for table in COMMIT_ORDER:
        if table in rows and table not in without:
            store.append(table, rows[table])


def spoil(storage: Storage, folder: str, number: int = 0) -> str:
    """Turn one bit over in the middle of a file; its path in the store."""
    for inner in folder.split("/"):
        storage = storage.subfolder(inner)
    name = list(storage.files())[number]
    content = bytearray(storage.read(name))
    content[len(content) // 2] ^= 4
    storage.write(name, bytes(content))
    return f"{folder}/{name}"
