"""TensorBoard: one folder per trial with scalars and hparams, `DIR/SWEEP/NAME-TRIAL`; the sweep's summary as text.

The files are written without TensorFlow and hold nothing but what the rows hold, so writing them again gives the same
runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import metadata, plugin_data_pb2
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.summary.writer.record_writer import RecordWriter

from orchestrator.extras.trackers.tracked_run import Measured, TrackedRun, safe_name
from trials.outside.plain_files import path_inside

FILE = "events.out.tfevents.permafrost"  # TensorBoard reads whatever has `tfevents` in its name


class TensorboardTracker:
    """A `Tracker` that writes event files below a folder. Any call raises OSError if that cannot be written."""

    def __init__(self, sweep: str, folder: str) -> None:
        self._folder = path_inside(Path(folder).expanduser(), safe_name(sweep))
        self._files: dict[str, _EventFile] = {}

    def begin(self, run: TrackedRun) -> None:
        """Begin the trial's file. One of an earlier name of the trial is removed."""
        folder = path_inside(self._folder, f"{safe_name(run.name)}-{run.trial_id}")
        for old in self._folder.glob(f"*-{run.trial_id}/{FILE}"):
            old.unlink()
            if old.parent != folder:
                with suppress(OSError):  # other files in it stay
                    old.parent.rmdir()
        file = self._files[run.trial_id] = _EventFile(folder, run.began)
        start = plugin_data_pb2.SessionStartInfo(group_name=run.tags["permafrost.setting"], start_time_secs=run.began)
        for name, value in run.settings.items():
            kind = "bool_value" if isinstance(value, bool) else "string_value" if isinstance(value, str) else None
            setattr(start.hparams[name], kind or "number_value", value)
        file.add_hparams(metadata.SESSION_START_INFO_TAG, run.began, session_start_info=start)

    def add(self, run: TrackedRun, evaluations: Sequence[Measured]) -> None:
        """Add a scalar for each metric."""
        for evaluation in evaluations:
            self._files[run.trial_id].add_scalars(evaluation)

    def end(self, run: TrackedRun, summary: Measured) -> None:
        """Add the summary as scalars and the session's end, and close the file."""
        file, status = self._files.pop(run.trial_id), "STATUS_SUCCESS" if run.is_fine else "STATUS_FAILURE"
        file.add_scalars(summary)
        ended = plugin_data_pb2.SessionEndInfo(status=Status.Value(status), end_time_secs=summary.time)
        file.add_hparams(metadata.SESSION_END_INFO_TAG, summary.time, session_end_info=ended)
        file.close()

    def finish(self, documents: Mapping[str, str]) -> None:
        """Write the documents as texts, and close all files."""
        file = self._files["summary"] = _EventFile(self._folder / "summary", 0.0)
        for name, text in documents.items():
            file.add_text(name, text)
        for file in self._files.values():
            file.close()


class _EventFile:
    """An event file, from its beginning; every event is on the disk when a call returns."""

    def __init__(self, folder: Path, time: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).unlink(missing_ok=True)
        self._file: IO[bytes] = (folder / FILE).open("xb")
        self._writer = RecordWriter(self._file)
        self._add(Event(wall_time=time, file_version="brain.Event:2"))

    def add_scalars(self, measured: Measured) -> None:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in measured.metrics.items()]
        self._add(Event(wall_time=measured.time, step=measured.step, summary=Summary(value=values)))

    def add_hparams(self, tag: str, time: float, **content: Any) -> None:
        about = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**content))
        value = Summary.Value(tag=tag, metadata=about, tensor=metadata.NULL_TENSOR)
        self._add(Event(wall_time=time, summary=Summary(value=[value])))

    def add_text(self, name: str, text: str) -> None:
        plugin = SummaryMetadata.PluginData(plugin_name="text")
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape)
        value = Summary.Value(tag=name, metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor)
        self._add(Event(summary=Summary(value=[value])))

    def _add(self, event: Any) -> None:
        self._writer.write(event.SerializeToString(deterministic=True))
        self._file.flush()

    def close(self) -> None:
        self._file.close()
