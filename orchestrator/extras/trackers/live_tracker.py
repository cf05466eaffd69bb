"""A tracker of a running sweep: a listener that queues rows, and a thread that sends them.

The sweep never waits for a tracker. What cannot be queued or sent is sent at the end from the store, where every row
is; and if that fails too, the command is shown that sends it later.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from orchestrator.config.console import sibling_command
from orchestrator.config.quantities import counted
from orchestrator.config.yaml_document import shortened
from orchestrator.execution.trial_rows import epoch_row, trial_row
from orchestrator.extras.trackers.stored_runs import documents_of, replay
from orchestrator.extras.trackers.tracked_run import RunWriter, Tracker
from orchestrator.monitoring.progress import Ending
from orchestrator.session.monitors import Monitor, Watched
from orchestrator.storage.address import scrubbed
from orchestrator.store import ResultStore
from orchestrator.sweeps.watch_spec import MlflowSpec, WandbSpec, WatchSpec
from trials.errors import PermafrostError, one_line
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State


@dataclass(frozen=True)
class TrackerTarget:
    """A tracker that can be opened, again after it failed.

    Attributes:
        name: Its key under `watch`.
        options: Those of `permafrost export NAME` that lead to it.
        open: Imports its package, which takes seconds, and connects; its argument is the name of the sweep.
    """

    name: str
    options: tuple[str, ...]
    open: Callable[[str], Tracker]


# Of each tracker its class, and variables that are read on import or at every request; a person may set them otherwise.
_TRACKERS: dict[str, tuple[str, dict[str, str]]] = {
    "mlflow": (
        "orchestrator.extras.trackers.mlflow_tracker:MlflowTracker",
        {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        },
    ),
    "tensorboard": ("orchestrator.extras.trackers.tensorboard_tracker:TensorboardTracker", {}),
    "wandb": ("orchestrator.extras.trackers.wandb_tracker:WandbTracker", {"WANDB_ERROR_REPORTING": "false"}),
}


def target_of(name: str, spec: MlflowSpec | WandbSpec | Path) -> TrackerTarget:
    """A tracking server of MLflow, a folder for TensorBoard, or a project of Weights & Biases."""
    path, environment = _TRACKERS[name]

    def opened(sweep: str) -> Tracker:
        for variable, value in environment.items():
            os.environ.setdefault(variable, value)
        tracker: Tracker = resolve_name(path)(spec, sweep)
        return tracker

    given = {"dir": spec} if isinstance(spec, Path) else spec.model_dump()
    return TrackerTarget(name, tuple(word for key, value in given.items() for word in (f"--{key}", str(value))), opened)


def targets_of(watch: WatchSpec) -> list[TrackerTarget]:
    """The trackers that a sweep names; their packages are installed (`watch_spec.check_installed`)."""
    named = {name: getattr(watch, name) for name in watch.trackers}
    return [target_of(name, Path(spec) if isinstance(spec, str) else spec) for name, spec in named.items()]


def monitors(launch: Watched) -> list[LiveTracker]:
    """A tracker for each that the sweep names."""
    return [LiveTracker(target, launch.sweep, launch.results, launch.say) for target in targets_of(launch.settings)]


MOST_QUEUED = 2_000  # rows, some kilobytes each
RETRY_S = 60.0  # after a failure; nothing is sent until then
WAIT_S = 30.0  # for what is left when the launch ends


@dataclass(frozen=True)
class _Row:
    """Of `epochs`, or of `trials` with `is_end`."""

    spec: TrialSpec
    values: dict[str, Any]
    is_end: bool

    @property
    def key(self) -> tuple[str, int]:
        return self.spec.trial_id, self.values["attempt"]


class LiveTracker(Monitor):
    """A monitor that sends the runs of a launch to one tracker. `over` ends it."""

    def __init__(
        self,
        target: TrackerTarget,
        sweep: str,
        results: ResultStore,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._sweep, self._results, self._say, self._clock = target, sweep, results, say, clock
        self._started: dict[str, TrialSpec] = {}
        self._attempts: dict[str, int] = {}
        self._records: dict[str, list[EpochRecord]] = {}
        self._queue: queue.SimpleQueue[_Row | Callable[[], Sequence[TrialSpec]]] = (
            queue.SimpleQueue()
        )  # bounded by `_put`
        # Of the thread; the other one only reads them.
        self._tracker: Tracker | None = None
        self._writer: RunWriter | None = None
        self._gaps: set[tuple[str, int]] = set()  # attempts of which a row was not sent
        self._sent: dict[str, int] = {}  # trial -> attempt
        self._error, self._again_at = "", float("-inf")
        self._is_complete = False
        self._thread = threading.Thread(target=self._work, name=f"tracker {target.name}", daemon=True)
        self._thread.start()

    def launched(self, *, skipped: int) -> None:
        """Say what is not sent: the trials that the store has already, which an earlier launch may have sent."""
        if skipped:
            what = f"{counted(skipped, 'trial')} that the store has already"
            self._say(f"watch.{self._target.name}: {what} will not be sent. Send all with:\n  {self._export}")

    @property
    def _export(self) -> str:
        arguments = ("export", self._target.name, *self._target.options, "--sweep", self._sweep)
        return sibling_command(*arguments, "--store", self._results.address)

    def started(self, spec: TrialSpec, attempt: int) -> None:
        """Nothing to send: a run begins with its first evaluation."""
        self._started[spec.trial_id], self._attempts[spec.trial_id] = spec, attempt
        self._records[spec.trial_id] = []

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Queue the evaluation."""
        self._records[spec.trial_id].append(record)
        self._put(_Row(spec, epoch_row(spec, self._attempts[spec.trial_id], record), is_end=False))

    def retried(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Queue the end of the attempt."""
        self.ended(spec, state, error)

    def ended(self, spec: TrialSpec, state: State, error: str | None) -> None:
        """Queue the end of the attempt."""
        records = self._records.pop(spec.trial_id, [])
        self._put(_Row(spec, trial_row(spec, self._attempts[spec.trial_id], records, state, error), is_end=True))

    def over(self, trials: Callable[[], Sequence[TrialSpec]], ending: Ending) -> None:
        """Send what is left, and what the whole sweep found, for at most `WAIT_S`; say what was not sent."""
        self._queue.put(trials)
        self._thread.join(WAIT_S)
        if self._is_complete:
            return
        n = len(self._rest())
        why = f" ({self._error})" if self._error else f" within {WAIT_S:.0f} s"
        what = f"{n} of {counted(len(self._started), 'trial')} and the summary were" if n else "the summary was"
        self._say(f"watch.{self._target.name}: {what} not sent{why}. Send with:\n  {self._export}")

    def _put(self, row: _Row) -> None:
        if self._queue.qsize() < MOST_QUEUED:
            self._queue.put(row)
        else:
            self._gaps.add(row.key)

    def _work(self) -> None:
        while isinstance(item := self._queue.get(), _Row):
            if item.key in self._gaps or self._clock() < self._again_at:
                self._gaps.add(item.key)
                continue
            try:
                self._send(item)
            except Exception as error:  # whatever the tracker's client raises
                self._gaps.add(item.key)
                self._failed(error)
        try:
            self._send_rest(item())
            self._is_complete = True
        except Exception as error:
            self._failed(error)

    def _send(self, row: _Row) -> None:
        writer = self._writer or RunWriter(self._opened(), self._sweep)
        self._writer = writer
        if row.is_end:
            writer.ended(row.spec, row.values)
            self._sent |= dict([row.key])
        else:
            writer.evaluated(row.spec, row.values)

    def _send_rest(self, specs: Sequence[TrialSpec]) -> None:
        tracker, attempts = self._opened(), dict(self._attempts)
        replay(
            self._results,
            self._sweep,
            self._rest(),
            tracker,
            lambda spec: self._sent.update({spec.trial_id: attempts[spec.trial_id]}),
        )
        tracker.finish(documents_of(self._results, self._sweep, specs))

    def _rest(self) -> list[TrialSpec]:
        """Trials of which the newest attempt has not been sent to its end."""
        return [self._started[i] for i, attempt in self._attempts.items() if self._sent.get(i) != attempt]

    def _opened(self) -> Tracker:
        self._tracker = self._tracker or self._target.open(self._sweep)
        return self._tracker

    def _failed(self, error: Exception) -> None:
        is_first, self._error = not self._error, failure_text(error)
        self._gaps |= self._writer.attempts if self._writer else set()
        self._tracker = self._writer = None
        self._again_at = self._clock() + RETRY_S
        if is_first:
            self._say(f"watch.{self._target.name}: {self._error}. The sweep continues; all rows are in its store.")


def failure_text(error: Exception) -> str:
    """What a tracker's client raised, in one line without secrets."""
    kind = "" if isinstance(error, PermafrostError) else f"{type(error).__name__}: "
    return shortened(scrubbed(kind + one_line(str(error))), 200).rstrip(".")
