"""What a look through a store found, and what would have to be moved for it to be whole again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        place: Where inside the store: a file, or a trial.
        wrong: What is wrong there.
        means: What follows from it.
    """

    place: str
    wrong: str
    means: str

    def __str__(self) -> str:
        return f"{self.place}: {self.wrong}; {self.means}"


@dataclass(frozen=True)
class Counted:
    """What is in a store.

    Attributes:
        parts, rows, n_bytes: Of each table.
        states: Trials by the state that readers show; of those that are planned or have rows and have not ended
            `not ended`.
        checkpoints: Of trials that have `ended`, those that are `to go on`, and those of `unknown` trials.
        leases: Claims to run a sweep, by sweep.
        quarantined: Files that earlier repairs took out.
    """

    parts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    n_bytes: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    quarantined: int = 0


@dataclass(frozen=True)
class Report:
    """What a store is like.

    Attributes:
        store: Its address.
        findings: What is wrong with it.
        notes: What is worth knowing and harms nothing.
    """

    store: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    counted: Counted

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


@dataclass(frozen=True)
class BadFile:
    """A file to be taken out.

    Attributes:
        folder: The folders from the store to it.
    """

    folder: tuple[str, ...]
    name: str
    why: str

    @property
    def path(self) -> str:
        """From the store to it."""
        return "/".join((*self.folder, self.name))


class Diagnosis:
    """Collects findings, and what `repair` takes out for each.

    Attributes:
        newer: Files of a newer version; with any of them nothing may be repaired.
        files: Files to be taken out.
        rows: Of each table the numbers of rows to be taken out, and why.
        trials: Completed trials whose row is among them, and why.
        marker: Whether the mark has to be written anew.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.newer: list[str] = []
        self.files: list[BadFile] = []
        self.rows: dict[str, dict[int, str]] = {}
        self.trials: dict[str, str] = {}
        self.marker = False

    def find(self, place: str, wrong: str, means: str) -> None:
        """Something is wrong."""
        self.findings.append(Finding(place, wrong, means))

    def take_file(self, folder: tuple[str, ...], name: str, wrong: str, means: str) -> None:
        """A file is wrong and has to go."""
        self.files.append(BadFile(folder, name, wrong))
        self.find(self.files[-1].path, wrong, means)

    def take_rows(self, table: str, rows: Iterable[int], why: str) -> None:
        """Rows have to go."""
        self.rows.setdefault(table, {}).update(dict.fromkeys(rows, why))

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing to take out."""
        return not (self.files or any(self.rows.values()) or self.marker)

    def as_json(self) -> dict[str, Any]:
        """Why each file and row is taken out, for a person who looks for them."""
        files = {file.path: file.why for file in self.files}
        rows = {table: sorted(set(found.values())) for table, found in self.rows.items() if found}
        return {"files": files, "rows": rows, "trials": self.trials}
