"""Check a store: every digest, every key, and that each completed trial is complete.

from orchestrator.extras.store_care.check import check_store

report = check_store("results")     # or s3://...; or a `Storage`
report.ok, report.findings, report.notes, report.states

Nothing is written, and a sweep may be running: what a running sweep has not finished yet is not a finding. Trials are
read first and epochs last, the reverse of the order in which they are committed, so everything that belongs to a trial
that was read is read too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from safetensors import SafetensorError, deserialize

from orchestrator.config.quantities import amount
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import BrokenError, NewerError, Storage
from orchestrator.store.parts import BrokenPart, PartFolder, is_part, latest_rows, repeated_rows
from orchestrator.store.plans import SWEEPS, SweepPlan, checked_spec, is_plan, read_plan
from orchestrator.store.results import MARKER, NEEDED, check_marker, holds_rows, lost_rows
from orchestrator.store.schema import (
    ALL_TABLES,
    CHECKPOINTS,
    COMMIT_ORDER,
    COUNTED,
    KEYS,
    WRONG_DIGEST,
    is_intact,
)
from orchestrator.store.stored_tensors import CHECKPOINT_FILE, WEIGHTS, WEIGHTS_FILE
from orchestrator.store.sweep_notes import is_note, read_note
from trials.errors import StoreError
from trials.record import State

_AGAIN = "it runs again at the next launch"
_MEANS = {  # what the loss of a part means
    "predictions": "its trials lack predictions, but stay complete",
    "commits": "lost rows of `trials` may go unnoticed",
    "notes": "left out: delete it, and note it again with `permafrost store note`",
}


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a store.

    Attributes:
        place: A file of the store, or a trial.
    """

    place: str
    wrong: str
    means: str

    def __str__(self) -> str:
        return f"{self.place}: {self.wrong}; {self.means}"


@dataclass
class Report:
    """What is wrong with a store.

    Attributes:
        notes: Remarks on what does no harm.
        states: Trials by the state that readers show, or `not ended`.
        without_predictions: Completed trials that have lost predictions and nothing else.
    """

    store: str
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    states: dict[str, int] = field(default_factory=dict)
    without_predictions: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """What the store contains and what it lacks, on one line."""
        if self.ok:
            return "intact."
        parts = [f"{amount(len(self.findings), 'problem')}."]
        if any(found.means not in (_MEANS["predictions"], _MEANS["notes"]) for found in self.findings):
            parts.append("The same launch runs again what is lost.")
        if n := self.without_predictions:
            parts.append(f"Predictions of {amount(n, 'trial')} are lost; nothing runs again for them.")
        return " ".join(parts)

    def find(self, place: str, wrong: str, means: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(place, wrong, means))

    def note_strange(self, folder: str, names: Sequence[str], what: str) -> None:
        """One line about the files of a folder that have no name of ours, however many."""
        if names:
            more = f", like {len(names) - 1:,} others" if len(names) > 1 else ""
            self.notes.append(f"{folder}/{names[0]}: {what}; it is ignored{more}.")

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values, for `permafrost store verify --json`."""
        return {**asdict(self), "ok": self.ok}


def check_store(store: str | Path | Storage, *, tensors: bool = True) -> Report:
    """Check a store; without `tensors` all but its checkpoints and weights.

    Raises:
        ConfigError: not a valid address.
        StoreError: no store there, a store of a newer version, or a storage that does not answer.
    """
    storage = store if isinstance(store, Storage) else open_storage(store)
    report = Report(storage.address)
    _check_marker(storage, report)  # first: it may not be a store
    tables = {name: _read_table(storage, name, report) for name in reversed(COMMIT_ORDER)}
    plans = _check_plans(storage, report)
    _check_rows(tables, report)
    states = dict.fromkeys((trial_id for plan in plans for trial_id, _ in plan.trials), "not ended")
    states |= dict.fromkeys(tables["epochs"]["trial_id"].unique().to_pylist(), "not ended")
    ended = sorted(zip(_pairs(tables["trials"]), tables["trials"]["state"].to_pylist(), strict=True))
    states |= {trial_id: str(state) for (trial_id, _), state in sorted(ended, key=lambda row: row[0][1])}
    report.states = dict(sorted(Counter(states.values()).items()))
    if not tensors:
        return report
    means = "its trial continues from an older checkpoint or starts again"
    _check_tensors(storage.subfolder(CHECKPOINTS), CHECKPOINT_FILE, "a checkpoint", means, report)
    means = "`export model` trains its trial again"
    _check_tensors(storage.subfolder(WEIGHTS), WEIGHTS_FILE, "the weights of a trial", means, report)
    return report


def _check_marker(storage: Storage, report: Report) -> None:
    """Raises StoreError: this is not a store, or one of a newer version."""
    try:
        check_marker(storage)
    except NewerError:
        raise
    except BrokenError as error:
        if holds_rows(storage):
            report.find(MARKER, error.wrong, "the next launch writes it again")
        elif storage.exists(MARKER):
            raise
        else:
            raise StoreError(f"{storage}: no store there. Give the folder of one with --store.") from None


def _read_table(storage: Storage, name: str, report: Report) -> pa.Table:
    """The readable rows of a table, oldest part first."""
    parts = PartFolder(storage.subfolder(name), ALL_TABLES[name])
    _, read = parts.read_each(parts.read_part)
    for part in read.values():
        if isinstance(part, BrokenPart):
            means = f"left out: {_MEANS.get(name, 'its trials run again at the next launch')}. Then delete it"
            report.find(f"{name}/{part.name}", part.wrong, "upgrade permafrost-sweeps" if part.newer else means)
    report.note_strange(name, [file for file in parts.storage.files() if not is_part(file)], "not a part")
    rows = (part.replace_schema_metadata(None) for part in read.values() if isinstance(part, pa.Table))
    return pa.concat_tables([ALL_TABLES[name].empty_table(), *rows])


def _check_plans(storage: Storage, report: Report) -> list[SweepPlan]:
    """The newest readable plan of each sweep."""
    newest = []
    for sweep in storage.subfolder(SWEEPS).folders():
        folder, plans = storage.subfolder(SWEEPS).subfolder(sweep), list[SweepPlan]()
        files = folder.files()
        for name in filter(is_note, files):
            try:
                read_note(folder, name)
            except FileNotFoundError:
                continue
            except BrokenError as error:
                report.find(f"{SWEEPS}/{sweep}/{name}", error.wrong, _MEANS["notes"])
        for name in filter(is_plan, files):
            place = f"{SWEEPS}/{sweep}/{name}"
            try:
                plan = read_plan(folder, name)
            except FileNotFoundError:
                continue
            except BrokenError as error:
                report.find(place, error.wrong, "the next launch writes the plan again. Then delete it")
                continue
            plans.append(plan)
            _check_plan(place, plan, report)
        newest += plans[-1:]
    return newest


def _check_plan(place: str, plan: SweepPlan, report: Report) -> None:
    wrong = {i: problem for i, spec in plan.trials if isinstance(problem := checked_spec(spec, i), str)}
    if wrong:
        first, problem = next(iter(wrong.items()))
        report.find(
            place,
            f"{len(wrong)} of {len(plan.trials)} trials do not match their ids; the first, {first}: {problem}",
            "`status` may show them wrongly; the next launch writes the plan again",
        )


def _check_rows(tables: dict[str, pa.Table], report: Report) -> None:
    """Check rows against each other, and against what the rows of ended trials record of them."""
    for name, keys in KEYS.items():
        if n := sum(len(indices) - 1 for indices in repeated_rows(tables[name], keys)):
            report.notes.append(f"{name}: {n} rows have the key of a later one, which readers use.")
    trials, commits = tables["trials"], tables["commits"]
    for row in trials.select(["trial_id", "spec"]).to_pylist():
        if isinstance(spec := checked_spec(row["spec"], row["trial_id"]), str):
            report.find(f"trial {row['trial_id']}", spec, "another version may have written it")
    ended, completed = set(_pairs(trials)), set(_pairs(trials.filter(pc.equal(trials["state"], State.COMPLETED))))
    needed = _check_lost(tables, completed, report)
    whole = {trial_id for trial_id, _ in completed - needed}  # trials that do not run again
    for trial_id, attempt in sorted(pair for pair in set(_pairs(commits)) - ended if pair[0] not in whole):
        wrong = f"attempt {attempt} has ended, but its row in `trials` is lost"
        report.find(f"trial {trial_id}", wrong, _AGAIN)
    if without := len(ended - set(_pairs(commits))):
        report.notes.append(
            f"commits: {without} ended attempts are not in it (their driver was killed, or a part is lost); if their "
            "rows in `trials` are lost, too, nothing will tell."
        )


def _check_lost(tables: dict[str, pa.Table], completed: set[tuple[str, int]], report: Report) -> set[tuple[str, int]]:
    """Report the rows that ended attempts have lost; the attempts that lack some on which numbers rest."""
    lost = lost_rows(tables["trials"], {name: latest_rows(tables[name], KEYS[name]) for name in COUNTED})
    needed = {pair for pair, by_table in lost.items() if not by_table.keys().isdisjoint(NEEDED)}
    whole = {trial_id for trial_id, _ in completed - needed}  # trials that do not run again
    spared, without_predictions = list[str](), list[str]()
    for (trial_id, attempt), by_table in lost.items():
        what = "; ".join(f"{there:,} of {n:,} rows of {table} are there" for table, (there, n) in by_table.items())
        if (trial_id, attempt) in completed & needed and trial_id not in whole:
            report.find(f"trial {trial_id}", f"attempt {attempt} is completed, but {what}", _AGAIN)
        elif (trial_id, attempt) in completed - needed:
            without_predictions.append(f"trial {trial_id}: {what}")
        else:
            spared.append(f"trial {trial_id}: {what}")
    report.without_predictions = len(without_predictions)
    if without_predictions:
        more = f", like {len(without_predictions) - 1:,} others" if len(without_predictions) > 1 else ""
        report.find("predictions", f"{without_predictions[0]}{more}", _MEANS["predictions"])
    if spared:
        more = f", like {len(spared) - 1:,} others" if len(spared) > 1 else ""
        report.notes.append(f"{spared[0]}; nothing runs again for that{more}.")
    return needed


def _pairs(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True)


def _check_tensors(folder: Storage, ours: re.Pattern[str], what: str, means: str, report: Report) -> None:
    """Check the files of a folder whose names hold a trial and a digest."""
    names, place = list(folder.files()), folder.name
    report.note_strange(place, [name for name in names if not ours.fullmatch(name)], f"not {what}")
    for name in filter(ours.fullmatch, names):
        if wrong := _tensor_problem(folder, name):
            report.find(f"{place}/{name}", wrong, means)


def _tensor_problem(folder: Storage, name: str) -> str | None:
    """Why a file whose name holds its digest cannot be used; None if it can, or is gone."""
    try:
        content = folder.read(name)
        if not is_intact(name, content):
            return WRONG_DIGEST
        deserialize(content)  # type: ignore[no-untyped-call]
    except FileNotFoundError:  # a running sweep has replaced it
        return None
    except OSError as error:
        return f"cannot be read ({error})"
    except SafetensorError as error:
        return f"not a readable safetensors file ({error})"
    return None
