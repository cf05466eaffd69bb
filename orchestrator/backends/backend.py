"""The contract of a backend, which runs the trials of a launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from orchestrator.execution.events import Listener
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.plan import Plan
from trials.plugins.registry import Registry


@dataclass(frozen=True)
class Work(ABC):
    """A launch as its backend sees it.

    Attributes:
        results: Where workers save checkpoints and weights. Rows are the listener's.
        queue: Hands out attempts until it is over, and hears how each ended.
        stop: Says when to end early.
        most: Trials that this launch runs at most; None for no limit.
    """

    plan: Plan
    cluster: ClusterSpec
    results: ResultStore
    queue: TrialQueue
    stop: StopRequest
    most: int | None

    @abstractmethod
    def say(self, message: str) -> None:
        """Print a message of one or more lines, unwrapped."""

    @abstractmethod
    def heard(self, hourly: float) -> AbstractContextManager[Listener]:
        """What hears of the trials, an hour of one of which costs so much, within the block, up to the limits."""

    @abstractmethod
    def announce(self, dashboard: str) -> None:
        """Say to others in the store where the backend shows what it does; empty for nowhere."""

    @abstractmethod
    def commit(self) -> None:
        """Write the rows of what has ended to the store, which no first signal cuts off."""

    @abstractmethod
    def desert(self, error: Exception) -> None:
        """End the process from a thread, where the backend never returns, and keep all that an orderly end would."""


class Backend(Protocol):
    """Runs the trials of a queue and reports to what hears of them, until the queue is over or the launch stops."""

    def __call__(self, work: Work) -> None:
        """Run them.

        Raises:
            ConfigError: What it needs is not there.
        """
        ...


BACKENDS: Registry[Backend] = Registry("backend")
