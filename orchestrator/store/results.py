"""Open a store and read it: tables without duplicates, and what each sweep planned.

from orchestrator.store import open_store

store = open_store("results")
store.trials(), store.epochs()      # Arrow tables
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import SCHEMA_VERSION, TABLES, State
from trials.errors import StoreError

MARKER = "store.json"
FORMAT = "permafrost-store"


@dataclass(frozen=True)
class SweepPlan:
    """What one launch of a sweep declared.

    Attributes:
        name: The sweep.
        time: Unix time of the launch.
        source: The YAML file it came from.
        trials: (trial_id, spec as JSON values) in the sweep's order.
    """

    name: str
    time: float
    source: str
    trials: tuple[tuple[str, dict[str, Any]], ...]


class ResultStore:
    """A folder with a folder for each of `schema.TABLES`, and `sweeps/`. Trials belong to the store, not to a sweep."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._parts = {name: PartFolder(root / name, schema) for name, schema in TABLES.items()}

    def trials(self) -> pa.Table:
        """One row a trial that has ended: that of its newest attempt. Columns: `schema.TRIALS`."""
        return _newest(self._parts["trials"].read(), ["trial_id"])

    def epochs(self) -> pa.Table:
        """One row an evaluation, of each trial's newest attempt that has ended, else of its newest one.

        Columns: `schema.EPOCHS`; ordered by trial and step.
        """
        return self._committed("epochs", ["trial_id", "step"])

    def tags(self) -> pa.Table:
        """One row a label of each scored split of each trial. Columns: `schema.TAGS`."""
        return self._committed("tags", ["trial_id", "split", "level", "tag"])

    def predictions(self, trial_id: str) -> pa.Table:
        """One row a sentence of each scored split of a trial. Columns: `schema.PREDICTIONS`."""
        return self._committed("predictions", ["trial_id", "split", "sentence"], trial_id)

    def _committed(self, table: str, keys: list[str], trial_id: str | None = None) -> pa.Table:
        """Rows of each trial's newest attempt that has ended, else of its newest one; one a key, in order."""
        rows, ended = self._parts[table].read(trial_id), self.trials()
        committed = dict(zip(ended["trial_id"].to_pylist(), ended["attempt"].to_pylist(), strict=True))
        chosen = newest_attempts(rows) | committed
        ids, attempts = rows["trial_id"].to_pylist(), rows["attempt"].to_pylist()
        wanted = pa.array([chosen[i] == a for i, a in zip(ids, attempts, strict=True)], pa.bool_())
        return _newest(rows.filter(wanted), keys)

    def completed_ids(self) -> frozenset[str]:
        """The trials that need not run again."""
        rows = self._parts["trials"].read().select(["trial_id", "state"])
        return frozenset(rows.filter(pc.equal(rows["state"], State.COMPLETED.value))["trial_id"].to_pylist())

    def attempts(self) -> dict[str, int]:
        """The number of the newest attempt of every trial that has left a row."""
        tables = [self._parts[name].read().select(["trial_id", "attempt"]) for name in ("epochs", "trials")]
        return newest_attempts(pa.concat_tables(tables))

    def append(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Commit rows of a table. Only the Recorder calls this."""
        self._create()
        self._parts[table].append(rows)

    def compact(self) -> None:
        """Put the small parts of each table into one."""
        for parts in self._parts.values():
            parts.compact()

    def sweeps(self) -> list[SweepPlan]:
        """The newest plan of every sweep, the oldest sweep first."""
        plans = [_read_plan(max(folder.glob("plan-*.json"))) for folder in self._sweep_folders()]
        return sorted(plans, key=lambda plan: plan.time)

    def add_plan(self, plan: SweepPlan) -> None:
        """Keep what a launch declared, unless the sweep's newest plan says the same. No plan is ever overwritten."""
        self._create()
        folder = self.root / "sweeps" / plan.name
        newest = max(folder.glob("plan-*.json"), default=None)
        if newest is not None and _read_plan(newest).trials == plan.trials:
            return
        content = {"name": plan.name, "time": plan.time, "source": plan.source, "trials": plan.trials}
        _write_json(folder / f"plan-{time.time_ns():020d}.json", content)

    def _sweep_folders(self) -> list[Path]:
        return [folder for folder in sorted((self.root / "sweeps").glob("*")) if any(folder.glob("plan-*.json"))]

    def _create(self) -> None:
        if not (self.root / MARKER).exists():
            _write_json(self.root / MARKER, {"format": FORMAT, "schema_version": SCHEMA_VERSION})


def open_store(path: str | Path, *, must_exist: bool = True) -> ResultStore:
    """Open the store in a folder; without `must_exist` an absent or empty folder is a new one, made at the first write.

    Raises:
        StoreError: no store there, a folder of something else, or a store of a newer version.
    """
    root = Path(path).expanduser().resolve()
    marker = root / MARKER
    if marker.is_file():
        _check_marker(marker)
    elif root.exists() and (not root.is_dir() or any(not _is_litter(path) for path in root.iterdir())):
        raise StoreError(f"{root}: holds something else than a Permafrost store. Give another folder with --store.")
    elif must_exist:
        raise StoreError(f"{root}: no store there. Run a sweep first, or give its folder with --store.")
    elif not os.access(next(p for p in (root, *root.parents) if p.exists()), os.W_OK):
        raise StoreError(f"{root}: cannot be written. Give another folder with --store.")
    return ResultStore(root)


def _is_litter(path: Path) -> bool:
    """Whether this is a marker that a kill left half made."""
    return path.name.startswith(f".{MARKER}.")


def _check_marker(marker: Path) -> None:
    try:
        content = json.loads(marker.read_text(encoding="utf-8"))
        known, version = content["format"] == FORMAT, int(content["schema_version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{marker}: not the mark of a Permafrost store ({error}). Give another folder.") from error
    if not known:
        raise StoreError(f"{marker}: says format {content['format']!r}, not {FORMAT!r}. Give another folder.")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{marker}: a store of a newer version (schema {version}, this one reads up to {SCHEMA_VERSION}). "
            "Upgrade permafrost-sweeps."
        )


def newest_attempts(rows: pa.Table) -> dict[str, int]:
    """The largest attempt number of each trial in a table."""
    grouped = rows.group_by("trial_id").aggregate([("attempt", "max")])
    return dict(zip(grouped["trial_id"].to_pylist(), grouped["attempt_max"].to_pylist(), strict=True))


def _newest(rows: pa.Table, keys: list[str]) -> pa.Table:
    """One row a key, that of the largest attempt, the latest of equals; ordered by key."""
    row = pa.array(range(len(rows)), pa.int64())  # typed, as Arrow cannot tell the type of no rows
    order = pa.table({**{key: rows[key] for key in keys}, "attempt": rows["attempt"], "row": row})
    order = order.sort_by([*((key, "ascending") for key in keys), ("attempt", "ascending"), ("row", "ascending")])
    last = order.group_by(keys, use_threads=False).aggregate([("row", "last")])
    return rows.take(last.sort_by([(key, "ascending") for key in keys])["row_last"])  # groups come in no order


def _read_plan(path: Path) -> SweepPlan:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        trials = tuple((trial_id, spec) for trial_id, spec in content["trials"])
        return SweepPlan(content["name"], content["time"], content["source"], trials)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: not a readable plan ({error}). Take it out; the next launch writes it anew."
        ) from error


def _write_json(path: Path, content: object) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}).") from error
