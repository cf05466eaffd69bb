"""Where the numbers of a page or report come from: the line below every page and at the start of LaTeX exports."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import NamedTuple

from dashboards.data.selection import Selection
from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from trials.escaping import escaped

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
        line: Everything in one line.
        corpora: Their names, for a caption.
        config: First 12 hex digits of SHA-256 over the ids of the selected trials, which depend on every setting.
        commits, devices: Of the trials that ended, the most frequent first.
    """

    line: str
    corpora: str
    config: str
    commits: tuple[str, ...]
    devices: tuple[str, ...]


_MOST = 12  # of one kind, in a line


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more if names else "none"


def short_commit(commit: str) -> str:
    """Ten digits of a commit, and its `+` where the code was changed."""
    return commit[:_DIGITS] + "+" * (commit.endswith("+") and len(commit) > _DIGITS)


def provenance(selection: Selection) -> Provenance:
    """The provenance of the selected trials."""
    trials, snapshot = selection.trials, selection.snapshot
    config = hashlib.sha256("\n".join(sorted(trials["trial_id"])).encode()).hexdigest()[:12]
    specs = [snapshot.specs[cell] for cell in trials["cell"].unique()]
    data = tuple(dict.fromkeys(f"{spec.data.name} {spec.data.fingerprint[:12]}" for spec in specs))
    setups = tuple(escaped(str(each)) for each in trials["setup"].unique() if each) if "setup" in trials else ()
    commits, devices = _frequent(selection, "git_commit"), _frequent(selection, "device")
    planned = 0 if selection.sweep is None else len(selection.sweep.trials)
    query = selection.asked.but(theme="auto", pause=False).search()
    words = (
        f"sweep {selection.query.sweep or 'none'} (config {config})",
        ", ".join([selection.value_name, *([_some(setups)] if setups else [])]),
        f"commit {', '.join(map(short_commit, commits[:3])) or 'none'}",
        f"data {_some(data)}",
        f"device {_some(devices)}",
        f"{len(trials):,} of {counted(planned, 'trial')} shown, {len(selection.completed):,} completed",
        f"{snapshot.n_rows:,} evaluations in the store",
        f"last row {_utc(snapshot.last_row) or 'none'}",
        *([f"address {escaped(query)}"] if query else []),
    )
    corpora = _some(tuple(dict.fromkeys(each.rpartition(" ")[0] for each in data)))
    return Provenance(" · ".join(words), corpora, config, commits, devices)


def _frequent(selection: Selection, column: str) -> tuple[str, ...]:
    if column not in selection.trials:
        return ()
    return tuple(escaped(str(name)) for name in selection.trials[column].dropna().value_counts().index)


def _utc(stamp: float | None) -> str:
    return "" if stamp is None else datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
