"""Check a store: every digest, every key, and that each completed trial is complete.

from orchestrator.extras.store_care.check import check_store

report = check_store("results")     # or s3://...; or a `Storage`
report.ok, report.findings, report.notes, report.states

Nothing is written, and a sweep may be running: what a running sweep has not finished yet is not a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from orchestrator.config.quantities import counted
from orchestrator.extras.store_care.check_plans import check_plans
from orchestrator.extras.store_care.check_rows import Report, check_rows
from orchestrator.extras.store_care.check_tensors import check_tensors
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import BrokenError, FolderStorage, NewerError, Storage
from orchestrator.store.contents import TableContents, read_contents
from orchestrator.store.results import MARKER, check_marker, holds_rows
from orchestrator.store.schema import (
    ALL_TABLES,
    CHECKPOINTS,
    QUARANTINE,
    promised,
    proven_reads,
)
from orchestrator.store.stored_tensors import WEIGHTS
from orchestrator.store.sweep_plans import SWEEPS, SweepPlan
from trials.errors import StoreError


def check_store(store: str | Path | Storage) -> Report:
    """Check a store.

    Raises:
        ConfigError: not a valid address.
        StoreError: no store there, a store of a newer version, or a storage that does not answer.
    """
    storage = proven_reads(store if isinstance(store, Storage) else open_storage(store))
    marker_problem = _marker_problem(storage)  # first: it may not be a store
    report = Report(storage.address, read_contents(storage))
    if marker_problem:
        report.remove_file((), MARKER, marker_problem, "no command opens this store")
    plans = check_plans(storage, report)
    for name, table in report.tables.items():
        _check_parts(name, table, report)
    check_rows(report)
    report.states = dict(sorted(Counter(_states(report.tables, plans).values()).items()))
    check_tensors(storage, report)
    if report.losses:
        first, lost = next(iter(report.losses.items()))
        more = f", like {len(report.losses) - 1:,} others" if len(report.losses) > 1 else ""
        report.notes.append(f"trial {first}: {lost}; nothing runs again for that{more}.")
    _check_odd(storage.inner, report)
    if storage.repeated:
        report.notes.append(
            f"{counted(len(storage.repeated), 'object')} were read wrongly at first and then rightly: the line or a "
            f"disk flips bits, the store is not at fault. The first: {storage.repeated[0]}"
        )
    if quarantined := _n_files(storage.at(QUARANTINE)):
        report.notes.append(
            f"{QUARANTINE}: {quarantined} files moved out by repairs. Delete them once nobody needs them."
        )
    return report


def _check_odd(storage: Storage, report: Report) -> None:
    """Find what has the place of a file and is none; it is never opened."""
    if not isinstance(storage, FolderStorage):
        return
    sweeps = [(SWEEPS, name) for name in storage.at(SWEEPS).folders()]
    for folders in [(), *((name,) for name in (*ALL_TABLES, CHECKPOINTS, WEIGHTS)), *sweeps]:
        for name in storage.at("/".join(folders)).odd():
            report.remove_file(folders, name, "neither a file nor a folder", "it is never opened")


def _marker_problem(storage: Storage) -> str | None:
    """What is wrong with the marker. Raises StoreError: this is not a store, or one of a newer version."""
    try:
        check_marker(storage)
    except NewerError:
        raise
    except BrokenError as error:
        if holds_rows(storage):
            return error.wrong
        if storage.exists(MARKER):
            raise
        raise StoreError(f"{storage}: no store there. Give the folder of one with --store.") from None
    return None


_LOST = {
    "predictions": "without it, its trials have no predictions, but stay complete",
    "contributions": "without it, its trials have no contributions, but stay complete",
    "commits": "without it, lost rows of `trials` may go unnoticed",
}


def _check_parts(name: str, table: TableContents, report: Report) -> None:
    for part in table.broken:
        if part.newer:
            report.newer.append(f"{name}/{part.name}")
            report.find(f"{name}/{part.name}", part.wrong, "nothing can be read. Upgrade permafrost-sweeps")
        else:
            means = _LOST.get(name, "without it, its trials run again where they are needed")
            means = f"nothing can be read; {means}"
            report.remove_file((name,), part.name, part.wrong, means)
    report.note_strange(name, table.strange, "not a part")
    undated = sum(promised(part) is None for part in table.names)
    if undated:
        report.notes.append(
            f"{name}: {undated} parts have no digest in their names (an older version wrote them); only contradictions "
            "inside them can be detected."
        )


def _states(tables: Mapping[str, TableContents], plans: list[SweepPlan]) -> dict[str, str]:
    """Each trial's state as readers show it."""
    states = dict.fromkeys((trial_id for plan in plans for trial_id, _ in plan.trials), "not ended")
    states |= dict.fromkeys(tables["epochs"].rows["trial_id"].unique().to_pylist(), "not ended")
    rows = tables["trials"].rows.select(["trial_id", "attempt", "state"]).to_pylist()
    return states | {row["trial_id"]: str(row["state"]) for row in sorted(rows, key=lambda row: row["attempt"] or 0)}


def _n_files(folder: Storage) -> int:
    return len(folder.files()) + sum(_n_files(folder.at(name)) for name in folder.folders())
