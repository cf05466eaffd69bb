"""Repair a store: broken files and rows are moved to `<store>/quarantine/<time>/`; nothing is deleted.

A wrong read moves nothing: reads prove themselves (`storage.ProvenReads`), two checks have to agree, and what is
written is read back before an original goes.

A completed trial that has lost something no longer counts as completed: its row is moved too, so that the next launch
runs it again. Only predictions, contributions and weights may be lost: then its row records that there are none. A part
that loses rows is written again without them, and the old part is moved.

A repair that is killed loses nothing and can be repeated, because of the order of its steps. Why a trial is incomplete
is only visible while the broken part exists, so rows of `trials` are moved first (after their copies in `commits`) and
broken files last. A new part is
written before the old one is moved, and each file is copied before its original is deleted.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa

from orchestrator.claims.claims import CLAIMS, listed, trial_of
from orchestrator.extras.store_care.check import CHECKPOINT, check_store, completed_ids, planned_labels
from orchestrator.extras.store_care.check_rows import Finding, Report
from orchestrator.storage.storage import FolderStorage, ProvenReads, Storage
from orchestrator.store.contents import FILE as WEIGHTS_FILE
from orchestrator.store.contents import READ_ORDER, WEIGHTS, TableContents
from orchestrator.store.parts import PartFolder, as_columns, of_columns
from orchestrator.store.results import MARKER, mark
from orchestrator.store.schema import ALL_TABLES, CHECKPOINTS, QUARANTINE, proven_reads, stamp_of
from orchestrator.store.temporary_files import StoredFile, temporary_files
from trials.errors import StoreError

# Files that nobody needs any more: temporary files of killed writers, checkpoints and claims of completed trials.

OLD_S = 24 * 3600.0  # of a temporary file: no writer takes so long


def find_garbage(storage: Storage, now: float | None = None) -> list[StoredFile]:
    """The files that may be deleted. Temporary files are only found in folders, as object stores have none.

    Raises:
        StoreError: no store there, or something is wrong with it, so that what is needed is unknown.
    """
    report = check_store(storage)
    if not report.ok:
        raise StoreError(
            f"{storage}: not intact, the first finding is: {report.findings[0]}. "
            "Run `permafrost store repair` first: until then it is unknown which files are needed."
        )
    now, completed = time.time() if now is None else now, completed_ids(report.tables)
    garbage = [file for file, modified in temporary_files(storage, without=(QUARANTINE,)) if now - modified > OLD_S]
    claims = set(listed(storage.at(CLAIMS)))  # of killed drivers; those to other trials say which attempts there were
    kinds: tuple[tuple[str, Callable[[str], str | None], bool, str], ...] = (
        (CHECKPOINTS, lambda name: _trial_in(CHECKPOINT, name), True, "checkpoint of a completed trial"),
        (WEIGHTS, lambda name: _trial_in(WEIGHTS_FILE, name), False, "weights of a trial that has not completed"),
        (CLAIMS, lambda name: trial_of(name) if name in claims else None, True, "claim to a completed trial"),
    )
    for folder, owner_of, is_completed, why in kinds:
        for name, n_bytes in storage.at(folder).files().items():
            owner = owner_of(name)
            if owner is not None and (owner in completed) == is_completed:
                garbage.append(StoredFile((folder,), name, why, n_bytes))
    return garbage


def _trial_in(pattern: re.Pattern[str], name: str) -> str | None:
    match = pattern.fullmatch(name)
    return match and match[1]


_ROUNDS = 5  # removing rows may leave others without an evaluation


@dataclass
class Repaired:
    """The result of a repair.

    Attributes:
        folders: The quarantine folders that were made.
        rows: By table, the number of rows that were removed.
        trials: Trials that no longer count as completed, each with the reason.
        losses: Trials that are complete without something, each with what was lost.
        again: The label of each trial that the next launch runs: planned ones, and those that were completed.
        left: What is wrong and was left as it is.
    """

    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    trials: dict[str, str] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    again: dict[str, str] = field(default_factory=dict)
    left: list[Finding] = field(default_factory=list)


def repair(store: Storage, *, apply: bool = True) -> Repaired:
    """Repair a store that nobody writes to; without `apply` find out what would be done, and write nothing.

    Raises:
        StoreError: no store there, files of a newer version, or the storage cannot be read or written.
    """
    done, storage = Repaired(), proven_reads(store)
    for _ in range(_ROUNDS):
        report = check_store(storage)
        if report.newer:
            raise StoreError(
                f"{storage}: {report.newer[0]} was written by a newer version, so this version cannot decide what is "
                "wrong here. Upgrade permafrost-sweeps."
            )
        if not report.needs_repair:
            break
        if check_store(storage).removals_as_json() != report.removals_as_json():
            raise StoreError(f"{storage}: two checks in a row differ. Nothing was changed for them. Try again.")
        _refuse_links(storage, report)
        if not apply:
            _note(report, done)
            break
        _carry_out(storage, report, done)
    else:
        raise AssertionError(f"{storage}: still broken after {_ROUNDS} rounds: {report.removals_as_json()}")
    completed, labels = completed_ids(report.tables) - done.trials.keys(), planned_labels(storage)
    done.again = {i: labels.get(i, i) for i in [*labels, *done.trials] if i not in completed}
    done.left = [] if report.needs_repair else report.findings
    return done


def _note(report: Report, done: Repaired) -> None:
    """Add what a repair by a report does."""
    done.trials |= report.trials
    done.losses |= {i: lost for i, lost in report.losses.items() if i not in report.trials}
    for name in READ_ORDER:
        done.rows[name] = done.rows.get(name, 0) + len(report.rows.get(name, {}))
        done.files += [f"{name}/{part}" for part in _changed_parts(report, name)]
    done.files += [file.path for file in report.files]


def _changed_parts(report: Report, name: str) -> list[str]:
    """The parts of a table that lose rows, or rows of which change."""
    changed = report.amended.keys() if name == "trials" else set[int]()
    return sorted({report.tables[name].part_of(n) for n in report.rows.get(name, {}).keys() | changed})


def _carry_out(storage: ProvenReads, report: Report, done: Repaired) -> None:
    folder = storage.at(QUARANTINE).at(datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ"))
    folder.write("why.json", (json.dumps(report.removals_as_json(), indent=1) + "\n").encode())
    done.folders.append(str(folder))
    _note(report, done)
    for name in READ_ORDER:  # trials first
        table = report.tables[name]
        if name == "trials" and report.amended:
            table = replace(table, rows=_amended(table.rows, report))
        for part in _changed_parts(report, name):
            _write_without(storage.at(name), name, part, table, set(report.rows.get(name, {})))
            _move(storage, StoredFile((name,), part, "some of its rows"), folder)
    for file in report.files:
        _move(storage, file, folder)
        if file.path == MARKER:
            mark(storage)


def _amended(trials: pa.Table, report: Report) -> pa.Table:
    """The rows of `trials`, some of which record that rows of other tables are lost."""
    rows = trials.select(["row_counts", "row_digests"]).to_pylist()
    for n, left in report.amended.items():
        rows[n] = as_columns(of_columns(rows[n]) | left)
    for name in ("row_counts", "row_digests"):
        at, field_ = trials.schema.get_field_index(name), trials.schema.field(name)
        trials = trials.set_column(at, field_, pa.array([row[name] for row in rows], field_.type))
    return trials


def _write_without(storage: Storage, name: str, part: str, table: TableContents, numbers: set[int]) -> None:
    """Write a part's other rows as a new part, which takes its position in the order."""
    index = table.names.index(part)
    start, end = (*table.starts, len(table.rows))[index : index + 2]
    rest = pa.array([n for n in range(start, end) if n not in numbers], pa.int64())
    if len(rest):
        folder = PartFolder(storage, ALL_TABLES[name])
        folder.write(table.rows.take(rest).replace_schema_metadata(folder.schema.metadata), stamp_of(part) + 1)


def _move(storage: ProvenReads, file: StoredFile, quarantine: ProvenReads) -> None:
    """Move a file to the quarantine. A folder gives it another name; an object is copied, and deleted once the copy
    reads as the original does.
    """
    here, there = file.folder_in(storage.inner), file.folder_in(quarantine.inner)
    if isinstance(here, FolderStorage) and isinstance(there, FolderStorage):
        here.move(file.name, there)
        return
    source, target = file.folder_in(storage), file.folder_in(quarantine)
    with contextlib.suppress(FileNotFoundError):
        target.write(file.name, source.read(file.name))
        source.delete(file.name)


def _refuse_links(storage: ProvenReads, report: Report) -> None:
    """Raise StoreError if a folder that a repair would write to is a link, perhaps to a place of somebody else's."""
    if isinstance(storage.inner, FolderStorage):
        tables = [(name,) for name in (*report.rows, *(["trials"] if report.amended else []))]
        for folders in [(QUARANTINE,), *tables, *(file.folders for file in report.files)]:
            for n in range(len(folders)):
                if (path := storage.inner.folder.joinpath(*folders[: n + 1])).is_symlink():
                    raise StoreError(f"{path}: is a link, and a repair does not leave the store. Put the folder there.")
