"""The Ray Tune side of a trial, in the worker: a few lines around the generator of `trials.run`.

One worker process runs many trials, one after the other, and keeps torch, the model's weights and the tokenised
corpora from one to the next. A worker whose memory does not come back to its level after a trial makes room for a new
one. A worker that is asked to go (SIGTERM: a spot machine's notice, Slurm's signal) keeps its trial and goes.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from ray import tune
from ray._raylet import setproctitle  # type: ignore[attr-defined]  # the package's cannot write a worker's title

from orchestrator.execution.events import failure
from orchestrator.execution.slots import Share
from trials.record import EpochRecord
from trials.settings import CheckpointTimes, Predictions
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from trials.hardware.worker_memory import MemoryLevel
    from trials.training.checkpoint import Checkpoints

# Keys of what a step reports; Tune adds its own (`pid`, `time_total_s`, ...), so ours stay in one place.
RECORD, FAILURE = "permafrost_record", "permafrost_failure"
VERDICT = "verdict"  # inside a record's result, put there by the driver


@dataclass(frozen=True)
class WorkerSettings:
    """What every worker of a sweep is told.

    Attributes:
        predictions: Which predictions to keep.
        store: Address of the store that trials are kept beside.
        checkpoint: When trials save checkpoints; None for never.
        origin: Ray's id of the driver's node, where the paths of specs hold; None where they hold everywhere.
    """

    predictions: Predictions
    store: str
    checkpoint: CheckpointTimes | None
    origin: str | None = None

    def for_share(self, share: Share) -> dict[str, Any]:
        """As plain values, with what a trial gets of the cluster."""
        return {"threads": share.cpus, "gpus": share.gpus, "predictions": self.predictions, "store": self.store,
                "checkpoint": self.checkpoint, "origin": self.origin}  # fmt: skip


class WorkerWornError(Exception):
    """Ends a worker whose memory has grown. Its last trial is over and told."""


class TrialTrainable(tune.Trainable):  # type: ignore[misc]  # Ray has no types here
    """`config` holds an attempt (its `spec` as JSON, `attempt` for its number) and the values of `WorkerSettings`."""

    _label = "a worker"
    _records: Iterator[EpochRecord] | None = None
    _memory: MemoryLevel
    _leaving = False
    _until: float | None = None
    _trial_id = ""
    _attempt = 0

    def __repr__(self) -> str:
        return f"Permafrost({self._label})"

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first trial; its work begins with the first step."""
        import torch

        from trials.hardware.worker_memory import MemoryLevel

        torch.set_num_threads(config["threads"])
        self._memory = MemoryLevel()
        signal.signal(signal.SIGTERM, self._asked_to_go)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial."""
        self._drop()
        spec = TrialSpec.model_validate_json(new_config["spec"])
        self._label, self._gpus, self._until = spec.label, float(new_config["gpus"]), new_config["until"]
        self._trial_id, self._attempt = spec.trial_id, new_config["attempt"]
        self._records = self.records(spec, new_config)
        return True

    def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
        """What the trial yields; its files are brought here before its first step."""
        from orchestrator.ray_backend.file_staging import at_hand
        from trials.run import run_trial

        kept = self._checkpoints(spec, config) if config["checkpoint"] else None
        spec = at_hand(spec, config["origin"]) if config["origin"] else spec
        yield from run_trial(
            spec, predictions=config["predictions"], checkpoints=kept, accumulation=config["accumulation"]
        )

    def _checkpoints(self, spec: TrialSpec, config: dict[str, Any]) -> Checkpoints:
        from orchestrator.execution.checkpoint_store import StoredCheckpoints
        from trials.training.checkpoint import Checkpoints

        kept = StoredCheckpoints(config["store"], spec.trial_id, config["attempt"])
        return Checkpoints(kept, config["checkpoint"], leaving=lambda: self._leaving)

    def step(self) -> dict[str, Any]:
        """Up to the next evaluation. A trial that raises is reported, so that the warm worker lives on.

        Raises:
            WorkerWornError: the trial was over with the step before, but its memory is still here. Raising is how a
                Tune worker gets replaced: one that says `done` is given the next trial.
        """
        if self._records is None:
            raise WorkerWornError(f"the memory of {self._label} was not given back")
        setproctitle(f"ray::{self._label}")  # what Ray's dashboard and `ps` list
        try:
            record = next(self._records).on_gpus(self._gpus)
        except Exception as error:
            state, text = failure(error)
        else:
            is_paused = self._until is not None and record.epoch >= self._until - 1e-9
            if is_paused:
                self._drop()  # before it is told: whoever goes on with the trial finds it kept
            told = {"record": record, "trial_id": self._trial_id, "attempt": self._attempt}
            return {RECORD: told, "done": (record.last or is_paused) and self._settled()}
        if self._leaving:
            sys.exit(0)  # the driver sees a lost worker, and the trial goes on elsewhere
        # Only here, as the error held on to what the trial had in memory.
        return {FAILURE: {"state": state.value, "error": text}, "done": self._settled()}

    def _asked_to_go(self, number: int, frame: FrameType | None) -> None:
        """Keep the trial at its next step and go; with no trial, go."""
        self._leaving = True
        if self._records is None:
            sys.exit(0)

    def _settled(self) -> bool:
        """Drop the trial; whether the worker can take another. If not, the next step ends it."""
        self._drop()
        return self._memory.settle()

    def _drop(self) -> None:
        """Close the trial; one that is not over is kept, if trials are."""
        records, self._records = self._records, None
        if isinstance(records, Generator):
            records.close()

    def cleanup(self) -> None:
        """Drop the trial."""
        self._drop()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the store is the only truth. Tune calls it all the same."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Nothing."""
