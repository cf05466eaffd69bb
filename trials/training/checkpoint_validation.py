"""A checkpoint that was read: nothing in it is believed before it is known to be of this very trial.

A store may lie where others write. safetensors runs nothing that it reads, but what comes after it trusts its callers:
the kernel of a fused optimiser takes moments for as large as their weights, and writes past the end of smaller ones.
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
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.tasks.task import NO_PREDICTION, Split
from trials.training.steps import evaluation_steps, steps_an_epoch

VERSION = 1
STATE = "state.json"


class KeptState(BaseModel):
    """The JSON part.

    Attributes:
        step: Steps done.
        lr: Of the last of them.
        losses: Of the steps since the last record; `train_s` and `energy_j`: what those took.
        scaler: Of the loss, in fp16; else empty.
        records: What the trial had yielded, without their reports.
        best_score, best_loss: On dev, of the best of them; None before the first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    trial_id: str
    device: str
    step: int
    lr: float
    losses: tuple[float, ...]
    train_s: float
    energy_j: float | None = None  # a checkpoint of before this was measured has none
    scaler: Mapping[str, float | int]
    records: tuple[EpochRecord, ...]
    best_score: float | None
    best_loss: float | None = None


@dataclass(frozen=True)
class Kept:
    """A checkpoint whose JSON part fits its trial.

    Attributes:
        tensors: By name; `check` them before they are used.
        state: The rest.
    """

    tensors: Mapping[str, torch.Tensor]
    state: KeptState

    @property
    def step(self) -> int:
        """Steps done."""
        return self.state.step

    @property
    def records(self) -> tuple[EpochRecord, ...]:
        """What the trial had yielded."""
        return self.state.records

    @property
    def has_best(self) -> bool:
        """Whether there are weights of a best epoch."""
        return self.state.best_score is not None

    @classmethod
    def read(cls, content: bytes, spec: TrialSpec, device: torch.device) -> Kept | None:
        """What is in it; None where it is broken or of something else: the trial then starts anew."""
        try:
            tensors = load(content)
            state = KeptState.model_validate(_values(bytes(tensors.pop(STATE).numpy())))
        except (SafetensorError, ValidationError, KeyError, ValueError, TypeError, RecursionError):
            return None
        is_ours = (state.trial_id, state.device) == (spec.trial_id, device.type)
        return cls(tensors, state) if is_ours and _is_on_the_way(state, spec) else None

    def under(self, prefix: str) -> dict[str, torch.Tensor]:
        """The tensors below a name, by what follows it, in the order of their numbers."""
        found = {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}
        return dict(sorted(found.items(), key=lambda item: int(item[0].partition("/")[0])))

    def numbers(self, prefix: str) -> set[int]:
        """The numbers that follow a name."""
        found = {name.removeprefix(prefix).partition("/")[0] for name in self.tensors if name.startswith(prefix)}
        return {int(one) for one in found if one.isdecimal() and len(one) < 9}

    def check(self, templates: Mapping[str, torch.Tensor]) -> None:
        """Compare with tensors of the shapes and types that must be there, `best_dev/` left out.

        Raises:
            CheckpointError: one more, one less, or another shape or type; or a random stream that torch refuses.
        """
        there = {name: t for name, t in self.tensors.items() if not name.startswith("best_dev/")}
        odd = sorted(there.keys() ^ templates.keys())
        odd += [n for n, t in there.items() if n in templates and _kind(t) != _kind(templates[n])]
        if odd:
            raise CheckpointError(f"its checkpoint does not fit this trial ({odd[0]}).")
        try:
            torch.Generator().set_state(self.tensors["dropout/0"])
        except RuntimeError as error:
            raise CheckpointError(f"its checkpoint does not fit this trial (dropout/0: {error}).") from error

    def check_predictions(self, dev: Split, n_labels: int) -> None:
        """Compare what is kept of dev with dev. Raises CheckpointError."""
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
    found: dict[str, Any] = json.loads(content)
    # A record of an older checkpoint lacks the measurements that were added since; each of them may be unknown.
    unknown = {field.name: None for field in fields(EpochRecord) if str(field.type).endswith("| None")}
    return found | {"records": [unknown | record | {"reports": ()} for record in found["records"]]}


def _is_on_the_way(state: KeptState, spec: TrialSpec) -> bool:
    """Whether a trial can have been there: at a step between two of its evaluations, all those before it told."""
    n_steps = steps_an_epoch(spec) * spec.optim.epochs
    stops = evaluation_steps(n_steps, spec.optim.epochs, spec.eval_every)
    told, n = [record.step for record in state.records], len(state.records)
    before = told[-1] if told else 0
    is_between = n < len(stops) and before <= state.step <= stops[n]
    return is_between and told == stops[:n] and len(state.losses) == state.step - before


def _kind(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype
