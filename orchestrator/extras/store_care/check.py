"""Check a store: every digest, every key, and that each completed trial is complete.

from orchestrator.extras.store_care.check import check_store

report = check_store("results")     # or s3://...; or a `Storage`
report.ok, report.findings, report.notes, report.states

Nothing is written, and a sweep may be running: what a running sweep has not finished yet is not a finding.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, deserialize

from orchestrator.claims import TIMING, BusyStoreError, Timing, join
from orchestrator.config.quantities import counted
from orchestrator.extras.store_care.check_rows import Report, check_recorded_weights, check_rows
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import BrokenError, FolderStorage, NewerError, Storage
from orchestrator.store.contents import TableContents, read_contents
from orchestrator.store.decisions import decoded_decisions, is_decision
from orchestrator.store.results import MARKER, check_marker, holds_rows
from orchestrator.store.schema import (
    ALL_TABLES,
    CHECKPOINTS,
    QUARANTINE,
    WRONG_DIGEST,
    is_intact,
    promised,
    proven_reads,
)
from orchestrator.store.stored_specs import checked_spec
from orchestrator.store.stored_weights import FILE as WEIGHTS_FILE
from orchestrator.store.stored_weights import WEIGHTS, weights_of
from orchestrator.store.sweep_plans import SWEEPS, SweepPlan, decoded_plan, is_plan
from trials.errors import StoreError
from trials.state import State


@contextlib.contextmanager
def alone(storage: Storage, doing: str, *, say: Callable[[str], None], timing: Timing = TIMING) -> Iterator[None]:
    """Have a store to oneself while the block runs.

    Args:
        doing: What the block does, a verb for the error message.
        say: Receives a line while a driver is waited for.

    Raises:
        StoreError: a driver is running a sweep of the store, or another command has it alone.
    """
    try:
        with join(storage, say=say, alone=True, timing=timing):
            yield
    except BusyStoreError as error:
        raise StoreError(f"cannot {doing} now: {error}") from error


CHECKPOINT = re.compile(r"([0-9a-f]{16})-\d{6,}-\d{12,}(-[0-9a-f]{16})?\.safetensors")


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
    plans = _check_plans(storage, report)
    for name, table in report.tables.items():
        _check_parts(name, table, report)
    check_rows(report)
    report.states = dict(sorted(Counter(_states(report.tables, plans).values()).items()))
    means = "its trial continues from an older checkpoint or starts again"
    _check_objects(storage, CHECKPOINTS, CHECKPOINT, "a checkpoint", means, report)
    means = "`export model` trains its trial again"
    _check_objects(storage, WEIGHTS, WEIGHTS_FILE, "the weights of a trial", means, report)
    check_recorded_weights(report, weights_of(storage))
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
    "probes": "without it, `permafrost layers` computes its probes again",
    "drifts": "without it, `permafrost layers` computes its drifts again",
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
    _note_strange(name, table.strange, "not a part", report)
    undated = sum(promised(part) is None for part in table.names)
    if undated:
        report.notes.append(
            f"{name}: {undated} parts have no digest in their names (an older version wrote them); only contradictions "
            "inside them can be detected."
        )


def _note_strange(folder: str, names: Sequence[str], what: str, report: Report) -> None:
    """One line about the files of a folder that have no name of ours, however many."""
    if names:
        more = f", like {len(names) - 1:,} others" if len(names) > 1 else ""
        report.notes.append(f"{folder}/{names[0]}: {what}; it is ignored{more}.")


def _check_plans(storage: Storage, report: Report) -> list[SweepPlan]:
    """The newest readable plan of each sweep, and the settings that its search suggested."""
    newest = []
    for sweep in storage.at(SWEEPS).folders():
        folder, plans, suggested = storage.at(SWEEPS).at(sweep), list[SweepPlan](), list[SweepPlan]()
        for name in filter(lambda name: is_plan(name) or is_decision(name), folder.files()):
            try:
                path, content = f"{folder}/{name}", folder.read(name)
                if is_plan(name):
                    decoded = [decoded_plan(path, content)]
                else:
                    decoded = [decision.plan for decision in decoded_decisions(path, content)]
            except FileNotFoundError:
                continue
            except (OSError, BrokenError) as error:
                wrong = error.wrong if isinstance(error, BrokenError) else f"cannot be read ({error})"
                means = "`status` fails; the next launch writes the plan again"
                report.remove_file((SWEEPS, sweep), name, wrong, means)
                continue
            (plans if is_plan(name) else suggested).extend(decoded)
            for plan in decoded:
                _check_specs(f"{SWEEPS}/{sweep}/{name}", plan, report)
        newest += [*plans[-1:], *suggested]
    return newest


def _check_specs(name: str, plan: SweepPlan, report: Report) -> None:
    wrong = {i: problem for i, spec in plan.trials if isinstance(problem := checked_spec(spec, i), str)}
    if wrong:
        first, problem = next(iter(wrong.items()))
        report.find(
            name,
            f"{len(wrong)} of {len(plan.trials)} trials do not match their ids; the first, {first}: {problem}",
            "`status` may show them wrongly; the next launch writes the plan again",
        )


def _file_problem(folder: Storage, name: str) -> str | None:
    """Why a file whose name holds its digest cannot be used; None if it can, or is gone."""
    try:
        content = folder.read(name)
        if not is_intact(name, content):
            return WRONG_DIGEST
        if name.endswith(".safetensors"):
            deserialize(content)  # type: ignore[no-untyped-call]
    except FileNotFoundError:  # a running sweep has replaced it
        return None
    except OSError as error:
        return f"cannot be read ({error})"
    except SafetensorError as error:
        return f"not a readable safetensors file ({error})"
    return None


def _states(tables: Mapping[str, TableContents], plans: list[SweepPlan]) -> dict[str, str]:
    """Each trial's state as readers show it."""
    states = dict.fromkeys((trial_id for plan in plans for trial_id, _ in plan.trials), "not ended")
    states |= dict.fromkeys(tables["epochs"].rows["trial_id"].unique().to_pylist(), "not ended")
    rows = tables["trials"].rows.select(["trial_id", "attempt", "state"]).to_pylist()
    return states | {row["trial_id"]: str(row["state"]) for row in sorted(rows, key=lambda row: row["attempt"] or 0)}


def _check_objects(storage: Storage, folder: str, ours: re.Pattern[str], what: str, means: str, report: Report) -> None:
    """Check the files of a folder whose names hold a trial and a digest."""
    names = list(storage.at(folder).files())
    _note_strange(folder, [name for name in names if not ours.fullmatch(name)], f"not {what}", report)
    for name in filter(ours.fullmatch, names):
        if wrong := _file_problem(storage.at(folder), name):
            report.remove_file((folder,), name, wrong, means)


def _n_files(folder: Storage) -> int:
    return len(folder.files()) + sum(_n_files(folder.at(name)) for name in folder.folders())


def completed_ids(tables: Mapping[str, TableContents]) -> set[str]:
    """Trials that no launch runs again."""
    rows = tables["trials"].rows.select(["trial_id", "state"]).to_pylist()
    return {row["trial_id"] for row in rows if row["state"] == State.COMPLETED}
