"""Recorders of steps for a CPU, in place of CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable

import torch

from trials.training.step_graphs import GraphRecorder


class Rerunning:
    """A recorder for a CPU: what it records is run again, on the buffers it was recorded with, into one result."""

    def __init__(self) -> None:
        self.warm_ups = self.recorded = self.replays = 0

    def warm_up(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
        self.warm_ups += 1
        return step()

    def record(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        self.recorded += 1
        result = torch.zeros(())

        def replay() -> torch.Tensor:
            self.replays += 1
            return result.copy_(step())

        return replay


class Recorders(list[Rerunning]):
    """Every recorder that was made."""

    def new(self) -> GraphRecorder:
        self.append(Rerunning())
        return self[-1]
