"""Check the rows of a store against each other, and against what the rows of ended trials record of them.

What belongs to an ended trial follows from its own row: how many rows each other table has of it, and their digest.
Rows of the oldest versions record nothing; of them only contradictions can be found.

Without predictions or weights a trial is still complete, as no interval rests on them: such a loss is a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.store.contents import TableContents, latest, repeated
from orchestrator.store.row_digests import NOTHING, RECORDED, Recorded, of_columns, recorded
from orchestrator.store.schema import KEYS
from orchestrator.store.stored_specs import checked_spec
from orchestrator.store.stored_tensors import WEIGHTS
from orchestrator.store.temporary_files import StoredFile
from trials.state import State

Pair = tuple[str, int]  # trial_id, attempt
_AGAIN = "it runs again at the next launch, once `repair` has removed its row"


def agrees(expected: Recorded, actual: Recorded) -> bool:
    """Whether rows are those that were recorded; digests over other numbers of columns do not compare.

    A version that lacks a column, such as that of a metric of one's own, reads the rows without it.
    """
    if expected.rows != actual.rows:
        return False
    same_columns = expected.digest.partition("/")[2] == actual.digest.partition("/")[2]
    return not same_columns or expected.digest == actual.digest


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
    """What is wrong with a store, and what `repair` does about it.

    Attributes:
        notes: Remarks that need no repair.
        states: Trials by the state that readers show, or `not ended`.
        newer: Files that a newer version wrote; while there are any, nothing may be repaired.
        files: Those to move out.
        rows: By table, the numbers of the rows to remove, each with the reason.
        trials: Completed trials whose row is among them, each with the reason.
        losses: Trials that run no more for what they lost (predictions, weights, or they failed), each with that.
    """

    store: str
    tables: Mapping[str, TableContents]
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    states: dict[str, int] = field(default_factory=dict)
    newer: list[str] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)
    rows: dict[str, dict[int, str]] = field(default_factory=dict)
    trials: dict[str, str] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def needs_repair(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.files or any(self.rows.values()))

    def find(self, place: str, wrong: str, means: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(place, wrong, means))

    def note_strange(self, folder: str, names: Sequence[str], what: str) -> None:
        """One line about the files of a folder that have no name of ours, however many."""
        if names:
            more = f", like {len(names) - 1:,} others" if len(names) > 1 else ""
            self.notes.append(f"{folder}/{names[0]}: {what}; it is ignored{more}.")

    def remove_file(self, folders: tuple[str, ...], name: str, wrong: str, means: str) -> None:
        """Add a finding whose repair removes a file."""
        self.files.append(StoredFile(folders, name, wrong))
        self.find(self.files[-1].path, wrong, means)

    def remove_rows(self, table: str, rows: Iterable[int], why: str) -> None:
        """Have rows removed, by their numbers in the table."""
        self.rows.setdefault(table, {}).update(dict.fromkeys(rows, why))

    def as_json(self) -> dict[str, Any]:
        """For `permafrost store verify --json`."""
        findings = [asdict(finding) for finding in self.findings]
        return {"store": self.store, "findings": findings, "notes": self.notes, "states": self.states, "ok": self.ok}

    def removals_as_json(self) -> dict[str, Any]:
        """The reason for each removal, for the quarantine's `why.json`."""
        rows = {table: sorted(set(reasons.values())) for table, reasons in self.rows.items() if reasons}
        files = {file.path: file.why for file in self.files}
        return {"files": files, "rows": rows, "trials": self.trials}


def check_rows(report: Report) -> None:
    """Add what the rows of `report.tables` show."""
    for name in KEYS:
        if n := sum(len(at) - 1 for at in repeated(report.tables[name].rows, KEYS[name])):
            report.notes.append(f"{name}: {n} rows have the key of a later one, which readers use.")
    _check_specs(report)
    _check_records(report)
    _check_commits(report)  # last, as it follows what else is to be removed


def _reject(pair: Pair, why: str, report: Report) -> bool:
    """Have an attempt's row of `trials` removed if it says completed, so that it runs again; whether it does."""
    trials = report.tables["trials"].rows
    rows = zip(_pairs(trials), trials["state"].to_pylist(), strict=True)
    numbers = [n for n, row in enumerate(rows) if row == (pair, State.COMPLETED)]
    report.remove_rows("trials", numbers, why)
    if numbers:
        report.trials[pair[0]] = why
    return bool(numbers)


def _check_specs(report: Report) -> None:
    for row in report.tables["trials"].rows.select(["trial_id", "spec"]).to_pylist():
        if isinstance(spec := checked_spec(row["spec"], row["trial_id"]), str):
            report.find(f"trial {row['trial_id']}", spec, "another version may have written it, so `repair` leaves it")


def _check_records(report: Report) -> None:
    """Where the rows of ended attempts are not those that their rows in `trials` record."""
    trials = report.tables["trials"].rows.select(["trial_id", "attempt", "state", "row_counts", "row_digests"])
    ended = {pair: (n, row) for n, (pair, row) in enumerate(zip(_pairs(trials), trials.to_pylist(), strict=True))}
    if unrecorded := sum(row["row_counts"] is None for _, row in ended.values()):
        report.notes.append(
            f"trials: {unrecorded} rows do not record what belongs to them (an older version wrote them), so lost rows "
            "of other tables may go unnoticed."
        )
    expected = {pair: of_columns(row) for pair, (_, row) in ended.items()}
    wrong = dict[Pair, dict[str, str]]()
    for table in RECORDED:
        there = _recorded_rows(table, report.tables[table].rows, ended.keys())
        for pair, tables in expected.items():
            if table in tables and not agrees(tables[table], real := there.get(pair, NOTHING)):
                what = f"{real.rows:,} of {tables[table].rows:,} rows of {table} are there"
                if real.rows == tables[table].rows:
                    what = f"the rows of {table} are not those that were committed"
                wrong.setdefault(pair, {})[table] = what
    for pair, lost in wrong.items():
        required = "; ".join(what for table, what in lost.items() if table != "predictions")
        if required and _reject(pair, required, report):
            report.find(f"trial {pair[0]}", f"attempt {pair[1]} is completed, but {required}", _AGAIN)
        else:
            report.losses[pair[0]] = "; ".join(lost.values())


def _recorded_rows(table: str, rows: pa.Table, wanted: Collection[Pair]) -> dict[Pair, Recorded]:
    """What the rows of each attempt would be recorded as."""
    rows = latest(rows, KEYS[table]).combine_chunks()  # `take` would join them for each attempt
    if not len(rows):
        return {}
    ids = rows["trial_id"].combine_chunks().dictionary_encode()
    codes, numbers = ids.indices.to_numpy(), rows["attempt"].to_numpy()
    order = np.lexsort((numbers, codes))
    changes = np.flatnonzero((np.diff(codes[order]) != 0) | (np.diff(numbers[order]) != 0)) + 1
    attempts = {(ids.dictionary[codes[at[0]]].as_py(), int(numbers[at[0]])): at for at in np.split(order, changes)}
    return {pair: recorded(table, rows.take(pa.array(at))) for pair, at in attempts.items() if pair in wanted}


def _check_commits(report: Report) -> None:
    """The ended attempts whose own rows are lost."""
    trials, commits = report.tables["trials"].rows, report.tables["commits"].rows
    removed = report.rows.get("trials", {})
    ended = list(_pairs(trials))
    left = {pair for n, pair in enumerate(ended) if n not in removed}
    for trial_id, attempt in sorted(set(_pairs(commits)) - set(ended)):
        wrong = f"attempt {attempt} has ended, but its row in `trials` is lost"
        report.find(f"trial {trial_id}", wrong, "it runs again at the next launch")
    numbers = [n for n, pair in enumerate(_pairs(report.tables["commits"].rows)) if pair not in left]
    report.remove_rows("commits", numbers, "its row in `trials` is lost or removed")
    recording = trials.filter(pc.is_valid(trials["row_counts"]))
    if without := len(set(_pairs(recording)) - set(_pairs(commits))):
        report.notes.append(
            f"commits: {without} ended attempts are not in it (their driver was killed, or a part is lost); if their "
            "rows in `trials` are lost, too, nothing will tell."
        )


def check_recorded_weights(report: Report, names: Mapping[str, Collection[str]]) -> None:
    """Note the weights that are gone. `names` are the stored files of each trial."""
    rows = report.tables["trials"].rows.select(["trial_id", "attempt", "row_counts", "row_digests"]).to_pylist()
    newest = {row["trial_id"]: row for row in sorted(rows, key=lambda row: row["attempt"])}
    for trial_id, row in newest.items():
        wanted = of_columns(row).get(WEIGHTS, NOTHING)
        if wanted.rows and not any(wanted.digest in name for name in names.get(trial_id, ())):
            lost = f"the weights of attempt {row['attempt']} are not there"
            report.losses[trial_id] = "; ".join(filter(None, [report.losses.get(trial_id), lost]))


def _pairs(rows: pa.Table) -> Iterator[Pair]:
    return zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True)
