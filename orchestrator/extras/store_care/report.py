"""What a check of a store reports, and what `repair` has to remove for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.store.contents import WEIGHTS, TableContents, latest
from orchestrator.store.parts import NOTHING, RECORDED, Recorded, agrees, of_columns, recorded
from orchestrator.store.schema import KEYS
from orchestrator.store.temporary_files import StoredFile


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


@dataclass(frozen=True)
class Counted:
    """What a store contains.

    Attributes:
        parts, rows, n_bytes: By table.
        states: Trials by the state that readers show; `not ended` if a trial is planned or has rows but has not ended.
        checkpoints: By their trial: `ended`, `to go on`, or `unknown`.
        weights: Trials whose trained weights are stored.
        drivers: The number of running drivers, by sweep.
        quarantined: Files that earlier repairs moved out.
    """

    parts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    n_bytes: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=dict)
    weights: int = 0
    drivers: dict[str, int] = field(default_factory=dict)
    quarantined: int = 0


@dataclass
class Report:
    """The result of a check.

    Attributes:
        notes: Remarks that need no repair.
        newer: Files that a newer version wrote; while there are any, nothing may be repaired.
        rows: By table, the numbers of the rows to remove, each with the reason.
        amended: By the number of a row of `trials`, what it has to record of other tables from now on.
        trials: Completed trials whose row is among them, each with the reason.
        marker: Whether the store's marker has to be written again.
    """

    store: str
    tables: Mapping[str, TableContents] = field(compare=False)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counted: Counted = field(default_factory=Counted)
    newer: list[str] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)
    rows: dict[str, dict[int, str]] = field(default_factory=dict)
    trials: dict[str, str] = field(default_factory=dict)
    amended: dict[int, dict[str, Recorded]] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    marker: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def needs_repair(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.files or any(self.rows.values()) or self.amended or self.marker)

    def find(self, place: str, wrong: str, means: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(place, wrong, means))

    def remove_file(self, folders: tuple[str, ...], name: str, wrong: str, means: str) -> None:
        """Add a finding whose repair removes a file."""
        self.files.append(StoredFile(folders, name, wrong))
        self.find(self.files[-1].path, wrong, means)

    def remove_rows(self, table: str, rows: Iterable[int], why: str) -> None:
        """Have rows removed, by their numbers in the table."""
        self.rows.setdefault(table, {}).update(dict.fromkeys(rows, why))

    def lose(self, trial_id: str, row: int, what: str, wrong: str, means: str, left: Recorded | None) -> None:
        """Add a finding about an ended trial that does not run again; its row will record what is left, unless None."""
        self.find(f"trial {trial_id}", wrong, means)
        if left is not None:
            self.amended.setdefault(row, {})[what] = left
        self.losses[trial_id] = "; ".join(filter(None, [self.losses.get(trial_id), wrong]))

    def as_json(self) -> dict[str, Any]:
        """For `permafrost store verify --json`."""
        findings = [asdict(finding) for finding in self.findings]
        return {"store": self.store, "findings": findings, "notes": self.notes, "counted": asdict(self.counted),
                "ok": self.ok}  # fmt: skip

    def removals_as_json(self) -> dict[str, Any]:
        """The reason for each removal, for the quarantine's `why.json`."""
        rows = {table: sorted(set(found.values())) for table, found in self.rows.items() if found}
        return {"files": {file.path: file.why for file in self.files}, "rows": rows, "trials": self.trials,
                "losses": self.losses}  # fmt: skip


# Compare the rows of a store with what the rows of ended trials record of them: counts, digests, and commits.
#
# Without predictions, contributions or weights a trial is still complete. Such a loss is a finding of its own: `repair`
# removes what is left of them and records that there are none, and the trial does not run again.

Pair = tuple[str, int]  # trial_id, attempt
OPTIONAL = ("predictions", "contributions", WEIGHTS)  # what a completed trial may lose without running again
Differences = dict[Pair, dict[str, tuple[str, Recorded]]]  # attempt -> table -> what is wrong, and what is there


def differences(tables: Mapping[str, TableContents]) -> Differences:
    """Where the rows of ended attempts are not those that their rows in `trials` record."""
    trials = tables["trials"].rows.select(["trial_id", "attempt", "row_counts", "row_digests"])
    expected = {(row["trial_id"], row["attempt"]): of_columns(row) for row in trials.to_pylist()}
    found: Differences = {}
    for table in RECORDED:
        there = _recorded_rows(table, with_keys(tables[table].rows, table), expected.keys())
        for pair, by_table in expected.items():
            if table in by_table and not agrees(wanted := by_table[table], real := there.get(pair, NOTHING)):
                lost = f"{real.rows:,} of {wanted.rows:,} rows of {table} are there"
                wrong = f"the rows of {table} are not those that were committed" if real.rows == wanted.rows else lost
                found.setdefault(pair, {})[table] = (wrong, real)
    return found


def with_keys(rows: pa.Table, table: str) -> pa.Table:
    """The rows of a table whose keys have values; the others are findings."""
    return rows.filter(reduce(pc.and_, [pc.is_valid(rows[key]) for key in KEYS[table]]))


def _recorded_rows(table: str, rows: pa.Table, wanted: Collection[Pair]) -> dict[Pair, Recorded]:
    rows = latest(rows, KEYS[table])
    return {pair: recorded(table, rows.take(at)) for pair, at in _attempts(rows) if pair in wanted}


def _attempts(rows: pa.Table) -> Iterator[tuple[Pair, pa.Array]]:
    """Each attempt with the indices of its rows."""
    if not len(rows):
        return
    ids = rows["trial_id"].combine_chunks().dictionary_encode()
    codes, numbers = ids.indices.to_numpy(), rows["attempt"].to_numpy()
    order = np.lexsort((numbers, codes))
    changes = np.flatnonzero((np.diff(codes[order]) != 0) | (np.diff(numbers[order]) != 0)) + 1
    for at in np.split(order, changes):
        yield (ids.dictionary[codes[at[0]]].as_py(), int(numbers[at[0]])), pa.array(at)


def check_commits(report: Report) -> None:
    """Add the ended attempts whose own rows are lost; call it last, as it follows what else is to be removed."""
    trials, commits = report.tables["trials"].rows, with_keys(report.tables["commits"].rows, "commits")
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
    """Add the weights that are gone. `names` are the stored files of each trial."""
    rows = report.tables["trials"].rows.select(["trial_id", "attempt", "row_counts", "row_digests"]).to_pylist()
    newest = {row["trial_id"]: (n, row) for n, row in sorted(enumerate(rows), key=lambda one: one[1]["attempt"] or 0)}
    for trial_id, (n, row) in newest.items():
        wanted = of_columns(row).get(WEIGHTS, NOTHING)
        if wanted.rows and not any(wanted.digest in name for name in names.get(trial_id, ())):
            wrong = f"the weights of attempt {row['attempt']} are not there"
            report.lose(trial_id, n, WEIGHTS, wrong, "`export model` trains it again", NOTHING)


def _pairs(rows: pa.Table) -> Iterator[Any]:
    return zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True)
