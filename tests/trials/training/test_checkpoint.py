"""A trial that was stopped anywhere goes on as if nothing had happened."""

from __future__ import annotations

import errno
import functools
import os
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from tests.trials.conftest import CPU, TrialMaker, finished, numbers
from trials.errors import PreemptedError
from trials.hardware.device import EnergyMeter
from trials.record import EpochRecord
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.checkpoint import Checkpoint, Checkpoints
from trials.training.checkpoint_times import CheckpointTimes

PREFIX = {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}, "frozen_dropout": False}
RECIPES: dict[str, dict[str, Any]] = {
    "dropout everywhere": {"dropout": 0.3},
    "a frozen prefix": PREFIX,
    "plain": {},
    "batches of like length": {"batching": "length"},
    "gradual unfreezing": {"freeze": "all_encoder", "thaw_every": 1, "optim": {"epochs": 3}},
    "adapters": {"lora": {"rank": 2}, "freeze": {"strategy": "first_k", "depth": 2}},
    "bf16": {"precision": "bf16"},
    "a scaled loss": {"precision": "fp16"},
    "several evaluations an epoch": {"eval_every": 0.5},
}


@dataclass
class Memory:
    """Keeps the newest checkpoint, and how many there were."""

    newest: bytes | None = None
    steps: list[int] = field(default_factory=list)

    def load(self) -> bytes | None:
        return self.newest

    def save(self, step: int, content: bytes) -> None:
        self.newest = content
        self.steps.append(step)


class Full(Memory):
    """A disk that is full."""

    def save(self, step: int, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_trial_whose_checkpoints_cannot_be_written_goes_on_and_says_why(make_trial: TrialMaker) -> None:
    spec = make_trial(train_size=8, optim={"epochs": 2})
    found = list(run_trial(spec, device=CPU, checkpoints=Checkpoints(Full(), CheckpointTimes(seconds=0.0))))
    assert [record.checkpoint_error for record in found] == ["[Errno 28] No space left on device"] * 2
    assert numbers([replace(record, checkpoint_error=None) for record in found]) == numbers(whole(spec))


def test_a_worker_that_ends_without_a_checkpoint_says_so(make_trial: TrialMaker) -> None:
    trial = run_trial(make_trial(), device=CPU, checkpoints=Checkpoints(Full(), leaving=lambda: True))
    with pytest.raises(PreemptedError, match=r"at step 1; no checkpoint could be saved: .*No space left"):
        list(trial)


@functools.cache
def whole(spec: TrialSpec) -> list[EpochRecord]:
    """An uninterrupted trial."""
    return finished(run_trial(spec, device=CPU))[0]


def interrupted_after(
    n_steps: int,
    spec: TrialSpec,
    meter: EnergyMeter | None = None,
    device: torch.device = CPU,
    kept: Memory | None = None,
) -> Memory:
    """What is kept of a trial, begun with what was kept before, whose process is asked to go during its n-th step."""
    kept, asked, told = kept or Memory(), iter([False] * (n_steps - 1)), [False]

    def leaving() -> bool:
        told[0] = told[0] or next(asked, True)
        return told[0]

    with pytest.raises(PreemptedError):
        list(run_trial(spec, device=device, checkpoints=Checkpoints(kept, leaving=leaving), meter=meter))
    return kept


@each("recipe", RECIPES, quick=2)
def test_a_trial_goes_on_in_mid_epoch_with_the_bits_of_an_uninterrupted_one(
    recipe: str, make_trial: TrialMaker
) -> None:
    spec = make_trial(**RECIPES[recipe])
    kept = interrupted_after(8, spec)
    again = list(run_trial(spec, device=CPU, checkpoints=Checkpoints(kept)))
    assert numbers(again) == numbers(whole(spec))


@each("stops", [(7, 8), (2,), (12,)], quick=1)
def test_at_whatever_step_and_however_often_it_is_interrupted(stops: tuple[int, ...], make_trial: TrialMaker) -> None:
    spec, kept = make_trial(dropout=0.3), Memory()
    for stop in stops:
        interrupted_after(stop, spec, kept=kept)
    assert numbers(list(run_trial(spec, device=CPU, checkpoints=Checkpoints(kept)))) == numbers(whole(spec))


class Joules:
    """A counter that has moved by a joule whenever it is looked at, if it can be."""

    def __init__(self, *, known: bool = True) -> None:
        self.joules, self.known = 0.0, known

    def __call__(self) -> float | None:
        self.joules += 1
        return self.joules if self.known else None


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(True, True, [1.0, 2.0, 1.0]), (True, False, [1.0, None, None])]
)
def test_energy_of_before_and_after_an_interruption_adds_up_if_both_are_known(
    before: bool, after: bool, expected: list[float | None], make_trial: TrialMaker
) -> None:
    spec = make_trial(optim={"epochs": 3})
    kept = interrupted_after(10, spec, EnergyMeter(Joules(known=before)))  # in the second epoch
    again = run_trial(spec, device=CPU, checkpoints=Checkpoints(kept), meter=EnergyMeter(Joules(known=after)))
    assert [record.energy_j for record in again] == expected


def test_keeping_a_trial_changes_nothing_in_it(make_trial: TrialMaker) -> None:
    spec, kept = make_trial(dropout=0.3), Memory()
    often = list(run_trial(spec, device=CPU, checkpoints=Checkpoints(kept, CheckpointTimes(seconds=0.0))))
    assert numbers(often) == numbers(whole(spec))
    assert len(kept.steps) == 11  # after every step but the last


def test_by_epochs_it_is_kept_at_evaluations_only(make_trial: TrialMaker) -> None:
    kept = Memory()
    list(
        run_trial(
            make_trial(train_size=8, optim={"epochs": 5}),
            device=CPU,
            checkpoints=Checkpoints(kept, CheckpointTimes(epochs=2)),
        )
    )
    assert kept.steps == [4, 8]


def test_by_share_it_is_kept_at_evaluations_that_took_long_beside_it(make_trial: TrialMaker) -> None:
    never, always = Memory(), Memory()
    spec = make_trial(train_size=8)
    list(run_trial(spec, device=CPU, checkpoints=Checkpoints(never, CheckpointTimes(share=1e-6))))
    list(run_trial(spec, device=CPU, checkpoints=Checkpoints(always, CheckpointTimes(share=1e6))))
    assert (never.steps, always.steps) == ([], [2])


@given(data=st.data())
def test_a_damaged_checkpoint_is_none(data: st.DataObject, kept_trial: tuple[TrialSpec, bytes]) -> None:
    spec, content = kept_trial
    cut = data.draw(st.integers(0, len(content) - 1))
    assert Checkpoint.read(content[:cut], spec, CPU) is None


@pytest.fixture(scope="module")
def kept_trial(make_any_trial: TrialMaker) -> tuple[TrialSpec, bytes]:
    """A trial and its checkpoint after three steps."""
    spec = make_any_trial()
    content = interrupted_after(3, spec).newest
    assert content is not None
    return spec, content


def test_one_of_another_trial_or_device_is_none(kept_trial: tuple[TrialSpec, bytes]) -> None:
    spec, content = kept_trial
    assert Checkpoint.read(content, spec, CPU) is not None
    assert Checkpoint.read(content, spec.model_copy(update={"seed": 99}), torch.device("cuda")) is None
    other = TrialSpec.model_validate({**spec.model_dump(), "seed": 99})
    assert Checkpoint.read(content, other, CPU) is None


def test_a_batch_in_parts_takes_the_same_steps_but_for_rounding(make_trial: TrialMaker) -> None:
    spec = make_trial(dropout=0.0, optim={"lr": 1e-3})
    parts = list(run_trial(spec, device=CPU, accumulation=3))
    for part, record in zip(parts, whole(spec), strict=True):
        assert part.step_losses == pytest.approx(record.step_losses, abs=1e-4)
        assert part.accumulation == 3
