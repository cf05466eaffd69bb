"""Make a store whole again: what is broken goes to `<store>/quarantine/<time>/`, and nothing is deleted.

A completed trial of which something is lost does not count as completed any more: its row goes there too, so that the
next launch runs it again. A part that loses rows is written anew without them, and the old one is moved as a whole.

The order makes a kill at any moment harmless. Why a trial is incomplete can only be told while the broken part is in
its place, so the rows of trials go first and broken files last; the new part is there before the old one goes; and a
file is there before it is taken from where it was. What is then left is done by the same command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store.check import QUARANTINE, completed_ids, diagnose, planned_labels
from orchestrator.store.contents import READ_ORDER, TableContents
from orchestrator.store.diagnosis import BadFile, Diagnosis, Finding
from orchestrator.store.parts import PartFolder, stamp_of
from orchestrator.store.results import MARKER, mark
from orchestrator.store.schema import TABLES
from trials.errors import StoreError

_ROUNDS = 5  # what is taken out may leave rows that are nobody's


@dataclass
class Repaired:
    """What was done.

    Attributes:
        folders: Where it is kept.
        files: What was moved there as a whole.
        rows: How many rows of each table no longer count.
        trials: Trials that were completed and are not any more, and why.
        again: Trials that are planned or were completed, and that the next launch runs; each with its label.
        left: What is wrong and was left as it is.
    """

    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    trials: dict[str, str] = field(default_factory=dict)
    again: dict[str, str] = field(default_factory=dict)
    left: tuple[Finding, ...] = ()


def repair(storage: Storage) -> Repaired:
    """Repair a store that nobody writes to.

    Raises:
        StoreError: no store there, files of a newer version, or the storage cannot be read or written.
    """
    done = Repaired()
    for _ in range(_ROUNDS):
        found, report, tables = diagnose(storage)
        if found.newer:
            raise StoreError(
                f"{storage}: {found.newer[0]} was written by a newer version, which alone can tell what is wrong here. "
                "Upgrade permafrost-sweeps."
            )
        if found.is_sound:
            break
        _carry_out(storage, found, tables, done)
    else:
        raise AssertionError(f"{storage}: taking out {found.as_json()} leads nowhere")
    completed, labels = completed_ids(tables), planned_labels(storage)
    missing = {i: labels.get(i, i) for i in [*labels, *done.trials] if i not in completed}
    done.again, done.left = missing, report.findings
    return done


def set_aside(storage: Storage, files: Sequence[BadFile]) -> None:
    """Move files to the quarantine. Raises StoreError."""
    quarantine = _quarantine(storage, {file.path: file.why for file in files})
    for file in files:
        _keep(storage, file.folder, file.name, quarantine)


def _quarantine(storage: Storage, why: object) -> Storage:
    """A new folder for what is taken out, and why it is."""
    folder = storage.at(QUARANTINE).at(datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ"))
    folder.write("why.json", (json.dumps(why, indent=1) + "\n").encode())
    return folder


def _carry_out(storage: Storage, found: Diagnosis, tables: Mapping[str, TableContents], done: Repaired) -> None:
    quarantine = _quarantine(storage, found.as_json())
    done.folders.append(str(quarantine))
    done.trials |= found.trials
    for table in READ_ORDER:  # trials first
        numbers = found.rows.get(table, {})
        done.rows[table] = done.rows.get(table, 0) + len(numbers)
        for part in sorted({tables[table].part_of(n) for n in numbers}):
            _write_without(storage.at(table), table, part, tables[table], set(numbers))
            _keep(storage, (table,), part, quarantine)
            done.files.append(f"{table}/{part}")
    for file in found.files:
        _keep(storage, file.folder, file.name, quarantine)
        done.files.append(file.path)
    if found.marker:
        _keep(storage, (), MARKER, quarantine)
        mark(storage)


def _write_without(storage: Storage, name: str, part: str, table: TableContents, numbers: set[int]) -> None:
    """The part's other rows as a new part, in its place in the order."""
    start = table.starts[table.names.index(part)]
    end = next((s for s in table.starts[table.names.index(part) + 1 :]), len(table.rows))
    rest = pa.array([n for n in range(start, end) if n not in numbers], pa.int64())
    if len(rest):
        folder = PartFolder(storage, TABLES[name])
        folder.write(table.rows.take(rest).replace_schema_metadata(folder.schema.metadata), stamp_of(part) + 1)


def _keep(storage: Storage, folders: tuple[str, ...], name: str, quarantine: Storage) -> None:
    """Move a file to the quarantine: there first, then away."""
    source, target = storage, quarantine
    for folder in folders:
        source, target = source.at(folder), target.at(folder)
    try:
        content = source.read(name)
    except FileNotFoundError:
        return
    except OSError as error:
        _rename(source, name, target, error)
        return
    target.write(name, content)
    source.delete(name)


def _rename(source: Storage, name: str, target: Storage, error: OSError) -> None:
    """Move a file that the disk does not give back."""
    try:
        if not (isinstance(source, FolderStorage) and isinstance(target, FolderStorage)):
            raise error
        target.folder.mkdir(parents=True, exist_ok=True)
        (source.folder / name).rename(target.folder / name)
    except OSError as last:
        raise StoreError(f"{source}/{name}: cannot be moved ({last}). Move it out of the store by hand.") from last
