"""A checkpoint that somebody else wrote: nothing of it is used before all of it is known to fit its trial."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.builders import write_sweep, write_treebank
from tests.examples import each
from trials.draft import Lookup
from trials.errors import CheckpointError
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.checkpoint import STATE, Checkpoints
from trials.training.checkpoint_times import CheckpointTimes

CPU = torch.device("cpu")
Tensors = dict[str, torch.Tensor]
Tamper = Callable[[Tensors, str], object]
SWEEP = """
name: one
trial: {data: {folder: BANK}, train_size: 4, optim: {epochs: 2, batch_size: 2}, freeze: {strategy: first_k, depth: 5}}
"""


class Memory:
    """Keeps a checkpoint."""

    content: bytes | None = None

    def load(self) -> bytes | None:
        return self.content

    def save(self, step: int, content: bytes) -> None:
        self.content = content


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialSpec, bytes]:
    """A trial and its checkpoint after the first of its two epochs."""
    folder: Path = tmp_path_factory.mktemp("kept")
    bank = write_treebank(folder / "bank", train=6, dev=2, test=2)
    (spec,) = expand(*load_sweep(write_sweep(folder / "one.yaml", SWEEP.replace("BANK", str(bank))), []), Lookup())
    memory = Memory()
    list(run_trial(spec, device=CPU, checkpoints=Checkpoints(memory, CheckpointTimes(epochs=1))))
    assert memory.content is not None
    return spec, memory.content


@pytest.fixture(scope="module")
def anew(kept: tuple[TrialSpec, bytes]) -> list[float]:
    return gone_on(*kept)


def gone_on(spec: TrialSpec, content: bytes) -> list[float]:
    memory = Memory()
    memory.content = content
    return [record.score for record in run_trial(spec, device=CPU, checkpoints=Checkpoints(memory))]


def smaller(tensors: Tensors, name: str) -> None:
    tensors[name] = torch.zeros(1)


def flipped(tensors: Tensors, name: str) -> None:
    tensors[name] = tensors[name].to(torch.float64)


def put(tensors: Tensors, name: str) -> None:
    tensors[name] = torch.zeros(3)


def filled(value: int) -> Tamper:
    return lambda tensors, name: tensors[name].fill_(value)


@each(
    "tamper, name",
    [
        (smaller, "optimizer/0/exp_avg"),  # a fused kernel would write past its end
        (smaller, "optimizer/3/exp_avg_sq"),
        (put, "optimizer/0/step"),
        (smaller, "weights/0"),  # would be broadcast
        (flipped, "weights/1"),
        (smaller, "best/0"),
        (dict.pop, "best/1"),
        (dict.pop, "optimizer/0/exp_avg"),
        (put, "optimizer/99/exp_avg"),
        (put, "dropout/1"),
        (put, "anything"),
        (filled(255), "dropout/0"),
        (filled(1_000_000), "best_dev/predicted"),
        (smaller, "best_dev/probability"),
        (dict.pop, "best_dev/predicted"),
    ],
    quick=6,
)
def test_a_tensor_that_does_not_fit_ends_the_trial_before_it_is_used(
    tamper: Tamper, name: str, kept: tuple[TrialSpec, bytes]
) -> None:
    spec, content = kept
    tensors = load(content)
    tamper(tensors, name)
    with pytest.raises(CheckpointError, match=f"does not fit this trial .({name}|best_dev)"):
        gone_on(spec, save(tensors))


@each(
    "change",
    [
        {"step": 10**400},
        {"step": -1},
        {"step": 3},  # without the loss of a step
        {"step": 5, "losses": [1.0, 1.0, 1.0]},  # beyond its end
        {"records": []},
        {"records": [{}]},
        {"records": [{"score": "high"}]},
        {"scaler": {"scale": "x"}},
        {"losses": "many"},
        {"version": 2},
        {"unknown": 1},
        {"trial_id": None},
    ],
    quick=6,
)
def test_a_state_that_the_trial_cannot_have_been_in_is_none_and_it_starts_anew(
    change: dict[str, Any], kept: tuple[TrialSpec, bytes], anew: list[float]
) -> None:
    spec, content = kept
    tensors = load(content)
    state = json.loads(bytes(tensors[STATE].numpy())) | change
    tensors[STATE] = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
    assert gone_on(spec, save(tensors)) == anew
