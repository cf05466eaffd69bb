"""A log that programs read: a JSON object a line for everything that happens to a trial.

    {"time": "2026-11-21T22:15:02.125Z", "level": "info", "event": "evaluated", "sweep": "starter",
     "trial_id": "...", "attempt": 1, "label": "ewt none seed 0", "epoch": 2.0, "step": 64, "score": 0.91}

Events: launched, started, evaluated, paused, retried (warning), ended (error where the trial failed), and at last one
of done, failed (error), interrupted (warning). What a library said is struck through `scrubbed` first: no secrets. A
score that is no number is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.config.validation_messages import shortened
from orchestrator.execution.events import last_line
from orchestrator.monitoring.progress import Ending
from orchestrator.storage.address import scrubbed
from orchestrator.store.schema import State
from trials.record import EpochRecord
from trials.spec import TrialSpec

LONGEST_ERROR = 2000  # characters
_FINE = (State.COMPLETED, State.PRUNED)
_LEVELS = {"done": "info", "failed": "error", "interrupted": "warning"}


class JsonLog:
    """A `Listener` that writes. A file that cannot be written any more is told once and left: the sweep goes on."""

    def __init__(
        self,
        path: Path,
        sweep: str,
        say: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """The file is opened anew for every line, so that it may be moved away meanwhile (logrotate)."""
        self._path, self._sweep, self._say, self._now = path.absolute(), sweep, say, now
        self._attempts: dict[str, int] = {}
        self._broken = False

    def launched(self, *, planned: int, skipped: int, store: str) -> None:
        """The launch begins."""
        self._write("info", "launched", planned=planned, skipped=skipped, store=scrubbed(store))

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Write it."""
        self._attempts[spec.trial_id] = attempt
        self._tell("info", "started", spec)

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Write the epoch and its score."""
        score = record.score if math.isfinite(record.score) else None
        self._tell("info", "evaluated", spec, epoch=record.epoch, step=record.step, score=score)

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Write why there will be another attempt."""
        is_paused = state is State.PRUNED
        level, event = ("info", "paused") if is_paused else ("warning", "retried")
        self._tell(level, event, spec, state=state.value, error=_told(error))

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Write the state it ended in."""
        self._tell("info" if state in _FINE else "error", "ended", spec, state=state.value, error=_told(error))
        self._attempts.pop(spec.trial_id, None)

    def tick(self) -> None:
        """Nothing."""

    def over(self, ending: Ending) -> None:
        """Write what became of it all."""
        states = {state.value: n for state, n in ending.states.items()}
        self._write(
            _LEVELS[ending.outcome],
            ending.outcome,
            trials=states,
            left=ending.left,
            wall_s=round(ending.wall_s, 3),
            error=_told(ending.reason),
        )

    def _tell(self, level: str, event: str, spec: TrialSpec, **more: Any) -> None:
        attempt = self._attempts.get(spec.trial_id)
        self._write(level, event, trial_id=spec.trial_id, attempt=attempt, label=spec.label, **more)

    def _write(self, level: str, event: str, **more: Any) -> None:
        if self._broken:
            return
        time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"time": time, "level": level, "event": event, "sweep": self._sweep, **more}
        line = json.dumps({key: value for key, value in entry.items() if value is not None or key == "score"})
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            self._broken = True
            self._say(f"{self._path}: the log ends here: {error.strerror or type(error).__name__}. The sweep goes on.")


def _told(error: str | None) -> str | None:
    return shortened(scrubbed(last_line(error)), LONGEST_ERROR) if error else None
