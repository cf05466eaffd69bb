"""What `tests/assets/store_v1` holds, a store of schema version 1 that is never made again.

The rows stand here as plain values, so that the test can say that the committed files still read exactly.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from orchestrator.store.sweep_plans import SweepPlan

_TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def _epoch(trial_id: str, attempt: int, step: int, score: float) -> dict[str, Any]:
    return {
        "trial_id": trial_id,
        "attempt": attempt,
        "step": step,
        "epoch": step / 2,
        "train_loss": 1.75,
        "step_losses": [2.0, 1.5],
        "dev_loss": 1.25,
        "score": score,
        "accuracy": score,
        "examples_seen": 16 * step,
        "lr": 0.0001,
        "setup_s": 0.5,
        "train_s": 2.25,
        "eval_s": 0.125,
        "peak_memory_bytes": 3 << 30,
        "time": _TIME,
    }


def _trial(trial_id: str, attempt: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "trial_id": trial_id,
        "attempt": attempt,
        "state": "completed",
        "task": "pos",
        "corpus": "UD_English-EWT-sample",
        "model": "starter",
        "freeze_strategy": "first_k",
        "freeze_depth": 2,
        "freeze_layers": [0, 1],
        "freeze_embeddings": True,
        "train_size": 200,
        "seed": 4_294_967_295,
        "total_params": 2_200_000,
        "trainable_params": 795_000,
        "best_score": 0.875,
        "best_epoch": 1.0,
        "last_epoch": 1.0,
        "test_score": 0.8125,
        "setup_s": 0.5,
        "train_s": 4.5,
        "eval_s": 0.25,
        "peak_memory_bytes": 3 << 30,
        "device": "cpu",
        "git_commit": "3b51008+",
        "versions": [("python", "3.11.7"), ("torch", "2.13.0")],
        "error": None,
        "spec": '{"task":"pos"}',
        "time": _TIME,
    }
    return row | changes


_RESULTS = ("total_params", "trainable_params", "best_score", "best_epoch", "last_epoch", "test_score")
_COSTS = ("setup_s", "train_s", "eval_s", "peak_memory_bytes", "device", "git_commit")

# What readers see: in the order of trial and step, the newest attempts only.
EPOCHS = [
    _epoch("0123456789abcdef", 2, 1, 0.75),
    _epoch("0123456789abcdef", 2, 2, 0.875),
    _epoch("fedcba9876543210", 1, 1, 0.5),
]
TRIALS = [
    _trial("0123456789abcdef", 2),
    _trial(
        "fedcba9876543210",
        1,
        state="failed",
        error="Traceback\nValueError: é",
        freeze_layers=[],
        **dict.fromkeys((*_RESULTS, *_COSTS)),
    ),
]
PLAN = SweepPlan("tiny", 1767323045.5, "tiny.yaml", (("0123456789abcdef", {"task": "pos", "seed": 0}),))
