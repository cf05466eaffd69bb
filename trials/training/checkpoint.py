"""A trial under way as one object: weights, optimiser, random streams, the best epoch, and what was yielded so far.

A trial that goes on from it yields the records of before again, and then those that an uninterrupted one would have
yielded: on a CPU to the bit. It is a safetensors file whose JSON part is one of its tensors, so that it is there whole
or not at all, and nothing in it can run.

Not in it: frozen weights, which are the model's, and the order of the data, which is its seed's: the new training
takes as many batches off it as there were steps.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch
from safetensors.torch import save

from trials.errors import CheckpointError
from trials.record import EpochRecord
from trials.seeding import GlobalStream
from trials.spec import TrialSpec
from trials.tasks.task import Split
from trials.training.best_epoch import Best
from trials.training.checkpoint_validation import STATE, VERSION, Kept
from trials.training.loop import Evaluation, Training

SLOW_DISK = 200e6  # bytes/s: what keeping a trial is taken to cost before it was done once


class Keeper(Protocol):
    """Where a trial's checkpoints are kept."""

    def load(self) -> bytes | None:
        """The newest, or None."""
        ...

    def save(self, step: int, content: bytes) -> None:
        """Keep a new one instead of those before. Raises OSError, StoreError."""
        ...


@dataclass
class Checkpoints:
    """When a trial is kept, and where.

    Attributes:
        keeper: Where.
        epochs: Keep it at the first evaluation after so many epochs; None for never by epochs.
        seconds: Keep it after so many seconds, in the midst of an epoch if need be; None for never by time.
        share: Keep it at every evaluation, as long as that takes no more than this share of the time; None for never.
        leaving: Whether the process has been asked to go: then it is kept at the next step, and the trial ends.
    """

    keeper: Keeper
    epochs: float | None = None
    seconds: float | None = None
    share: float | None = None
    leaving: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._step, self._epoch, self._time, self._cost_s = -1, 0.0, time.monotonic(), math.nan

    def due(self) -> bool:
        """Whether to keep it at this step, evaluated or not."""
        by_time = self.seconds is not None and time.monotonic() - self._time >= self.seconds
        return by_time or self.leaving()

    def due_at(self, state: TrialState) -> bool:
        """Whether to keep it at this evaluation."""
        by_epochs = self.epochs is not None and state.epoch - self._epoch >= self.epochs - 1e-9
        if self.share is None or by_epochs:
            return by_epochs or self.due()
        cost_s = state.n_bytes / SLOW_DISK if math.isnan(self._cost_s) else self._cost_s
        return (time.monotonic() - self._time) * self.share >= cost_s or self.due()

    def keep(self, state: TrialState) -> None:
        """Keep it, unless that was done at this very step."""
        if state.training.step != self._step:
            started = time.monotonic()
            self.keeper.save(state.training.step, state.to_bytes())
            self._step, self._epoch, self._time = state.training.step, state.epoch, time.monotonic()
            self._cost_s = self._time - started

    def found(self, spec: TrialSpec, device: torch.device) -> Kept | None:
        """The newest checkpoint of a trial, if there is one that is whole, this trial's and of this kind of device."""
        content = self.keeper.load()
        kept = None if content is None else Kept.read(content, spec, device)
        if kept is not None and kept.records:
            self._epoch = kept.records[-1].epoch
        return kept


@dataclass
class TrialState:
    """All that moves in a trial.

    Attributes:
        records: Yielded so far.
        losses: Of the steps since the last of them.
        train_s: Seconds that those steps took.
        energy_j: Joules that they took; None where it cannot be read.
    """

    spec: TrialSpec
    training: Training
    best: Best
    dropout: GlobalStream
    records: list[EpochRecord]
    losses: tuple[float, ...] = ()
    train_s: float = 0.0
    energy_j: float | None = 0.0

    @property
    def epoch(self) -> float:
        """Passes over the train subset so far."""
        return self.training.step * self.spec.optim.epochs / self.training.n_steps

    @property
    def n_bytes(self) -> int:
        """About what a checkpoint takes: weights, two moments and the best weights."""
        return 16 * sum(p.numel() for p in self._learning())

    def evaluated(self, record: EpochRecord) -> None:
        """The steps so far are told by a record."""
        self.records.append(replace(record, reports=()))  # which only the last has, and the last is not kept
        self.losses, self.train_s, self.energy_j = (), 0.0, 0.0

    def to_bytes(self) -> bytes:
        """The checkpoint."""
        training, moments = self.training, self.training.optimizer.state_dict()["state"]
        tensors: dict[str, torch.Tensor] = {f"weights/{i}": p for i, p in enumerate(self._learning())}
        tensors |= {f"optimizer/{i}/{k}": v for i, own in moments.items() for k, v in own.items()}
        tensors |= {f"dropout/{i}": state for i, state in enumerate(self.dropout.states)}
        tensors |= {f"best/{i}": weight for i, weight in enumerate(self.best.weights)}
        content: dict[str, Any] = {
            "version": VERSION,
            "trial_id": self.spec.trial_id,
            "device": training.device.type,
            "step": training.step,
            "lr": training.lr,
            "losses": self.losses,
            "train_s": self.train_s,
            "energy_j": self.energy_j,
            "scaler": training.scaler.state_dict(),
            "records": [_plain(record) for record in self.records],
            "best_score": None,
        }
        if self.best.weights:
            content |= {"best_score": self.best.score, "best_loss": self.best.dev.loss}
            tensors["best_dev/predicted"] = torch.from_numpy(self.best.dev.predicted)
            tensors["best_dev/probability"] = torch.from_numpy(self.best.dev.probability)
        tensors[STATE] = torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)
        # Each a tensor of its own: safetensors takes no two that share memory.
        return save({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()})

    def go_on_from(self, kept: Kept, dev: Split, n_labels: int) -> None:
        """Put everything as it was. Raises CheckpointError where it does not fit: then nothing has changed."""
        kept.check(self._templates(kept))
        if kept.state.scaler.keys() != self.training.scaler.state_dict().keys():
            raise CheckpointError("its checkpoint does not fit this trial (scaler).")
        if kept.has_best:
            kept.check_predictions(dev, n_labels)
        with torch.no_grad():
            for i, parameter in enumerate(self._learning()):
                parameter.copy_(kept.tensors[f"weights/{i}"])
        optimizer = self.training.optimizer
        moments: dict[int, dict[str, Any]] = {}
        for name, tensor in kept.under("optimizer/").items():
            index, _, key = name.partition("/")
            moments.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        if kept.state.scaler:
            self.training.scaler.load_state_dict(dict(kept.state.scaler))
        self.dropout.states = list(kept.under("dropout/").values())
        if kept.state.best_score is not None and kept.state.best_loss is not None:
            predicted, probability = kept.tensors["best_dev/predicted"], kept.tensors["best_dev/probability"]
            best_dev = Evaluation(kept.state.best_loss, predicted.numpy(), probability.numpy())
            self.best.put(kept.state.best_score, best_dev, list(kept.under("best/").values()))
        self.training.lr = kept.state.lr
        self.records, self.losses, self.train_s = list(kept.records), kept.state.losses, kept.state.train_s
        self.energy_j = kept.state.energy_j

    def _templates(self, kept: Kept) -> dict[str, torch.Tensor]:
        """Tensors of the shapes and types that a checkpoint of this trial has."""
        learning = self._learning()
        found: dict[str, torch.Tensor] = {f"weights/{i}": p for i, p in enumerate(learning)}
        for i in kept.numbers("optimizer/") & set(range(len(learning))):  # of what has learned by then
            found |= {f"optimizer/{i}/step": torch.zeros(()), f"optimizer/{i}/exp_avg": learning[i]}
            found[f"optimizer/{i}/exp_avg_sq"] = learning[i]
        found |= {f"dropout/{i}": state for i, state in enumerate(self.dropout.states)}
        if kept.has_best:
            found |= {f"best/{i}": p for i, p in enumerate(self.best.learning)}
        return found

    def _learning(self) -> list[torch.nn.Parameter]:
        """Parameters that learn at some time, in the order of the optimiser."""
        return [p for group in self.training.optimizer.param_groups for p in group["params"]]


def _plain(record: EpochRecord) -> dict[str, Any]:
    return {k: v for k, v in asdict(record).items() if k != "reports"}
