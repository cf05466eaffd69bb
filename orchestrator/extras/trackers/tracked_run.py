"""What a tracker receives of a trial, and the interface that every tracker implements.

The values follow from rows of the store's tables, which a running sweep has as well (`execution.trial_rows`), so a
sweep that is tracked live and one that is exported from its store give the same runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.analysis.cells import flatten
from orchestrator.config.yaml_document import shortened
from orchestrator.execution.events import last_line
from orchestrator.storage.address import scrubbed
from trials.escaping import escaped
from trials.record import spent_s
from trials.spec import TrialSpec

Row = Mapping[str, Any]
"""A row of a table of the store."""
Setting = str | int | float | bool

PREFIX = "permafrost."  # of all our tags
LONGEST = 500  # characters of a parameter or tag, the least that a tracker's server accepts
_NO_METRICS = {"trial_id", "attempt", "step", "train_size", "seed", "seed_key", "freeze_depth", "freeze_embeddings"}


@dataclass(frozen=True)
class TrackedTrial:
    """A trial as its run begins.

    Attributes:
        attempt: A run shows one attempt; a newer one replaces it.
        name: For people: printable, but any characters else.
        settings: By dotted name; no paths.
        began: Unix time.
    """

    sweep: str
    trial_id: str
    attempt: int
    name: str
    settings: Mapping[str, Setting]
    tags: Mapping[str, str]
    began: float


@dataclass(frozen=True)
class Measured:
    """Metrics by name, at an optimiser step and a Unix time."""

    step: int
    time: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TrialEnd:
    """How an attempt ended.

    Attributes:
        is_fine: Whether it completed or was pruned.
        summary: Of the whole trial, with the step of its last evaluation.
        tags: In addition to those of its beginning.
    """

    is_fine: bool
    summary: Measured
    tags: Mapping[str, str]


class Tracker(Protocol):
    """A place for runs. Any exception says that it cannot be reached; it can then be given up and opened anew.

    One thread calls it; several trials are open at a time.
    """

    def begin(self, trial: TrackedTrial) -> None:
        """Begin the run of a trial; an earlier one, of this or another attempt, is replaced."""
        ...

    def evaluated(self, trial: TrackedTrial, evaluation: Measured) -> None:
        """Add the metrics of an evaluation."""
        ...

    def ended(self, trial: TrackedTrial, end: TrialEnd) -> None:
        """Add the summary and close the run."""
        ...

    def finish(self, documents: Mapping[str, str]) -> None:
        """Add documents on the whole sweep (file name -> text) and close everything, runs without an end too."""
        ...


class RunWriter:
    """Passes rows of the store's tables to a tracker; those of one trial come in their order."""

    def __init__(self, tracker: Tracker, sweep: str) -> None:
        self._tracker, self._sweep = tracker, sweep
        self._runs: dict[str, tuple[TrackedTrial, Measured | None]] = {}  # with its last evaluation

    @property
    def attempts(self) -> set[tuple[str, int]]:
        """The trials that have begun and not ended, with their attempts."""
        return {(trial_id, trial.attempt) for trial_id, (trial, _) in self._runs.items()}

    def evaluated(self, spec: TrialSpec, row: Row) -> None:
        """A row of `epochs`; the first one of an attempt begins its run."""
        trial, evaluation = self._run_of(spec, row, began=row["time"].timestamp() - spent_s(row)), measured(row)
        self._tracker.evaluated(trial, evaluation)
        self._runs[spec.trial_id] = trial, evaluation

    def ended(self, spec: TrialSpec, row: Row) -> None:
        """A row of `trials`."""
        trial = self._run_of(spec, row, began=row["time"].timestamp())
        self._tracker.ended(trial, end_of(row, self._runs.pop(spec.trial_id)[1]))

    def _run_of(self, spec: TrialSpec, row: Row, began: float) -> TrackedTrial:
        run = self._runs.get(spec.trial_id)
        if run is None or run[0].attempt != row["attempt"]:
            run = tracked_trial(self._sweep, spec, row["attempt"], began), None
            self._tracker.begin(run[0])
            self._runs[spec.trial_id] = run
        return run[0]


def tracked_trial(sweep: str, spec: TrialSpec, attempt: int, began: float) -> TrackedTrial:
    """A trial as its run begins."""
    tags = {"sweep": sweep, "trial_id": spec.trial_id, "attempt": str(attempt), "setting": spec.cell_id}
    return TrackedTrial(sweep, spec.trial_id, attempt, _text(spec.label), settings_of(spec), _prefixed(tags), began)


def settings_of(spec: TrialSpec) -> dict[str, Setting]:
    """All that decides a trial's numbers, and the names of its parts, by dotted name."""
    names = {
        "data.name": spec.data.name,
        "model.name": spec.model.name,
        "freeze.label": spec.freeze.label,
        "freeze.strategy": spec.freeze.strategy,
        "freeze.depth": spec.freeze.depth,
    }
    flat = flatten(spec.identity()) | names
    return {_text(key): _setting(value) for key, value in flat.items() if value is not None}


def measured(row: Row) -> Measured:
    """The metrics of a row of `epochs`."""
    return Measured(row["step"], row["time"].timestamp(), _numbers(row))


def end_of(row: Row, last: Measured | None) -> TrialEnd:
    """The end of an attempt from its row of `trials`, and its last evaluation, if it has one."""
    metrics = {f"trial/{name}": number for name, number in _numbers(row).items()}
    for split, column in (("best", "best_metrics"), ("test", "test_metrics")):
        metrics |= {f"{split}/{name}": float(number) for name, number in sorted(row.get(column) or ())}
    tags = {name: row.get(name) for name in ("state", "device", "git_commit")}
    tags["error"] = scrubbed(last_line(row["error"])) if row["error"] else None
    step, time = (last.step, last.time) if last else (0, row["time"].timestamp())
    text_tags = _prefixed({name: _text(text) for name, text in tags.items() if text is not None})
    return TrialEnd(row["state"] in ("completed", "pruned"), Measured(step, time, metrics), text_tags)


def safe_name(text: str) -> str:
    """A name from outside as that of one folder: letters, digits and `._+-`, no leading dot, at most 80 characters."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).lstrip(".")[:80] or "_"


def _numbers(row: Row) -> dict[str, float]:
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    return {name: float(numbers[name]) for name in sorted(numbers.keys() - _NO_METRICS)}


def _setting(value: object) -> Setting:
    if isinstance(value, bool | int | float):
        return value
    return _text(value if isinstance(value, str) else json.dumps(value))


def _text(text: str) -> str:
    return shortened(escaped(text), LONGEST - 30)


def _prefixed(tags: Mapping[str, str]) -> dict[str, str]:
    return {PREFIX + name: text for name, text in tags.items()}
