"""What a tracker receives of a trial, from its rows in the store, and the interface that every tracker implements."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from orchestrator.analysis.cells import flatten
from orchestrator.config.yaml_document import shortened
from orchestrator.execution.failures import last_line
from orchestrator.storage.address import scrubbed
from trials.escaping import escaped
from trials.record import spent_s
from trials.spec import TrialSpec

Row = Mapping[str, Any]  # of a table of the store
Setting = str | int | float | bool

PREFIX = "permafrost."  # of all our tags
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
        name: For people: printable, but any characters else.
        settings: By dotted name; no paths.
        began: Unix time.
        evaluations: By step.
        summary: Of the whole trial, at its last evaluation; None while it runs.
        is_fine: Whether it completed or was pruned.
        end_tags: In addition to `tags`, once it has ended.
    """

    trial_id: str
    attempt: int
    name: str
    settings: Mapping[str, Setting]
    tags: Mapping[str, str]
    began: float
    evaluations: Sequence[Measured]
    summary: Measured | None = None
    is_fine: bool = False
    end_tags: Mapping[str, str] = field(default_factory=dict)


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

    def finish(self, documents: Mapping[str, str]) -> None:
        """Add documents on the whole sweep (file name -> text) and close everything, runs without an end too."""
        ...


def tracked_run(sweep: str, spec: TrialSpec, epochs: Sequence[Row], trial: Row | None) -> TrackedRun:
    """A run from the rows of `epochs` of one attempt, and its row of `trials` if it has ended; one of both is there."""
    first = epochs[0] if epochs else trial
    assert first is not None
    names = {"data.name": spec.data.name, "model.name": spec.model.name, "freeze.label": spec.freeze.label}
    freeze = {"freeze.strategy": spec.freeze.strategy, "freeze.depth": spec.freeze.depth}
    settings = flatten(spec.identity()) | names | freeze
    tags = {"sweep": sweep, "trial_id": spec.trial_id, "attempt": first["attempt"], "setting": spec.cell_id}
    evaluations = [Measured(row["step"], row["time"].timestamp(), _numbers(row)) for row in epochs]
    began = first["time"].timestamp() - (spent_s(first) if epochs else 0.0)
    run = TrackedRun(
        spec.trial_id,
        first["attempt"],
        _text(spec.label),
        {_text(key): _setting(value) for key, value in settings.items() if value is not None},
        _tags(tags),
        began,
        evaluations,
    )
    return run if trial is None else _ended(run, trial)


def _ended(run: TrackedRun, trial: Row) -> TrackedRun:
    metrics = {f"trial/{name}": number for name, number in _numbers(trial).items()}
    for split, column in (("best", "best_metrics"), ("test", "test_metrics")):
        metrics |= {f"{split}/{name}": float(number) for name, number in sorted(trial.get(column) or ())}
    error = scrubbed(last_line(trial["error"])) if trial["error"] else None
    tags = _tags({name: trial.get(name) for name in ("state", "device", "git_commit")} | {"error": error})
    step, time = run.evaluations[-1][:2] if run.evaluations else (0, trial["time"].timestamp())
    is_fine = trial["state"] in ("completed", "pruned")
    return replace(run, summary=Measured(step, time, metrics), is_fine=is_fine, end_tags=tags)


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
    return shortened(escaped(text), _LONGEST)


def _tags(values: Mapping[str, object]) -> dict[str, str]:
    return {PREFIX + name: _text(str(value)) for name, value in values.items() if value is not None}
