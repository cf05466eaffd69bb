"""Read a checkpoint and validate it against its trial before anything in it is used.

Others may be able to write to a store. safetensors runs no code when it reads, but the code that uses the tensors
trusts its callers: the kernel of a fused optimiser assumes that moments are as large as their weights, and would write
past the end of smaller ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load

from trials.errors import CheckpointError
from trials.freeze.rules import Row
from trials.record import ACCRUED, EpochRecord
from trials.spec import TrialSpec
from trials.tasks.task import NO_PREDICTION, Split
from trials.training.steps import evaluation_steps, steps_an_epoch

VERSION = 1
STATE = "state.json"


class CheckpointState(BaseModel):
    """The JSON part of a checkpoint.

    Attributes:
        lr: Learning rate of the last step.
        losses: Losses of the steps since the last record; `train_s` and `flops` are their seconds and operations.
        accrued: What else those steps took, by column of `ACCRUED`; in the file each is a key of its own.
        rows: What a freezing rule has seen; empty without one.
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
    flops: float | None = None  # older checkpoints lack it
    prefix_s: float = 0.0  # and these three
    prefix_layers: int = 0
    rows: tuple[Row, ...] = ()
    scaler: Mapping[str, float | int]
    records: tuple[EpochRecord, ...]
    best_score: float | None
    best_loss: float | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose JSON part fits its trial.

    Attributes:
        tensors: By name; to be validated by `check` before they are used.
    """

    tensors: Mapping[str, torch.Tensor]
    state: CheckpointState

    @property
    def step(self) -> int:
        """Optimiser steps done."""
        return self.state.step

    @property
    def records(self) -> tuple[EpochRecord, ...]:
        """The records that the trial had yielded."""
        return self.state.records

    @property
    def has_best(self) -> bool:
        """Whether it holds the weights of a best epoch."""
        return self.state.best_score is not None

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

    def under(self, prefix: str) -> dict[str, torch.Tensor]:
        """The tensors whose names begin with a prefix, by the rest of the name, in the order of their numbers."""
        tensors = {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}
        return dict(sorted(tensors.items(), key=lambda item: int(item[0].partition("/")[0])))

    def numbers(self, prefix: str) -> set[int]:
        """The numbers that follow a prefix in the tensors' names."""
        numbers = {name.removeprefix(prefix).partition("/")[0] for name in self.tensors if name.startswith(prefix)}
        return {int(one) for one in numbers if one.isdecimal() and len(one) < 9}

    def check(self, templates: Mapping[str, torch.Tensor]) -> None:
        """Compare names, shapes and types with those of templates; `check_predictions` does so for `best_dev/`.

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
    # A record of an older checkpoint lacks the measurements that were added since; each of them may be unknown.
    unknown = {field.name: None for field in fields(EpochRecord) if str(field.type).endswith("| None")}
    accrued = {name: values.pop(name, None) for name in ACCRUED}
    records = [unknown | record | {"reports": ()} for record in values["records"]]
    return values | {"accrued": accrued, "records": records}


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
