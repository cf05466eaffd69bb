"""The columns of the store, version 1. A file says in its metadata which version wrote it.

Columns are only ever added; an older file is read with nulls in the new ones.
`_s` are seconds, `_bytes` bytes, `_j` joules. `orchestrator.store.columns` describes each column.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from trials.metrics.metric import METRICS as REGISTERED
from trials.metrics.metric import TaskMetric
from trials.record import RECORD_COLUMNS, EpochRecord

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


METRICS = tuple(metric.name for metric in REGISTERED.values())  # every metric that a task may measure is a column

_TYPES = {
    "int": pa.int64(),
    "int | None": pa.int64(),
    "float": pa.float64(),
    "float | None": pa.float64(),
    "str": pa.string(),
    "str | None": pa.string(),
    "tuple[float, ...]": pa.list_(pa.float32()),
}


def _type(field: dataclasses.Field[Any]) -> pa.DataType:
    return pa.int32() if RECORD_COLUMNS[field.name].bits == 32 else _TYPES[str(field.type)]


def epochs_schema(metrics: Iterable[TaskMetric]) -> pa.Schema:
    """One row per evaluation: the columns that `EpochRecord` declares, and one for each metric."""
    columns: list[tuple[str, pa.DataType]] = [("trial_id", pa.string()), ("attempt", pa.int32())]
    for field in dataclasses.fields(EpochRecord):
        if field.name == "metrics":  # on dev; null where the task does not measure it
            columns += [(metric.name, pa.float64()) for metric in metrics]
        elif field.name in RECORD_COLUMNS and RECORD_COLUMNS[field.name].per_epoch:
            columns.append((field.name, _type(field)))
    return pa.schema([*columns, ("time", _TIME)])


EPOCHS = epochs_schema(REGISTERED.values())

_TOTALS = [name for name, column in RECORD_COLUMNS.items() if column.per_trial]

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
        ("constant_score", pa.float64()),  # of the best constant prediction on dev: what a collapsed trial has
        ("loss_fall", pa.float64()),  # of the training loss, as a share of its start
        *((f.name, _type(f)) for f in dataclasses.fields(EpochRecord) if f.name in _TOTALS),
        ("git_commit", pa.string()),
        ("versions", pa.map_(pa.string(), pa.string())),
        ("error", pa.string()),
        ("spec", pa.string()),  # the TrialSpec as JSON
        ("time", _TIME),
        # Of this attempt's rows in each other table, and of its stored weights (`row_digests`); null in older stores.
        ("row_counts", pa.map_(pa.string(), pa.int64())),
        ("row_digests", pa.map_(pa.string(), pa.string())),
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

# A row a split: what each of its sentences or texts contributes to the score, for intervals over sentences.
CONTRIBUTIONS = pa.schema(
    [
        ("trial_id", pa.string()),
        ("attempt", pa.int32()),
        ("split", pa.string()),
        ("values", pa.list_(pa.float32())),  # in the order of the corpus; their mean is the score
    ]
)

# What people write about a trial or a setting: a row a note, and a second one when it is removed.
NOTES = pa.schema(
    [
        ("note_id", pa.string()),
        ("trial_id", pa.string()),  # the trial, or one of the setting
        ("setting", pa.string()),  # `TrialSpec.cell_id` if it is about all seeds of the setting, else null
        ("text", pa.string()),
        ("labels", pa.list_(pa.string())),
        ("author", pa.string()),  # null if unknown
        ("time", _TIME),
        ("removed", pa.bool_()),
    ]
)

# What a linear probe reads from the untouched encoder at one depth, learned from one train subset; of no trial.
PROBES = pa.schema(
    [
        ("probe_id", pa.string()),  # `trials.probing.probe_key.probe_id`
        ("subset_seed", pa.int64()),
        ("depth", pa.int32()),  # layers that ran; 0 for the embeddings
        ("n_layers", pa.int32()),
        ("task", pa.string()),
        ("corpus", pa.string()),
        ("model", pa.string()),
        ("metric", pa.string()),
        ("train_size", pa.int64()),
        ("n_places", pa.int64()),  # words or texts that it learned from
        ("score", pa.float64()),  # on dev
        ("control_score", pa.float64()),
        ("selectivity", pa.float64()),
        ("contributions", pa.list_(pa.float32())),  # of each sentence of dev, to `score`
        ("selectivity_contributions", pa.list_(pa.float32())),
        ("seconds", pa.float64()),
        ("time", _TIME),
    ]
)

# How far training moved one part of the encoder, of a trial whose weights were kept.
DRIFTS = pa.schema(
    [
        ("trial_id", pa.string()),
        ("depth", pa.int32()),  # 0 for the embeddings, k for the k-th layer
        ("n_layers", pa.int32()),
        ("epoch", pa.float64()),  # of the weights: the best one
        ("weight_change", pa.float64()),
        ("cka", pa.float64()),
        ("time", _TIME),
    ]
)

TABLES = {
    "epochs": EPOCHS,
    "trials": TRIALS,
    "tags": TAGS,
    "predictions": PREDICTIONS,
    "contributions": CONTRIBUTIONS,
    "notes": NOTES,
    "probes": PROBES,
    "drifts": DRIFTS,
}
UNOWNED = ("notes", "probes", "drifts")  # their rows belong to no attempt: whoever has some adds them, without a claim

# One row per ended attempt, written after its row in `trials`: the evidence where a row in `trials` was lost. Only
# checks, repairs and merges read it.
COMMITS = pa.schema([("trial_id", pa.string()), ("attempt", pa.int32())])
ALL_TABLES = {**TABLES, "commits": COMMITS}

# The primary keys. Only a killed compaction leaves two rows with the same key, of which readers use the later.
KEYS = {
    "epochs": ("trial_id", "attempt", "step"),
    "trials": ("trial_id", "attempt"),
    "tags": ("trial_id", "attempt", "split", "level", "tag"),
    "predictions": ("trial_id", "attempt", "split", "sentence"),
    "contributions": ("trial_id", "attempt", "split"),
    "notes": ("note_id", "removed"),
    "probes": ("probe_id", "subset_seed", "depth"),
    "drifts": ("trial_id", "depth"),
    "commits": ("trial_id", "attempt"),
}
_KEY_COLUMNS = {column for keys in KEYS.values() for column in keys}


def unusable(rows: pa.Table) -> str | None:
    """Why no reader can use some of the rows of a table: keys without a value, or states that are none."""
    for name in rows.column_names:
        if name in _KEY_COLUMNS and (n := rows[name].null_count):
            return f"{n} rows have no {name}"
    if "state" in rows.column_names:
        strange = set(rows["state"].unique().to_pylist()) - set(State)
        if strange:
            return f"{min(map(repr, strange))[:40]} is not a state"
    return None
