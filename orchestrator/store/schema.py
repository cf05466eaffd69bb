"""The columns of the store, version 1. A file says in its metadata which version wrote it.

Columns are only ever added; an older file is read with nulls in the new ones.
`_s` are seconds, `_bytes` bytes, `_j` joules.
"""

from __future__ import annotations

import enum

import pyarrow as pa

SCHEMA_VERSION = 1
VERSION_KEY = b"permafrost.schema_version"

_TIME = pa.timestamp("us", tz="UTC")


class State(enum.StrEnum):
    """How an attempt ended. Only `completed` may enter a mean; after `lost` and `unavailable` it is tried again."""

    COMPLETED = "completed"
    PRUNED = "pruned"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    LOST = "lost"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"


# Every metric that a task may measure, each a column. `span_`: whole entities, strict IOB2; `macro_`: mean over labels.
METRICS = (
    "accuracy", "macro_f1", "span_precision", "span_recall", "span_f1", "span_macro_precision", "span_macro_recall",
    "span_macro_f1", "matthews", "f1", "pearson", "spearman",
)  # fmt: skip

EPOCHS = pa.schema(
    [
        ("trial_id", pa.string()),
        ("attempt", pa.int32()),
        ("step", pa.int64()),  # optimiser steps at the evaluation
        ("epoch", pa.float64()),
        ("train_loss", pa.float64()),  # mean since the evaluation before
        ("step_losses", pa.list_(pa.float32())),  # the same, one a step
        ("dev_loss", pa.float64()),
        ("score", pa.float64()),  # the metric that selects, on dev
        *((name, pa.float64()) for name in METRICS),  # on dev; null where the task does not measure it
        ("examples_seen", pa.int64()),
        ("lr", pa.float64()),
        ("setup_s", pa.float64()),  # these five: since the evaluation before
        ("prefix_s", pa.float64()),  # computing the states of frozen layers
        ("train_s", pa.float64()),
        ("eval_s", pa.float64()),
        ("energy_j", pa.float64()),  # of the device, in those of train_s; null where it cannot be read
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
        ("best_metrics", pa.map_(pa.string(), pa.float64())),  # all metrics on dev at best_epoch
        ("test_metrics", pa.map_(pa.string(), pa.float64())),  # and on test
        ("setup_s", pa.float64()),
        ("prefix_s", pa.float64()),
        ("prefix_layers", pa.int32()),  # frozen layers that were not run, as their output is kept
        ("train_s", pa.float64()),
        ("eval_s", pa.float64()),
        ("energy_j", pa.float64()),  # their sum; null if any of them is
        ("peak_memory_bytes", pa.int64()),
        ("device", pa.string()),
        ("gpus", pa.float64()),  # a fraction: other trials ran on the same one at that time
        ("accumulation", pa.int32()),  # parts that a batch was taken in, for want of memory
        ("threads", pa.int32()),  # of a CPU's arithmetic: the last digits may depend on them
        ("git_commit", pa.string()),
        ("versions", pa.map_(pa.string(), pa.string())),
        ("error", pa.string()),
        ("spec", pa.string()),  # the TrialSpec as JSON
        ("time", _TIME),
    ]
)

# With the weights of the best epoch: a row a label of a split ...
TAGS = pa.schema(
    [
        ("trial_id", pa.string()),
        ("attempt", pa.int32()),
        ("split", pa.string()),  # dev or test
        ("level", pa.string()),  # token, span or class
        ("tag", pa.string()),
        ("support", pa.int64()),  # how often it is the gold label
        ("predicted", pa.int64()),
        ("correct", pa.int64()),
        ("precision", pa.float64()),
        ("recall", pa.float64()),
        ("f1", pa.float64()),
    ]
)

# ... and a row a sentence or text of a split.
PREDICTIONS = pa.schema(
    [
        ("trial_id", pa.string()),
        ("attempt", pa.int32()),
        ("split", pa.string()),
        ("sentence", pa.int64()),  # from 0, in the order of the corpus
        ("forms", pa.list_(pa.string())),  # the words; of a text the text, and its pair
        ("gold", pa.list_(pa.string())),
        ("predicted", pa.list_(pa.string())),  # null where a word was cut off
        ("probability", pa.list_(pa.float32())),  # of the predicted label
    ]
)

TABLES = {"epochs": EPOCHS, "trials": TRIALS, "tags": TAGS, "predictions": PREDICTIONS}
