"""TensorBoard: one folder per trial with scalars, `DIR/SWEEP/NAME-TRIAL`.

The files are written without TensorFlow and hold nothing but what the rows hold, so writing them again gives the same
runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from orchestrator.extras.trackers.tracked_run import Measured, TrackedRun, folder_name
from trials.outside.plain_files import path_inside

FILE = "events.out.tfevents.permafrost"  # TensorBoard reads whatever has `tfevents` in its name


class TensorboardTracker:
    """A `Tracker` that writes event files below a folder. Any call raises OSError if that cannot be written."""

    def __init__(self, sweep: str, folder: str) -> None:
        self._folder = path_inside(Path(folder).expanduser(), folder_name(sweep))
        self._files: dict[str, IO[bytes]] = {}

    def begin(self, run: TrackedRun) -> None:
        """Begin the trial's file. One of an earlier name of the trial is removed."""
        folder = path_inside(self._folder, f"{folder_name(run.name)}-{run.trial_id}")
        for old in self._folder.glob(f"*-{run.trial_id}/{FILE}"):
            old.unlink()
            if old.parent != folder:
                with suppress(OSError):  # other files in it stay
                    old.parent.rmdir()
        folder.mkdir(parents=True, exist_ok=True)
        self._files[run.trial_id] = (folder / FILE).open("xb")
        self._write(run, Event(wall_time=run.began, file_version="brain.Event:2"))

    def add(self, run: TrackedRun, evaluations: Sequence[Measured]) -> None:
        """Write the metrics as scalars at their steps."""
        for step, time, metrics in evaluations:
            values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
            self._write(run, Event(wall_time=time, step=step, summary=Summary(value=values)))

    def end(self, run: TrackedRun, summary: Measured) -> None:
        """Write the summary as scalars, and close the file."""
        self.add(run, [summary])
        self._files.pop(run.trial_id).close()

    def close(self) -> None:
        """Close the files of runs without an end."""
        for file in self._files.values():
            file.close()

    def _write(self, run: TrackedRun, event: Event) -> None:
        """Write an event, which is on the disk then."""
        file = self._files[run.trial_id]
        RecordWriter(file).write(event.SerializeToString(deterministic=True))
        file.flush()
