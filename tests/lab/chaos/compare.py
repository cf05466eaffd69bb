"""Compare a store with that of an uninterrupted run: equal rows but for times and attempts, none missing, none twice.

What readers show is read as they read it; what was run again and what was lost is read from the parts themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import stored_spec

KEYS = {
    "epochs": ("trial_id", "step"),
    "trials": ("trial_id",),
    "tags": ("trial_id", "split", "level", "tag"),
    "predictions": ("trial_id", "split", "sentence"),
    "contributions": ("trial_id", "split"),
}
# What two runs of one trial may differ in: times, attempts, memory, neighbours, and the commit of a worked-on checkout.
FREE = {
    "attempt", "setup_s", "prefix_s", "prefix_paid_s", "train_s", "eval_s", "energy_j", "peak_memory_bytes",
    "worker_memory_bytes", "worker_slots", "time", "git_commit",
}  # fmt: skip

Row = dict[str, Any]
Tables = dict[str, dict[tuple[Any, ...], str]]


class Difference(NamedTuple):
    """Rows of all tables that are not as they should be."""

    missing: int
    surplus: int
    different: int
    duplicate: int
    examples: tuple[str, ...] = ()

    def problems(self) -> list[str]:
        """What differs, with examples; empty if nothing does."""
        counts = "rows: {} missing, {} surplus, {} different, {} twice".format(*self)
        return [counts, *self.examples] if any(self[:4]) else []


def read_rows(store: ResultStore) -> dict[str, list[Row]]:
    """All tables as readers show them."""
    trials = store.trials().to_pylist()
    predictions = [row for trial in trials for row in store.predictions(trial["trial_id"]).to_pylist()]
    return {
        "epochs": store.epochs().to_pylist(),
        "trials": trials,
        "tags": store.tags().to_pylist(),
        "predictions": predictions,
        "contributions": store.contributions().to_pylist(),
    }


def tables(rows: dict[str, list[Row]]) -> Tables:
    """Each row by its key, as text without what is free to differ: texts are equal where the numbers' bits are."""
    return {name: {tuple(row[key] for key in KEYS[name]): _text(row) for row in found} for name, found in rows.items()}


def _text(row: Row) -> str:
    return json.dumps({name: value for name, value in row.items() if name not in FREE}, sort_keys=True, default=str)


def duplicates(rows: dict[str, list[Row]]) -> int:
    """Rows beyond the first of their key."""
    return sum(
        len(found) - len({tuple(row[key] for key in KEYS[name]) for row in found}) for name, found in rows.items()
    )


def rows_without_paths(store: Path) -> dict[str, list[Row]]:
    """The rows of a store; of a spec only what makes the trial what it is, as its files lie elsewhere on a cluster."""
    rows = read_rows(open_store(store))
    for row in rows["trials"]:
        row["spec"] = json.dumps(stored_spec(row["spec"], row["trial_id"]).identity())
    return rows


def compare(expected: Tables, found: dict[str, list[Row]]) -> Difference:
    """The rows of a store against those of the uninterrupted run."""
    keyed = tables(found)
    missing = [(name, key) for name, rows in expected.items() for key in rows.keys() - keyed[name].keys()]
    surplus = [(name, key) for name, rows in keyed.items() for key in rows.keys() - expected[name].keys()]
    different = [
        (name, key)
        for name, rows in expected.items()
        for key in rows.keys() & keyed[name].keys()
        if rows[key] != keyed[name][key]
    ]
    examples = [f"missing {m}" for m in missing[:2]] + [f"surplus {s}" for s in surplus[:2]]
    examples += [_apart(expected[name][key], keyed[name][key], name) for name, key in different[:2]]
    return Difference(len(missing), len(surplus), len(different), duplicates(found), tuple(examples))


def _apart(expected: str, found: str, name: str) -> str:
    one, other = json.loads(expected), json.loads(found)
    columns = {k: (one.get(k), other.get(k)) for k in one.keys() | other.keys() if str(one.get(k)) != str(other.get(k))}
    return f"{name}: " + ", ".join(f"{k}: {str(a)[:60]} became {str(b)[:60]}" for k, (a, b) in columns.items())


def raw_rows(store: Path, table: str, columns: Iterable[str]) -> list[Row]:
    """What all parts of a table hold, unreadable ones left out; a row may be there in several attempts."""
    rows: list[Row] = []
    for part in sorted((store / table).glob("part-*.parquet")):
        try:
            rows += pq.read_table(part, columns=list(columns), partitioning=None).to_pylist()
        except (OSError, pa.ArrowException):
            continue
    return rows


def count_rows(store: Path) -> int:
    """Evaluations of all parts."""
    return len(raw_rows(store, "epochs", ["step"]))


def finished(store: Path) -> dict[str, int]:
    """The first completed attempt of every trial that has one."""
    found: dict[str, int] = {}
    for row in raw_rows(store, "trials", ["trial_id", "attempt", "state"]):
        if row["state"] == "completed":
            found[row["trial_id"]] = min(row["attempt"], found.get(row["trial_id"], row["attempt"]))
    return found


def attempts(store: Path) -> dict[str, int]:
    """The newest attempt of every trial that has left a row."""
    newest: dict[str, int] = {}
    for table in ("epochs", "trials"):
        for row in raw_rows(store, table, ["trial_id", "attempt"]):
            newest[row["trial_id"]] = max(row["attempt"], newest.get(row["trial_id"], 0))
    return newest


def lost_intervals(store: Path) -> int:
    """The most evaluations that one attempt did again though an earlier one's were already in the store.

    An attempt that goes on from a checkpoint tells the evaluations of before with the time they were made at. Where
    the same evaluation has another time it was made again.
    """
    made: dict[tuple[str, int], dict[int, Any]] = {}  # trial and step -> attempt -> when
    for row in raw_rows(store, "epochs", ["trial_id", "attempt", "step", "time"]):
        made.setdefault((row["trial_id"], row["step"]), {})[row["attempt"]] = row["time"]
    again: Counter[tuple[str, int]] = Counter()
    for (trial_id, _), times in made.items():
        for before, attempt in pairwise(sorted(times)):
            again[trial_id, attempt] += times[attempt] != times[before]
    return max(again.values(), default=0)
