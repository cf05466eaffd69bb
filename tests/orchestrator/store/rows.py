"""Rows of the four tables, as short as a test needs them; the other columns are null."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

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
