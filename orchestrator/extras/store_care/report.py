"""What a check of a store reports, and what `repair` has to remove for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestrator.store.contents import TableContents
from orchestrator.store.parts import Recorded
from orchestrator.store.temporary_files import StoredFile

Pair = tuple[str, int]  # trial_id, attempt


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

    def lose(self, trial_id: str, row: int, what: str, wrong: str, means: str, left: Recorded) -> None:
        """Add a finding about an ended trial that does not run again; its row will record what is left."""
        self.find(f"trial {trial_id}", wrong, means)
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
