"""What a tracker receives of a trial, from its rows in the store, and the interface that every tracker implements."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from orchestrator.analysis.cells import flatten
from orchestrator.config.yaml_document import shorten
from orchestrator.execution.failures import last_line
from orchestrator.storage.address import scrub
from trials.escaping import escape_line
from trials.record import spent_s
from trials.spec import TrialSpec

Row = Mapping[str, Any]  # a row of one of the store's tables

_LONGEST = 470  # characters of a parameter or tag: the least that a tracker's server accepts, less an ellipsis
_NO_METRICS = {"trial_id", "attempt", "step", "train_size", "seed", "seed_key", "freeze_depth", "freeze_embeddings"}


class Measured(NamedTuple):
    """Metrics by name, at an optimiser step and a Unix time."""

    step: int
    time: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """A trial's newest attempt, as far as it has come.

    Attributes:
        settings: By dotted name; no paths.
        tags: What identifies it, and of what it is a run.
        began: Unix time.
        evaluations: By step.
        summary: Of the whole trial, at its last evaluation; None while it runs.
        end_tags: How it ended, and where; empty while it runs.
        is_fine: Whether it completed or was pruned.
    """

    trial_id: str
    name: str
    settings: Mapping[str, str | int | float | bool]
    tags: Mapping[str, str]
    began: float
    evaluations: Sequence[Measured]
    summary: Measured | None
    end_tags: Mapping[str, str]
    is_fine: bool


class Tracker(Protocol):
    """A place for runs. Several are open at a time; any exception says that it cannot be reached."""

    def begin(self, run: TrackedRun) -> None:
        """Begin a trial's run; an earlier one, of this or another attempt, is replaced."""
        ...

    def add(self, run: TrackedRun, evaluations: Sequence[Measured]) -> None:
        """Add evaluations to an open run."""
        ...

    def end(self, run: TrackedRun, summary: Measured) -> None:
        """Add the summary and close the run."""
        ...

    def close(self) -> None:
        """Close the runs that have no end."""
        ...


def tracked_run(sweep: str, spec: TrialSpec, epochs: Sequence[Row], trial: Row | None) -> TrackedRun:
    """A run from the rows of `epochs` of one attempt, and its row of `trials` if it has ended; one of both is there."""
    first = epochs[0] if epochs else trial
    assert first is not None
    names = {"data.name": spec.data.name, "model.name": spec.model.name, "freeze.label": spec.freeze.label}
    freeze = {"freeze.strategy": spec.freeze.strategy, "freeze.depth": spec.freeze.depth}
    settings = flatten(spec.identity()) | names | freeze
    evaluations = [Measured(row["step"], row["time"].timestamp(), _numbers(row)) for row in epochs]
    return TrackedRun(
        trial_id=spec.trial_id,
        name=_text(spec.label),
        settings={
            key: value if isinstance(value, bool | int | float) else _text(value)
            for key, value in settings.items()
            if value is not None
        },
        tags=_tags(sweep=sweep, trial_id=spec.trial_id, attempt=first["attempt"], setting=spec.cell_id),
        began=first["time"].timestamp() - (spent_s(first) if epochs else 0.0),
        evaluations=evaluations,
        summary=None if trial is None else _summary(evaluations, trial),
        end_tags={} if trial is None else _end_tags(trial),
        is_fine=trial is not None and trial["state"] in ("completed", "pruned"),
    )


def _summary(evaluations: Sequence[Measured], trial: Row) -> Measured:
    metrics = {f"trial/{name}": number for name, number in _numbers(trial).items()}
    for split, column in (("best", "best_metrics"), ("test", "test_metrics")):
        metrics |= {f"{split}/{name}": float(number) for name, number in sorted(trial.get(column) or ())}
    step, time = evaluations[-1][:2] if evaluations else (0, trial["time"].timestamp())
    return Measured(step, time, metrics)


def _end_tags(trial: Row) -> dict[str, str]:
    error = scrub(last_line(trial["error"])) if trial["error"] else None
    return _tags(error=error, **{name: trial.get(name) for name in ("state", "device", "git_commit")})


def folder_name(text: str) -> str:
    """An untrusted name as a safe folder name: letters, digits and `._+-`, no leading dot, at most 80 characters."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).lstrip(".")[:80] or "_"


def _numbers(row: Row) -> dict[str, float]:
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    return {name: float(numbers[name]) for name in sorted(numbers.keys() - _NO_METRICS)}


def _text(value: object) -> str:
    return shorten(escape_line(value if isinstance(value, str) else json.dumps(value)), _LONGEST)


def _tags(**values: object) -> dict[str, str]:
    return {f"permafrost.{name}": _text(value) for name, value in values.items() if value is not None}
