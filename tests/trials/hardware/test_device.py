"""A trial's device is what it was given, whatever its process can see."""

from __future__ import annotations

import pytest
import torch

from trials.errors import MissingError
from trials.hardware.device import device_for


@pytest.mark.parametrize(("gpus", "device"), [(0.0, "cpu"), (0.25, "cuda:0"), (1.0, "cuda:0")])
def test_a_trial_without_a_gpu_leaves_those_that_it_sees_alone(
    gpus: float, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_for(gpus) == torch.device(device)


def test_a_gpu_that_torch_cannot_use_fails_the_trial_with_the_way_out() -> None:
    with pytest.raises(
        MissingError, match=r"was given 1 of a GPU on .*, but torch there sees none. Install a CUDA build"
    ):
        device_for(1.0)
