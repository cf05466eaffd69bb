"""The Ray Tune side of a trial, in the worker: a few lines around the generator of `trials.run`.

One worker process runs many trials, one after the other, and keeps torch, the model's weights and the tokenised
corpora from one to the next. A worker whose memory does not come back to its level after a trial makes room for a new
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ray import tune
from ray._raylet import setproctitle  # type: ignore[attr-defined]  # the package's cannot write a worker's title

from orchestrator.events import failure
from trials.record import EpochRecord
from trials.spec import Predictions, TrialSpec

if TYPE_CHECKING:
    from trials.memory import MemoryLevel

# Keys of what a step reports; Tune adds its own (`pid`, `time_total_s`, ...), so ours stay in one place.
RECORD, FAILURE = "permafrost_record", "permafrost_failure"


class WorkerWornError(Exception):
    """Ends a worker whose memory has grown. Its last trial is over and told."""


class TrialTrainable(tune.Trainable):  # type: ignore[misc]  # Ray has no types here
    """`config` holds `spec`, a TrialSpec as JSON, `threads`, `gpus`, and which `predictions` to keep."""

    _label = "a worker"
    _records: Iterator[EpochRecord]
    _memory: MemoryLevel

    def __repr__(self) -> str:
        return f"Permafrost({self._label})"

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first trial; its work begins with the first step."""
        import torch

        from trials.memory import MemoryLevel

        torch.set_num_threads(config["threads"])
        self._memory = MemoryLevel()
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial."""
        spec = TrialSpec.model_validate_json(new_config["spec"])
        self._label, self._records = spec.label, self.records(spec, new_config["predictions"])
        self._gpus: float = new_config["gpus"]
        return True

    def records(self, spec: TrialSpec, predictions: Predictions) -> Iterator[EpochRecord]:
        """What the trial yields."""
        from trials.run import run_trial

        return run_trial(spec, predictions=predictions)

    def step(self) -> dict[str, Any]:
        """Up to the next evaluation. A trial that raises is reported, so that the warm worker lives on.

        Raises:
            WorkerWornError: the trial was over with the step before, but its memory is still here. Raising is how a
                Tune worker gets replaced: one that says `done` is given the next trial.
        """
        setproctitle(f"ray::{self._label}")  # what Ray's dashboard and `ps` list
        try:
            record = next(self._records)
        except WorkerWornError:
            raise
        except Exception as error:
            state, text = failure(error)
            return {FAILURE: {"state": state.value, "error": text}, "done": self._settled()}
        record = replace(record, gpus=self._gpus)
        return {RECORD: {"record": record}, "done": record.last and self._settled()}

    def _settled(self) -> bool:
        """Drop the trial; whether the worker can take another. If not, the next step ends it."""
        self._records = _worn(self._label)
        return self._memory.settle()

    def cleanup(self) -> None:
        """Drop the trial."""
        del self._records

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the store is the only truth. Tune calls it all the same."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Nothing."""


def _worn(label: str) -> Iterator[EpochRecord]:
    raise WorkerWornError(f"the memory of {label} was not given back")
    yield
