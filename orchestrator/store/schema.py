"""The columns of the store, version 1. A file says in its metadata which version wrote it.

Columns are only ever added; an older file is read with nulls in the new ones. `_s` are seconds, `_bytes` bytes.
"""

from __future__ import annotations

import enum

import pyarrow as pa

SCHEMA_VERSION = 1
VERSION_KEY = b"permafrost.schema_version"

_TIME = pa.timestamp("us", tz="UTC")


class State(enum.StrEnum):
    """How an attempt ended. Only `completed` may enter a mean."""

    COMPLETED = "completed"
    PRUNED = "pruned"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"


EPOCHS = pa.schema(
    [
        ("trial_id", pa.string()),
        ("attempt", pa.int32()),
        ("step", pa.int64()),  # optimiser steps at the evaluation
        ("epoch", pa.float64()),
        ("train_loss", pa.float64()),  # mean since the evaluation before
        ("step_losses", pa.list_(pa.float32())),  # the same, one a step
        ("dev_loss", pa.float64()),
        ("score", pa.float64()),  # the task's primary metric on dev
        ("accuracy", pa.float64()),
        ("examples_seen", pa.int64()),
        ("lr", pa.float64()),
        ("setup_s", pa.float64()),  # these three: since the evaluation before
        ("train_s", pa.float64()),
        ("eval_s", pa.float64()),
        ("peak_memory_bytes", pa.int64()),
        ("time", _TIME),
    ]
)

TRIALS = pa.schema(
    [
        ("trial_id", pa.string()),
        ("attempt", pa.int32()),
        ("state", pa.string()),
        ("task", pa.string()),
        ("corpus", pa.string()),
        ("model", pa.string()),
        ("freeze_strategy", pa.string()),
        ("freeze_depth", pa.int32()),
        ("freeze_layers", pa.list_(pa.int32())),
        ("freeze_embeddings", pa.bool_()),
        ("train_size", pa.int64()),
        ("seed", pa.int64()),
        ("total_params", pa.int64()),
        ("trainable_params", pa.int64()),
        ("best_score", pa.float64()),  # on dev
        ("best_epoch", pa.float64()),
        ("last_epoch", pa.float64()),  # how far the attempt came
        ("test_score", pa.float64()),  # with the weights of best_epoch
        ("setup_s", pa.float64()),
        ("train_s", pa.float64()),
        ("eval_s", pa.float64()),
        ("peak_memory_bytes", pa.int64()),
        ("device", pa.string()),
        ("git_commit", pa.string()),
        ("versions", pa.map_(pa.string(), pa.string())),
        ("error", pa.string()),
        ("spec", pa.string()),  # the TrialSpec as JSON
        ("time", _TIME),
    ]
)

TABLES = {"epochs": EPOCHS, "trials": TRIALS}
