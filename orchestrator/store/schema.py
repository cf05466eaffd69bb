"""The columns of the store, version 1. A file says in its metadata which version wrote it.

Columns are only ever added; a file that lacks one is read with nulls in it.
`_s` are seconds, `_bytes` bytes, `_j` joules. An export brings the descriptions along.

An object's name is a time, so that names sort by age, then a digest of the content:
`part-01795183308170301531-9f2c51d0a1b2c3d4.parquet`. Two writers that use the same name have written the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.storage.storage import Storage
from trials.metrics.metric import METRICS as REGISTERED
from trials.metrics.metric import TaskMetric
from trials.record import RECORD_COLUMNS, EpochRecord, State

CHECKPOINTS = "checkpoints"  # the folder
WRONG_DIGEST = "its bytes do not match the digest in its name"
_DIGITS = 16  # 64 bits: parts of one table do not collide by chance
_DIGEST = re.compile(rf"-([0-9a-f]{{{_DIGITS}}})\.[a-z]+")


def digest(content: bytes | pa.Buffer) -> str:
    """The first 16 hex digits of the SHA-256 digest."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def stamped_name(kind: str, stamp_ns: int, content: bytes | pa.Buffer, suffix: str) -> str:
    """The name of a new object, e.g. of kind `part` and suffix `parquet`."""
    return f"{kind}-{stamp_ns:020d}-{digest(content)}.{suffix}"


def stamp_of(name: str) -> int:
    """The time in the name of an object, in nanoseconds; 0 if it has none."""
    parts = name.split(".")[0].split("-")
    return int(parts[1]) if len(parts) > 1 and parts[1].isascii() and parts[1].isdigit() else 0


def is_intact(name: str, content: bytes | pa.Buffer) -> bool:
    """Whether the bytes match the digest in a name."""
    match = _DIGEST.search(name)
    return match is not None and match[1] == digest(content)


def read_intact(storage: Storage, name: str) -> pa.Buffer:
    """An object, read again past the cache if its bytes do not match the digest in its name: that read may be right."""
    with storage.open(name) as file:
        content = file.read_buffer()
    return content if is_intact(name, content) else pa.py_buffer(storage.read(name))


SCHEMA_VERSION = 1  # a reader refuses parts of a larger one
VERSION_KEY = b"permafrost.schema_version"

_TEXT, _INT, _SHORT, _FLOAT = pa.string(), pa.int64(), pa.int32(), pa.float64()
_TIME = pa.timestamp("us", tz="UTC")


# Every metric of ours is a column. Those of plug-ins are in `best_metrics` and `test_metrics` under their names, so
# that the columns of a store do not depend on what is loaded.
METRICS = tuple(metric.name for metric in REGISTERED.our_values())

_TYPES = {"int": _INT, "float": _FLOAT, "str": _TEXT, "tuple[float, ...]": pa.list_(pa.float32())}
_FIELDS = [field for field in dataclasses.fields(EpochRecord) if field.name in RECORD_COLUMNS]


def _column_type(field: dataclasses.Field[Any]) -> tuple[pa.DataType, str]:
    """Type and description of the column of a record's field."""
    column = RECORD_COLUMNS[field.name]
    return _SHORT if column.bits == 32 else _TYPES[str(field.type).removesuffix(" | None")], column.about


Columns = dict[str, tuple[pa.DataType, str]]  # the columns of a table by name: type and description
_TIMED = "When it was computed, UTC."
_SPLIT = "dev, test or mismatched."
_ID: Columns = {
    "trial_id": (_TEXT, "The trial: a digest of everything that decides its numbers."),
    "attempt": (_SHORT, "Which attempt at it, from 1 on."),
}


def epochs_columns(metrics: Iterable[TaskMetric]) -> Columns:
    """One row per evaluation: the columns that `EpochRecord` declares, and one for each metric."""
    columns = dict(_ID)
    for field in dataclasses.fields(EpochRecord):
        if field.name == "metrics":
            about = "{} On dev; empty where the task does not measure it."
            columns |= {metric.name: (_FLOAT, about.format(metric.about)) for metric in metrics}
        elif field in _FIELDS and RECORD_COLUMNS[field.name].per_epoch:
            columns[field.name] = _column_type(field)
    return columns | {"time": (_TIME, "When the evaluation ended, UTC.")}


COLUMNS: dict[str, Columns] = {
    "epochs": epochs_columns(REGISTERED.our_values()),
    "trials": {
        **_ID,
        "state": (_TEXT, f"How it ended: {', '.join(State)}."),
        "task": (_TEXT, "The task."),
        "corpus": (_TEXT, "What people call the corpus."),
        "model": (_TEXT, "What people call the pretrained model."),
        "freeze_strategy": (_TEXT, "The rule that says which layers are frozen."),
        "freeze_depth": (_SHORT, "How many encoder layers are frozen; 0 for nothing and for the embeddings alone."),
        "freeze_layers": (pa.list_(_SHORT), "Which ones, counted from the embeddings."),
        "freeze_embeddings": (pa.bool_(), "Whether the embedding tables are frozen."),
        "train_size": (_INT, "Sentences or texts of the train subset."),
        "seed": (
            _INT,
            "Seeds subset, initialisation, order and dropout; its `spec` may have other seeds for the last three.",
        ),
        "total_params": (_INT, "Parameters of encoder and head."),
        "trainable_params": (_INT, "Those of them that learn."),
        "best_score": (_FLOAT, "The largest score of its evaluations, on dev."),
        "best_epoch": (_FLOAT, "The epoch of it, the earliest of equals."),
        "last_epoch": (_FLOAT, "How far the attempt came."),
        "test_score": (_FLOAT, "The same metric on test with the weights of best_epoch; it selected nothing."),
        "best_metrics": (pa.map_(_TEXT, _FLOAT), "All metrics on dev at best_epoch."),
        "test_metrics": (
            pa.map_(_TEXT, _FLOAT),
            "All metrics on test with those weights; `_mismatched` ends those on the mismatched split.",
        ),
        "constant_score": (
            _FLOAT,
            "The score of the best constant prediction on dev; a trial at or below it has collapsed.",
        ),
        "loss_fall": (_FLOAT, "By what share of its first tenth the last tenth of the training loss lies lower."),
        **{field.name: _column_type(field) for field in _FIELDS if RECORD_COLUMNS[field.name].per_trial},
        "git_commit": (_TEXT, "The commit of the code, with + where it was changed."),
        "versions": (
            pa.map_(_TEXT, _TEXT),
            "Versions of Python and the packages; of plug-ins, the beginnings of their sources' digests.",
        ),
        "error": (_TEXT, "Why it ended otherwise than completed."),
        "spec": (_TEXT, "Everything that decides the trial, as JSON."),
        # What follows from it, so that no reader has to parse it for each trial.
        "cell_id": (_TEXT, "The setting, whatever its seeds: the trials of one are its replicates."),
        "baseline_id": (_TEXT, "The setting that differs from it only in that nothing is frozen."),
        "seed_key": (_INT, "All seeds of the trial in one number, the seed itself where all are equal. Pair by it."),
        "freeze": (_TEXT, "What tables call the freeze, e.g. `none`, `embeddings`, `first 2+E`. Group by it."),
        "time": (_TIME, "When it ended, UTC."),
        "row_counts": (
            pa.map_(_TEXT, _INT),
            "How many rows this attempt has in each other table. A completed trial that lacks some runs again.",
        ),
    },
    "tags": {
        **_ID,
        "split": (_TEXT, _SPLIT),
        "level": (_TEXT, "What is counted: token, span or class."),
        "tag": (_TEXT, "The label."),
        "support": (_INT, "How often it is the gold label."),
        "predicted": (_INT, "How often it was predicted."),
        "correct": (_INT, "How often both."),
        "precision": (_FLOAT, "correct / predicted; 0 where a share is of nothing."),
        "recall": (_FLOAT, "correct / support."),
        "f1": (_FLOAT, "Their harmonic mean."),
    },
    "predictions": {
        **_ID,
        "split": (_TEXT, _SPLIT),
        "sentence": (_INT, "Number of the sentence or text, from 0, in the order of the corpus."),
        "forms": (pa.list_(_TEXT), "The words; of a text the text, and its pair."),
        "gold": (pa.list_(_TEXT), "The gold labels."),
        "predicted": (pa.list_(_TEXT), "The predicted ones; empty where a word was cut off."),
        "probability": (pa.list_(pa.float32()), "Of each predicted label."),
    },
    "contributions": {
        **_ID,
        "split": (_TEXT, _SPLIT),
        "values": (
            pa.list_(pa.float32()),
            "What each sentence or text contributes to the score, in the order of the corpus; their mean is the "
            "score. Differences between two trials of one seed are what intervals over sentences are made of.",
        ),
        "documents": (
            pa.list_(_SHORT),
            "The document of each, from 0 in the order of the corpus, as sentences of one resemble each other; null "
            "where the corpus does not say.",
        ),
        "words": (
            pa.list_(_SHORT),
            "The words of each, where the score is a share of all words: then it is a ratio of two sums that vary with "
            "the sentences; null for other scores.",
        ),
    },
}
TABLES = {table: pa.schema([(name, kind) for name, (kind, _) in columns.items()]) for table, columns in COLUMNS.items()}
EPOCHS, TRIALS, TAGS, PREDICTIONS, CONTRIBUTIONS = TABLES.values()

MEASURED_COLUMNS = tuple(field.name for field in TRIALS if pa.types.is_floating(field.type))

# One row per ended attempt, written after its row in `trials`: the evidence where a row in `trials` was lost, which
# only `store verify` reads.
COMMITS = pa.schema([("trial_id", pa.string()), ("attempt", pa.int32())])
ALL_TABLES = {**TABLES, "commits": COMMITS}

# The primary keys. Only a killed compaction leaves two rows with the same key; readers use the later one.
KEYS = {
    "epochs": ("trial_id", "attempt", "step"),
    "trials": ("trial_id", "attempt"),
    "tags": ("trial_id", "attempt", "split", "level", "tag"),
    "predictions": ("trial_id", "attempt", "split", "sentence"),
    "contributions": ("trial_id", "attempt", "split"),
    "commits": ("trial_id", "attempt"),
}
# Everything that belongs to a trial is committed before its own row, and read after it: whoever sees the row sees all.
COMMIT_ORDER = ("epochs", "tags", "predictions", "contributions", "trials", "commits")
COUNTED = ("epochs", "tags", "predictions", "contributions")  # in `row_counts`
_KEY_COLUMNS = {column for keys in KEYS.values() for column in keys}


def unusable(rows: pa.Table) -> str | None:
    """Why no reader can use some rows of one of `TABLES`: a key has no value, a `state` is unknown, or a number of a
    completed trial (or of `values`, what sentences contribute) is not finite. None if all can be used.
    """
    for name in rows.column_names:
        if name in _KEY_COLUMNS and (n := rows[name].null_count):
            return f"{n} rows have no {name}"
    if "state" in rows.column_names:
        strange = set(rows["state"].unique().to_pylist()) - set(State)
        if strange:
            return f"{min(map(repr, strange))[:40]} is not a state"
        return _strange_number(rows.filter(pc.equal(rows["state"], State.COMPLETED)))
    if "values" in rows.column_names and _has_strange(pc.list_flatten(rows["values"])):
        of_trials = zip(rows["trial_id"].to_pylist(), rows["values"], strict=True)
        trial_id = next(i for i, values in of_trials if values.is_valid and _has_strange(values.values))
        return f"what sentences contribute to the score of trial {trial_id} is not finite"
    return None


def _has_strange(values: pa.Array) -> bool:
    return bool(values.null_count or pc.any(_is_strange(values, _MOST_SCORE)).as_py())


def _strange_number(rows: pa.Table) -> str | None:
    floats = [name for name in rows.column_names if pa.types.is_floating(rows.schema.field(name).type)]
    for name in floats:
        wrong = _is_strange(rows[name], _MOST_SCORE if name == "best_score" else _MOST)
        if name != "best_score":  # NaN is what was not measured
            wrong = pc.and_(wrong, pc.invert(pc.fill_null(pc.is_nan(rows[name]), False)))
        strange = rows.filter(wrong)
        for row in strange.select(["trial_id", name]).slice(0, 1).to_pylist():
            return f"{name} of trial {row['trial_id']} is {row[name]}, which nothing has measured"
    return None


_MOST_SCORE, _MOST = 1e9, 1e100  # beyond them squares and sums may overflow; FLOPs have at most 1e30


def _is_strange(values: pa.Array, most: float) -> pa.Array:
    """Whether each number is one that no measurement can have; a null is fine."""
    return pc.fill_null(pc.invert(pc.less_equal(pc.abs(values), most)), False)
