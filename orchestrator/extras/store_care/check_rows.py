"""Check the rows of a store against each other, and against what the rows of ended trials record of them.

What belongs to an ended trial follows from its own row: how many rows each other table has of it, and their digest.
Rows of the oldest versions record nothing; of them only contradictions can be found.

Without predictions or weights a trial is still complete. Such a loss is a finding of its own: `repair`
removes what is left of them and records that there are none, and the trial does not run again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.store.contents import COMPUTED, WEIGHTS, TableContents, checked_spec, latest, repeated
from orchestrator.store.parts import NOTHING, RECORDED, Recorded, agrees, of_columns, recorded
from orchestrator.store.schema import KEYS, UNOWNED, State
from orchestrator.store.temporary_files import StoredFile

Pair = tuple[str, int]  # trial_id, attempt
Row = dict[str, Any]
OPTIONAL = ("predictions", WEIGHTS)  # what a completed trial may lose without running again: no interval rests on it
_AGAIN = "it runs again at the next launch, once `repair` has removed its row"


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


class Counted(NamedTuple):
    """What a store contains.

    `parts`, `rows` and `n_bytes` are by table; `states` are trials by the state that readers show, or `not ended`;
    `checkpoints` are by that of their trial (`ended`, `to go on`, `unknown`); `weights` are trials; `drivers`, running
    ones by sweep; `quarantined`, files.
    """

    parts: dict[str, int]
    rows: dict[str, int]
    n_bytes: dict[str, int]
    states: dict[str, int]
    checkpoints: dict[str, int]
    weights: int
    drivers: dict[str, int]
    quarantined: int


@dataclass
class Report:
    """What is wrong with a store, and what `repair` does about it.

    Attributes:
        notes: Remarks that need no repair.
        newer: Files that a newer version wrote; while there are any, nothing may be repaired.
        files: Those to move out.
        rows: By table, the numbers of the rows to remove, each with the reason.
        trials: Completed trials whose row is among them, each with the reason.
        amended: By the number of a row of `trials`, what it has to record of other tables from now on.
        losses: Trials that stay complete without something, each with what was lost.
    """

    store: str
    tables: Mapping[str, TableContents]
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counted: Counted = field(init=False)
    newer: list[str] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)
    rows: dict[str, dict[int, str]] = field(default_factory=dict)
    trials: dict[str, str] = field(default_factory=dict)
    amended: dict[int, dict[str, Recorded]] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def needs_repair(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.files or any(self.rows.values()) or self.amended)

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

    def lose(self, trial_id: str, row: int, what: str, wrong: str, means: str, left: Recorded) -> None:
        """Add a finding about an ended trial that does not run again; its row will record what is left."""
        self.find(f"trial {trial_id}", wrong, means)
        self.amended.setdefault(row, {})[what] = left
        self.losses[trial_id] = "; ".join(filter(None, [self.losses.get(trial_id), wrong]))

    def as_json(self) -> dict[str, Any]:
        """For `permafrost store verify --json`."""
        findings = [asdict(finding) for finding in self.findings]
        return {"store": self.store, "findings": findings, "notes": self.notes,
                "counted": self.counted._asdict(), "ok": self.ok}  # fmt: skip

    def removals_as_json(self) -> dict[str, Any]:
        """The reason for each removal, for the quarantine's `why.json`."""
        rows = {table: sorted(set(reasons.values())) for table, reasons in self.rows.items() if reasons}
        files = {file.path: file.why for file in self.files}
        return {"files": files, "rows": rows, "trials": self.trials, "losses": self.losses}


def check_rows(report: Report) -> None:
    """Add what the rows of `report.tables` show."""
    for name in KEYS:
        _check_keys(name, report)
    _check_ended(report)
    _check_records(report)
    for name in ("tags", "predictions"):
        _check_owners(name, report)
    _check_commits(report)  # last, as it follows what else is to be removed


def _check_keys(name: str, report: Report) -> None:
    """Rows without a key, and different rows with the same."""
    table = report.tables[name]
    for key in KEYS[name]:
        if table.rows[key].null_count:
            numbers = [n for n, value in enumerate(table.rows[key].to_pylist()) if value is None]
            where = f"{name}/{table.part_of(numbers[0])}"
            report.find(where, f"{len(numbers)} rows have no {key}", "it is unknown what they belong to")
            report.remove_rows(name, numbers, f"no {key}")
    n_same, conflicts = 0, dict[Pair, list[list[Row]]]()
    for at in repeated(table.rows, KEYS[name]):
        group = table.rows.take(at).to_pylist()
        compared = COMPUTED[name] if name in UNOWNED else ()  # two people may have measured the same
        if len({repr([row[column] for column in compared or row]) for row in group}) == 1:
            n_same += 1
            continue
        report.remove_rows(name, at[:-1], "a later row has the same key")
        if name in UNOWNED:
            where = f"{name.removesuffix('s')} {group[0][KEYS[name][0]]}"
            report.find(where, "two different rows have its id", "readers use the later one")
        else:
            conflicts.setdefault((group[0]["trial_id"], group[0]["attempt"]), []).append(group)
    if n_same:
        report.notes.append(f"{name}: {n_same} rows are in two parts (left by a killed compaction); readers use one.")
    for pair, groups in conflicts.items():
        _check_conflict(name, pair, groups, report)


def _check_conflict(name: str, pair: Pair, groups: Sequence[Sequence[Row]], report: Report) -> None:
    trial_id, attempt = pair
    computed = any(len({repr([row[c] for c in COMPUTED[name]]) for row in group}) > 1 for group in groups)
    what = "computed numbers" if computed else "times or machines"
    means = "readers use the later one"
    if computed and _reject(pair, f"attempt {attempt} has two different rows in {name}", report):
        means = f"it is unknown which is right; {_AGAIN}"
    wrong = f"{len(groups)} rows of attempt {attempt} are duplicated in {name} with different {what}"
    report.find(f"trial {trial_id}", wrong, means)


def _reject(pair: Pair, why: str, report: Report) -> bool:
    """Have an attempt's row of `trials` removed if it says completed, so that it runs again; whether it does."""
    trials = report.tables["trials"].rows
    rows = zip(_pairs(trials), trials["state"].to_pylist(), strict=True)
    numbers = [n for n, row in enumerate(rows) if row == (pair, State.COMPLETED)]
    report.remove_rows("trials", numbers, why)
    if numbers:
        report.trials[pair[0]] = why
    return bool(numbers)


def _check_ended(report: Report) -> None:
    """The states and specs of ended trials."""
    trials = report.tables["trials"]
    for n, row in enumerate(trials.rows.select(["trial_id", "state", "spec"]).to_pylist()):
        if row["state"] not in set(State):
            wrong = f"{row['state']!r} is not a state"
            report.find(f"trials/{trials.part_of(n)}", wrong, "nothing can be read; its trial runs again")
            report.remove_rows("trials", [n], "not a state")
        if isinstance(spec := checked_spec(row["spec"], row["trial_id"]), str):
            means = "another version may have written it, so `repair` leaves it"
            report.find(f"trial {row['trial_id']}", spec, means)


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
    wrong = dict[Pair, dict[str, tuple[str, Recorded]]]()
    for table in RECORDED:
        there = _recorded_rows(table, report.tables[table].rows, ended.keys())
        for pair, tables in expected.items():
            if table in tables and not agrees(tables[table], real := there.get(pair, NOTHING)):
                what = f"{real.rows:,} of {tables[table].rows:,} rows of {table} are there"
                if real.rows == tables[table].rows:
                    what = f"the rows of {table} are not those that were committed"
                wrong.setdefault(pair, {})[table] = (what, real)
    for pair, differences in wrong.items():
        required = "; ".join(what for table, (what, _) in differences.items() if table not in OPTIONAL)
        if required and _reject(pair, required, report):
            report.find(f"trial {pair[0]}", f"attempt {pair[1]} is completed, but {required}", _AGAIN)
            continue
        number, row = ended[pair]
        for table, (what, left) in differences.items():
            means = f"`repair` records it, and the trial stays {row['state']}"
            if table in OPTIONAL:
                means, left = f"{means} without {table}", NOTHING
                rows = [n for n, owner in enumerate(_pairs(report.tables[table].rows)) if owner == pair]
                report.remove_rows(table, rows, what)
            report.lose(pair[0], number, table, f"attempt {pair[1]}: {what}", means, left)


def _with_keys(rows: pa.Table, table: str) -> pa.Table:
    """The rows of a table whose keys have values; the others are findings."""
    return rows.filter(reduce(pc.and_, [pc.is_valid(rows[key]) for key in KEYS[table]]))


def _recorded_rows(table: str, rows: pa.Table, wanted: Collection[Pair]) -> dict[Pair, Recorded]:
    """What the rows of each attempt would be recorded as."""
    rows = latest(_with_keys(rows, table), KEYS[table])
    if not len(rows):
        return {}
    ids = rows["trial_id"].combine_chunks().dictionary_encode()
    codes, numbers = ids.indices.to_numpy(), rows["attempt"].to_numpy()
    order = np.lexsort((numbers, codes))
    changes = np.flatnonzero((np.diff(codes[order]) != 0) | (np.diff(numbers[order]) != 0)) + 1
    attempts = {(ids.dictionary[codes[at[0]]].as_py(), int(numbers[at[0]])): at for at in np.split(order, changes)}
    return {pair: recorded(table, rows.take(pa.array(at))) for pair, at in attempts.items() if pair in wanted}


def _check_owners(name: str, report: Report) -> None:
    """Rows of attempts that have no evaluation."""
    rows, evaluated = report.tables[name].rows, set(_pairs(report.tables["epochs"].rows))
    orphans = dict[Pair, list[int]]()
    for n, pair in enumerate(_pairs(rows)):
        if pair not in evaluated:
            orphans.setdefault(pair, []).append(n)
    for (trial_id, attempt), numbers in sorted(orphans.items(), key=str):
        wrong = f"attempt {attempt} has {len(numbers)} rows in {name} and no evaluation"
        report.find(f"trial {trial_id}", wrong, "they would be mixed with those of another attempt of this number")
        report.remove_rows(name, numbers, "their attempt has no evaluation")


def _check_commits(report: Report) -> None:
    """The ended attempts whose own rows are lost."""
    trials, commits = report.tables["trials"].rows, _with_keys(report.tables["commits"].rows, "commits")
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
    newest = {
        row["trial_id"]: (n, row)
        for n, row in sorted(enumerate(rows), key=lambda numbered: numbered[1]["attempt"] or 0)
    }
    for trial_id, (n, row) in newest.items():
        wanted = of_columns(row).get(WEIGHTS, NOTHING)
        if wanted.rows and not any(wanted.digest in name for name in names.get(trial_id, ())):
            wrong = f"the weights of attempt {row['attempt']} are not there"
            report.lose(trial_id, n, WEIGHTS, wrong, "`export model` trains it again", NOTHING)


def _pairs(rows: pa.Table) -> Iterator[Pair]:
    return zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True)
