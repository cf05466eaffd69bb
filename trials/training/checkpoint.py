"""Save a running trial and resume it: weights, optimiser, random streams, the best epoch and the records so far.

A resumed trial yields the earlier records again and then those that an uninterrupted one would have yielded: on a CPU
bit for bit. A checkpoint is one safetensors file whose JSON part is one of its tensors, so it is written whole or not
at all, and reading it runs no code.

Frozen weights are not in it, as they are the pretrained model's. Neither is the order of the data: it follows from the
seed, and the resumed training skips as many batches as there were steps.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save

from trials.errors import CheckpointError, StoreError, one_line
from trials.record import ACCRUED, EpochRecord, known_sum
from trials.seeding import GlobalStream
from trials.spec import TrialSpec, evaluation_steps, steps_an_epoch
from trials.tasks.task import NO_PREDICTION, Split
from trials.training.checkpoint_times import NEVER, CheckpointTimes
from trials.training.final_scores import BestEpoch
from trials.training.freeze_course import FreezeSchedule
from trials.training.loop import EvaluatedSplit, Training, never_holds

VERSION = 1  # of the bytes; a checkpoint of another version is not resumed from
STATE = "state.json"


class CheckpointState(BaseModel):
    """The JSON part of a checkpoint.

    Attributes:
        lr: Learning rate of the last step.
        losses: Losses of the steps since the last record; `train_s` and `flops` are their seconds and operations.
        accrued: What else those steps took, by column of `ACCRUED`; in the file each is a key of its own.
        scaler: State of the loss scaling in fp16; else empty.
        records: The records that the trial had yielded, without their reports.
        best_score, best_loss: Score and loss on dev at the best epoch; None before the first evaluation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    trial_id: str
    device: str
    step: int
    lr: float
    losses: tuple[float, ...]
    train_s: float
    accrued: Mapping[str, float | None]
    flops: float | None
    scaler: Mapping[str, float | int]
    records: tuple[EpochRecord, ...]
    best_score: float | None
    best_loss: float | None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose JSON part fits its trial.

    Attributes:
        tensors: By name; to be validated by `check` before they are used.
    """

    tensors: Mapping[str, torch.Tensor]
    state: CheckpointState

    @classmethod
    def read(cls, content: bytes, spec: TrialSpec, device: torch.device) -> Checkpoint | None:
        """Parse a checkpoint; None if it is broken or belongs to another trial or device: the trial then restarts."""
        try:
            tensors = load(content)
            state = CheckpointState.model_validate(_values(bytes(tensors.pop(STATE).numpy())))
        except (SafetensorError, ValidationError, KeyError, ValueError, TypeError, RecursionError):
            return None
        is_ours = (state.trial_id, state.device) == (spec.trial_id, device.type)
        return cls(tensors, state) if is_ours and _is_possible(state, spec) else None

    def tensors_under(self, prefix: str) -> dict[str, torch.Tensor]:
        """The tensors (...) whose names begin with a prefix, by the rest of the name, in the order of their numbers."""
        tensors = {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}
        return dict(sorted(tensors.items(), key=lambda item: int(item[0].partition("/")[0])))

    def numbers(self, prefix: str) -> set[int]:
        """The numbers that follow a prefix in the tensors' names."""
        numbers = {name.removeprefix(prefix).partition("/")[0] for name in self.tensors if name.startswith(prefix)}
        return {int(number) for number in numbers if number.isdecimal() and len(number) < 9}

    def check(self, templates: Mapping[str, torch.Tensor]) -> None:
        """Compare names, shapes (...) and types with templates; `check_predictions` does so for `best_dev/`.

        Others may be able to write to a store. safetensors runs no code when it reads, but the code that uses the
        tensors trusts its callers: the kernel of a fused optimiser assumes that moments are as large as their weights,
        and would write past the end of smaller ones.

        Raises:
            CheckpointError: a tensor too many, too few, or of another shape or type; or an invalid random state.
        """
        tensors = {name: t for name, t in self.tensors.items() if not name.startswith("best_dev/")}
        wrong = sorted(tensors.keys() ^ templates.keys())
        wrong += [n for n, t in tensors.items() if n in templates and _kind(t) != _kind(templates[n])]
        if wrong:
            raise CheckpointError(f"its checkpoint does not fit this trial ({wrong[0]}).")
        try:
            torch.Generator().set_state(self.tensors["dropout/0"])
        except RuntimeError as error:
            raise CheckpointError(f"its checkpoint does not fit this trial (dropout/0: {error}).") from error

    def check_predictions(self, dev: Split, n_labels: int) -> None:
        """Check the stored predictions on dev against the split. Raises CheckpointError."""
        predicted, probability = (self.tensors.get(f"best_dev/{name}") for name in ("predicted", "probability"))
        fits = (
            self.state.best_loss is not None
            and predicted is not None
            and probability is not None
            and predicted.shape == probability.shape == dev.gold.shape
            and probability.is_floating_point()
            and predicted.is_floating_point() == (dev.gold.dtype.kind == "f")
        )
        if fits and predicted is not None and not predicted.is_floating_point() and predicted.numel():
            fits = int(predicted.min()) >= NO_PREDICTION and int(predicted.max()) < n_labels
        if not fits:
            raise CheckpointError("its checkpoint does not fit this trial (best_dev).")


def _values(content: bytes) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(content)
    accrued = {name: values.pop(name) for name in ACCRUED}
    return values | {"accrued": accrued, "records": [record | {"reports": ()} for record in values["records"]]}


def _is_possible(state: CheckpointState, spec: TrialSpec) -> bool:
    """Whether the trial can have been in this state: between two evaluations, with a record of each earlier one."""
    n_steps = steps_an_epoch(spec) * spec.optim.epochs
    stops = evaluation_steps(n_steps, spec.optim.epochs, spec.eval_every)
    recorded, n = [record.step for record in state.records], len(state.records)
    before = recorded[-1] if recorded else 0
    is_between = n < len(stops) and before <= state.step <= stops[n]
    return is_between and recorded == stops[:n] and len(state.losses) == state.step - before


def _kind(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


SLOW_DISK = 200e6  # bytes/s: the assumed cost of a checkpoint before the first one was timed


class CheckpointStorage(Protocol):
    """The storage of a trial's checkpoints."""

    def load(self) -> bytes | None:
        """The newest, or None."""
        ...

    def save(self, step: int, content: bytes) -> None:
        """Store a new one in place of the previous ones. Raises OSError, StoreError."""
        ...


@dataclass
class Checkpoints:
    """When a trial's checkpoints are saved, and where. A trial goes on where they cannot be written.

    Attributes:
        leaving: Whether the process was asked to stop: then a checkpoint is saved after the next step, and the trial
            ends.
        error: Why the last one could not be written; None if it was.
    """

    storage: CheckpointStorage
    times: CheckpointTimes = NEVER
    leaving: Callable[[], bool] = never_holds
    error: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._step, self._epoch, self._time, self._cost_s = -1, 0.0, time.monotonic(), math.nan

    def is_due(self) -> bool:
        """Whether to save after this step, evaluated or not."""
        seconds = self.times.seconds
        return (seconds is not None and time.monotonic() - self._time >= seconds) or self.leaving()

    def is_due_at(self, state: TrialState) -> bool:
        """Whether to save at this evaluation."""
        epochs, share = self.times.epochs, self.times.share
        by_epochs = epochs is not None and state.epoch - self._epoch >= epochs - 1e-9
        if share is None or by_epochs:
            return by_epochs or self.is_due()
        cost_s = state.n_bytes / SLOW_DISK if math.isnan(self._cost_s) else self._cost_s
        return (time.monotonic() - self._time) * share >= cost_s or self.is_due()

    def save(self, state: TrialState) -> None:
        """Save a checkpoint, unless this very step has one; if it cannot be written, `error` says why."""
        if state.training.step == self._step:
            return
        started, self.error = time.monotonic(), None
        try:
            self.storage.save(state.training.step, state.to_bytes())
        except (OSError, StoreError) as error:
            self.error, self._time = one_line(str(error)), time.monotonic()  # tried again when the next one is due
        else:
            self._step, self._epoch, self._time = state.training.step, state.epoch, time.monotonic()
            self._cost_s = self._time - started

    def newest(self, spec: TrialSpec, device: torch.device) -> Checkpoint | None:
        """The newest checkpoint of this trial on this kind of device; None if there is none, or it is broken."""
        content = self.storage.load()
        checkpoint = None if content is None else Checkpoint.read(content, spec, device)
        if checkpoint is not None and checkpoint.state.records:
            self._epoch = checkpoint.state.records[-1].epoch
        return checkpoint


@dataclass
class TrialState:
    """Everything that changes while a trial trains.

    Attributes:
        losses: Of the steps since the last record.
        train_s: Seconds that those steps took.
        accrued: The columns of `ACCRUED` over those steps; None where one cannot be read.
        flops: Operations that they took; None where they are not counted.
    """

    spec: TrialSpec
    training: Training
    course: FreezeSchedule
    best: BestEpoch
    dropout: GlobalStream
    records: list[EpochRecord]
    losses: tuple[float, ...] = ()
    train_s: float = 0.0
    accrued: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(ACCRUED, 0.0))
    flops: float | None = 0.0

    @property
    def epoch(self) -> float:
        """Passes over the train subset so far."""
        return self.training.step * self.spec.optim.epochs / self.training.n_steps

    @property
    def n_bytes(self) -> int:
        """Approximate size of a checkpoint: weights, two moments and the best weights."""
        return 16 * sum(p.numel() for p in self._trained_parameters())

    def add_record(self, record: EpochRecord) -> None:
        """Add a record, which covers the steps so far."""
        self.records.append(replace(record, reports=()))  # only the last record has any, and it ends the trial
        self.losses, self.train_s, self.accrued, self.flops = (), 0.0, dict.fromkeys(ACCRUED, 0.0), 0.0

    def accrue(self, **amounts: float | None) -> None:
        """Add what steps took, by column of `ACCRUED`."""
        self.accrued |= {name: known_sum((self.accrued[name], amount)) for name, amount in amounts.items()}

    def to_bytes(self) -> bytes:
        """The checkpoint."""
        training, moments = self.training, self.training.optimizer.state_dict()["state"]
        tensors: dict[str, torch.Tensor] = {f"weights/{i}": p for i, p in enumerate(self._trained_parameters())}
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
            **self.accrued,
            "flops": self.flops,
            "scaler": training.scaler.state_dict(),
            "records": [{k: v for k, v in asdict(record).items() if k != "reports"} for record in self.records],
            "best_score": None,
            "best_loss": None,
        }
        if self.best.weights:
            content |= {"best_score": self.best.score, "best_loss": self.best.dev.loss}
            tensors["best_dev/predicted"] = torch.from_numpy(self.best.dev.predicted)
            tensors["best_dev/probability"] = torch.from_numpy(self.best.dev.probability)
        tensors[STATE] = torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)
        # A copy of each: safetensors refuses two tensors that share memory.
        return save({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()})

    def resume(self, checkpoint: Checkpoint, dev: Split, n_labels: int) -> None:
        """Restore everything. Raises CheckpointError if it does not fit; then nothing has changed."""
        state = checkpoint.state
        checkpoint.check(self._templates(checkpoint))
        if state.scaler.keys() != self.training.scaler.state_dict().keys():
            raise CheckpointError("its checkpoint does not fit this trial (scaler).")
        if state.best_score is not None:  # everything is checked before anything is changed
            checkpoint.check_predictions(dev, n_labels)
        with torch.no_grad():
            for i, parameter in enumerate(self._trained_parameters()):
                parameter.copy_(checkpoint.tensors[f"weights/{i}"])
        optimizer = self.training.optimizer
        moments: dict[int, dict[str, Any]] = {}
        for name, tensor in checkpoint.tensors_under("optimizer/").items():
            index, _, key = name.partition("/")
            moments.setdefault(int(index), {})[key] = tensor
        # Its own groups, not stored ones: rates and decay follow from the trial, and nobody else may set them.
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        if state.scaler:
            self.training.scaler.load_state_dict(dict(state.scaler))
        self.dropout.states = list(checkpoint.tensors_under("dropout/").values())
        if state.best_score is not None and state.best_loss is not None:
            predicted, probability = (
                checkpoint.tensors["best_dev/predicted"],
                checkpoint.tensors["best_dev/probability"],
            )
            best_dev = EvaluatedSplit(state.best_loss, predicted.numpy(), probability.numpy())
            self.best.replace(state.best_score, best_dev, list(checkpoint.tensors_under("best/").values()))
        self.training.lr, self.accrued, self.flops = state.lr, dict(state.accrued), state.flops
        self.records, self.losses, self.train_s = list(state.records), state.losses, state.train_s

    def _templates(self, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
        """Tensors of the shapes and types that a checkpoint of this trial has, by name."""
        trained = self._trained_parameters()
        templates: dict[str, torch.Tensor] = {f"weights/{i}": p for i, p in enumerate(trained)}
        # With gradual unfreezing not every parameter has moments yet.
        for i in checkpoint.numbers("optimizer/") & set(range(len(trained))):
            templates |= {f"optimizer/{i}/step": torch.zeros(()), f"optimizer/{i}/exp_avg": trained[i]}
            templates[f"optimizer/{i}/exp_avg_sq"] = trained[i]
        templates |= {f"dropout/{i}": state for i, state in enumerate(self.dropout.states)}
        if checkpoint.state.best_score is not None:
            templates |= {f"best/{i}": p for i, p in enumerate(self.best.trained)}
        return templates

    def _trained_parameters(self) -> list[torch.nn.Parameter]:
        """Parameters that are trained at some time, in the optimiser's order."""
        return [p for group in self.training.optimizer.param_groups for p in group["params"]]
