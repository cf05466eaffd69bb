"""Repair a store: broken files and rows are moved to `<store>/quarantine/<time>/`; nothing is deleted.

A wrong read moves nothing: reads prove themselves (`proven_reads.ProvenReads`), two checks have to agree, and what is
written is read back before an original goes.

A completed trial that has lost rows on which its numbers rest no longer counts as completed: its row is moved too, so
that the next launch runs it again. A part that loses rows is written again without them, and the old part is moved.

A repair that is killed loses nothing and can be repeated, because of the order of its steps. Why a trial is incomplete
is only visible while the broken part exists, so rows of `trials` are moved first (after their copies in `commits`) and
broken files last. A new part is written before the old one is moved, and each file is copied before its original is
deleted.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.check_rows import Finding, Report
from orchestrator.storage.proven_reads import ProvenReads
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store.contents import READ_ORDER, TableContents
from orchestrator.store.parts import PartFolder
from orchestrator.store.results import MARKER, mark
from orchestrator.store.schema import ALL_TABLES, QUARANTINE, proven_reads, stamp_of
from orchestrator.store.temporary_files import StoredFile
from trials.errors import StoreError


@dataclass
class Repaired:
    """The result of a repair.

    Attributes:
        folders: The quarantine folder, if one was made.
        trials: Trials that no longer count as completed, so that the next launch runs them, each with the reason.
        losses: Trials that are complete without predictions or weights, each with what was lost.
        left: What is wrong and was left as it is.
    """

    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    trials: dict[str, str] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    left: list[Finding] = field(default_factory=list)


def repair(store: Storage, *, apply: bool = True) -> Repaired:
    """Repair a store that nobody writes to; without `apply` find out what would be done, and write nothing.

    Raises:
        StoreError: no store there, files of a newer version, or the storage cannot be read or written.
    """
    storage = proven_reads(store)
    report = check_store(storage)
    if report.newer:
        raise StoreError(
            f"{storage}: {report.newer[0]} was written by a newer version, so this version cannot decide what is "
            "wrong here. Upgrade permafrost-sweeps."
        )
    done = Repaired(trials=report.trials, losses={i: w for i, w in report.losses.items() if i not in report.trials})
    done.files = [f"{name}/{part}" for name in READ_ORDER for part in _changed_parts(report, name)]
    done.files += [file.path for file in report.files]
    if report.needs_repair:
        if check_store(storage).removals_as_json() != report.removals_as_json():
            raise StoreError(f"{storage}: two checks in a row differ. Nothing was changed for them. Try again.")
        _refuse_links(storage, report)
        if apply:
            done.folders = [_carry_out(storage, report)]
            report = check_store(storage)
    done.left = report.findings if apply or not report.needs_repair else []
    return done


def _changed_parts(report: Report, name: str) -> list[str]:
    """The parts of a table that lose rows."""
    return sorted({report.tables[name].part_of(n) for n in report.rows.get(name, {})})


def _carry_out(storage: ProvenReads, report: Report) -> str:
    """Move everything; the folder of the quarantine."""
    folder = storage.at(QUARANTINE).at(datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ"))
    folder.write("why.json", (json.dumps(report.removals_as_json(), indent=1) + "\n").encode())
    for name in READ_ORDER:  # trials first
        for part in _changed_parts(report, name):
            _write_without(storage.at(name), name, part, report.tables[name], set(report.rows[name]))
            _move(storage, StoredFile((name,), part, "some of its rows"), folder)
    for file in report.files:
        _move(storage, file, folder)
        if file.path == MARKER:
            mark(storage)
    return str(folder)


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
        for folders in [(QUARANTINE,), *((name,) for name in report.rows), *(file.folders for file in report.files)]:
            for n in range(len(folders)):
                if (path := storage.inner.folder.joinpath(*folders[: n + 1])).is_symlink():
                    raise StoreError(f"{path}: is a link, and a repair does not leave the store. Put the folder there.")
