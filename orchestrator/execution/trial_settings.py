"""The settings that all trials of a launch share, wherever they run, and how these yield an attempt's records."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from orchestrator.storage.open_storage import open_storage
from orchestrator.store.stored_tensors import StoredCheckpoints, save_weights
from orchestrator.sweeps.sweep import SweepSpec
from trials.record import EpochRecord
from trials.spec import Predictions, TrialSpec
from trials.training.checkpoint_times import CheckpointTimes

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TrialSettings:
    """What all trials of a launch share, wherever they run.

    Attributes:
        predictions: Which are stored.
        store: Address of the store, where checkpoints and weights are saved.
        checkpoint: When trials save checkpoints; None for never.
        keep_weights: Whether completed trials store their trained tensors.
    """

    predictions: Predictions
    store: str
    checkpoint: CheckpointTimes | None
    keep_weights: bool = False

    @classmethod
    def of(cls, sweep: SweepSpec, store: str, **more: Any) -> Self:
        """The settings of a sweep's trials."""
        return cls(sweep.predictions, store, sweep.checkpoint.times, sweep.keep == "weights", **more)

    def records(
        self,
        spec: TrialSpec,
        number: int,
        accumulation: int,
        *,
        device: torch.device,
        leaving: Callable[[], bool] = lambda: False,
    ) -> Generator[EpochRecord, None, object]:
        """Run an attempt at a trial and yield its records; `leaving` says that its process has to end."""
        from trials.run import run_trial  # in a worker, while the driver never loads torch
        from trials.training.checkpoint import Checkpoints

        storage = StoredCheckpoints(self.store, spec.trial_id, number)
        return run_trial(
            spec,
            device=device,
            predictions=self.predictions,
            checkpoints=Checkpoints(storage, self.checkpoint, leaving=leaving) if self.checkpoint else None,
            accumulation=accumulation,
            keep_weights=partial(save_weights, open_storage(self.store), spec.trial_id) if self.keep_weights else None,
        )
