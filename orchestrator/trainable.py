"""The Ray Tune side of a trial, in the worker: a few lines around the generator of `trials.run`.

One worker process runs many trials, one after the other, and keeps torch, the model's weights and the tokenised
corpora from one to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ray import tune
from ray._raylet import setproctitle  # type: ignore[attr-defined]  # the package's cannot write a worker's title

from orchestrator.events import failure
from trials.record import EpochRecord
from trials.spec import Predictions, TrialSpec

# Keys of what a step reports; Tune adds its own (`pid`, `time_total_s`, ...), so ours stay in one place.
RECORD, FAILURE = "permafrost_record", "permafrost_failure"


class TrialTrainable(tune.Trainable):  # type: ignore[misc]  # Ray has no types here
    """`config` holds `spec`, a TrialSpec as JSON, `threads`, and which `predictions` to keep."""

    _label = "a worker"
    _records: Iterator[EpochRecord]

    def __repr__(self) -> str:
        return f"Permafrost({self._label})"

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first trial; its work begins with the first step."""
        import torch

        torch.set_num_threads(config["threads"])
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial."""
        spec = TrialSpec.model_validate_json(new_config["spec"])
        self._label, self._records = spec.label, self.records(spec, new_config["predictions"])
        return True

    def records(self, spec: TrialSpec, predictions: Predictions) -> Iterator[EpochRecord]:
        """What the trial yields."""
        from trials.run import run_trial

        return run_trial(spec, predictions=predictions)

    def step(self) -> dict[str, Any]:
        """Up to the next evaluation. A trial that raises is reported, so that the warm worker lives on."""
        setproctitle(f"ray::{self._label}")  # what Ray's dashboard and `ps` list
        try:
            record = next(self._records)
        except Exception as error:
            state, text = failure(error)
            return {FAILURE: {"state": state.value, "error": text}, "done": True}
        return {RECORD: {"record": record}, "done": record.last}

    def cleanup(self) -> None:
        """Drop the trial."""
        del self._records

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the store is the only truth. Tune calls it all the same."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Nothing."""
