"""A machine-readable log: one JSON object per line for every event of a trial.

    {"time": "2026-11-21T22:15:02.125Z", "level": "info", "event": "evaluated", "sweep": "starter",
     "trial_id": "...", "attempt": 1, "label": "ewt none seed 0", "epoch": 2.0, "step": 64, "score": 0.91}

Events: launched, started, evaluated, paused, retried (warning), ended (error if the trial failed), and finally one of
done, failed (error), interrupted (warning). Messages of libraries are passed through `scrubbed`, which removes
secrets. A score that is not finite is null.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.config.yaml_document import shortened
from orchestrator.execution.events import Listener, last_line
from orchestrator.monitoring.progress import Ending
from orchestrator.storage.address import scrubbed
from trials.cache.set_up_work import SetUpWork
from trials.errors import ConfigError
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State

LONGEST_ERROR = 2000  # characters
_KEYS = {"time", "level", "event", "sweep"}  # of every line
_LONGEST_START = 100_000  # bytes of the first line
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_FINE = (State.COMPLETED, State.PRUNED)
_LEVELS = {"done": "info", "failed": "error", "interrupted": "warning"}


class JsonLog(Listener):
    """A `Listener` that writes a log. If the file cannot be written, that is reported once and the sweep continues."""

    def __init__(
        self,
        path: Path,
        sweep: str,
        say: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """The file is opened for every line, so that it may be moved away (logrotate).

        Raises:
            ConfigError: there is a file at this path that is not such a log.
        """
        _refuse_foreign(path)
        self._path, self._sweep, self._say, self._now = path.absolute(), sweep, say, now
        self._attempts: dict[str, int] = {}
        self._broken = False

    def launched(self, *, planned: int, skipped: int, store: str) -> None:
        """Log the start of the launch."""
        self._write("info", "launched", planned=planned, skipped=skipped, store=scrubbed(store))

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Log the start of an attempt."""
        self._attempts[spec.trial_id] = attempt
        self._log_trial("info", "started", spec)

    def preparing(self, spec: TrialSpec, work: SetUpWork) -> None:
        """Log how far its set-up is."""
        self._log_trial("info", "preparing", spec, work=work.what, done=work.done, total=work.total, unit=work.unit)

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Log the epoch and its score."""
        score = record.score if math.isfinite(record.score) else None
        self._log_trial("info", "evaluated", spec, epoch=record.epoch, step=record.step, score=score)

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Log why another attempt follows."""
        is_paused = state is State.PRUNED
        level, event = ("info", "paused") if is_paused else ("warning", "retried")
        self._log_trial(level, event, spec, state=state.value, error=_error_text(error))

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Log the final state."""
        self._log_trial(
            "info" if state in _FINE else "error", "ended", spec, state=state.value, error=_error_text(error)
        )
        self._attempts.pop(spec.trial_id, None)

    def over(self, ending: Ending) -> None:
        """Log how the launch ended."""
        states = {state.value: n for state, n in ending.states.items()}
        self._write(
            _LEVELS[ending.outcome],
            ending.outcome,
            trials=states,
            left=ending.left,
            wall_s=round(ending.wall_s, 3),
            error=_error_text(ending.reason),
        )

    def _log_trial(self, level: str, event: str, spec: TrialSpec, **more: Any) -> None:
        attempt = self._attempts.get(spec.trial_id)
        self._write(level, event, trial_id=spec.trial_id, attempt=attempt, label=spec.label, **more)

    def _write(self, level: str, event: str, **more: Any) -> None:
        if self._broken:
            return
        time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"time": time, "level": level, "event": event, "sweep": self._sweep, **more}
        line = json.dumps({key: value for key, value in entry.items() if value is not None or key == "score"})
        try:
            with os.fdopen(os.open(self._path, _APPEND, 0o644), "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            self._broken = True
            self._say(
                f"{self._path}: the log ends here: {error.strerror or type(error).__name__}. The sweep continues."
            )


def _refuse_foreign(path: Path) -> None:
    """A sweep from elsewhere may name any file; nothing is appended to one that is not such a log."""
    if not os.path.lexists(path):
        return
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            is_regular, start = stat.S_ISREG(os.fstat(file.fileno()).st_mode), file.readline(_LONGEST_START)
        first = json.loads(start) if start else dict.fromkeys(_KEYS)
        is_log = is_regular and isinstance(first, dict) and first.keys() >= _KEYS
    except (OSError, ValueError, RecursionError):
        is_log = False
    if not is_log:
        raise ConfigError(f"watch.log: {path} exists and is not a log of a sweep. Name another file.")


def _error_text(error: str | None) -> str | None:
    return shortened(scrubbed(last_line(error)), LONGEST_ERROR) if error else None
