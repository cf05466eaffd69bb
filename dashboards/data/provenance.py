"""Where the numbers of a page or report come from: the line below every page and at the start of LaTeX exports."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import NamedTuple

from dashboards.data.selection import Selection
from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from trials.escaping.untrusted_text import escaped

_DIGITS = 10


def versions_of(store: ResultStore) -> dict[str, str]:
    """Versions of Python and packages of the trials that ended; several where they differ."""
    found: dict[str, set[str]] = {}
    for versions in set(map(tuple, filter(None, store.trials(["versions"])["versions"].to_pylist()))):
        for name, version in versions:
            found.setdefault(name, set()).add(version)
    return {name: " and ".join(sorted(several)) for name, several in found.items()}


class Provenance(NamedTuple):
    """What is needed to reproduce the numbers.

    Attributes:
        config: First 12 hex digits of SHA-256 over the ids of the planned trials, which depend on every setting.
        commits, devices: Of the trials that ended, the most frequent first.
        data: Corpus and the first 12 digits of its fingerprint.
        trials, completed: Numbers of trials that are selected, and of those of them that have completed.
        planned, rows: Numbers of trials of the sweep, and of evaluations in the store.
        time: Of the newest row, UTC; empty if there is none.
    """

    sweep: str
    store: str
    config: str
    commits: tuple[str, ...]
    devices: tuple[str, ...]
    data: tuple[str, ...]
    trials: int
    completed: int
    planned: int
    rows: int
    time: str

    def line(self) -> str:
        """Everything in one line."""
        return " · ".join(
            (
                f"sweep {self.sweep} (config {self.config})",
                f"commit {', '.join(map(short_commit, self.commits[:3])) or 'none'}",
                f"data {', '.join(self.data[:3]) or 'none'}",
                f"device {', '.join(self.devices[:3]) or 'none'}",
                f"{self.trials:,} of {counted(self.planned, 'trial')} shown, {self.completed:,} completed",
                f"{self.rows:,} evaluations in the store",
                f"last row {self.time or 'none'}",
            )
        )


def short_commit(commit: str) -> str:
    """Ten digits of a commit, and its `+` where the code was changed."""
    return commit[:_DIGITS] + "+" * (commit.endswith("+") and len(commit) > _DIGITS)


def provenance(selection: Selection) -> Provenance:
    """The provenance of the selected trials."""
    trials, snapshot = selection.trials, selection.snapshot
    digest = hashlib.sha256("\n".join(sorted(trials["trial_id"])).encode()).hexdigest()[:12]
    specs = [snapshot.specs[cell] for cell in trials["cell"].unique()]
    data = dict.fromkeys(f"{spec.data.name} {spec.data.fingerprint[:12]}" for spec in specs)
    return Provenance(
        sweep=selection.query.sweep or "none",
        store=snapshot.address,
        config=digest,
        commits=_frequent(selection, "git_commit"),
        devices=_frequent(selection, "device"),
        data=tuple(data),
        trials=len(trials),
        completed=len(selection.completed),
        planned=0 if selection.sweep is None else len(selection.sweep.trials),
        rows=snapshot.n_rows,
        time=_utc(snapshot.last_row),
    )


def _frequent(selection: Selection, column: str) -> tuple[str, ...]:
    if column not in selection.trials:
        return ()
    return tuple(escaped(str(name)) for name in selection.trials[column].dropna().value_counts().index)


def _utc(stamp: float | None) -> str:
    return "" if stamp is None else datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
