"""What every part of the GPU run is given."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the part that launches the product runs before this run imports torch
    import torch

    from tests.lab.gpu.workload import Workload


REHEARSED = 10.0  # times as long a rehearsal may take, on a CPU that others use, too


class NoTimeError(Exception):
    """The time of a part is up: what it has left to do is not run, what it has found holds."""


@dataclass(frozen=True)
class PartContext:
    """The conditions of a part.

    Attributes:
        out: The folder of results.
        work: A folder for models and caches.
        rehearse: Whether everything is tiny.
        budget_s: Seconds that the part may take.
    """

    out: Path
    work: Path
    rehearse: bool
    budget_s: float
    began: float = field(default_factory=time.monotonic)

    @property
    def workload(self) -> Workload:
        """The trials to measure."""
        from tests.lab.gpu.workload import Workload

        return Workload(self.work / "models", self.rehearse)

    @property
    def device(self) -> torch.device:
        """The first GPU, set up as for a trial, else the CPU."""
        from trials.hardware.device import default_device, start_device

        return start_device(default_device())

    @property
    def on_gpu(self) -> bool:
        """Whether there is a GPU."""
        return self.device.type == "cuda"

    def left_s(self, reserve: float = 0.0) -> float:
        """Seconds left, less a reserve; at least one."""
        return max(1.0, self.budget_s - reserve - (time.monotonic() - self.began))
