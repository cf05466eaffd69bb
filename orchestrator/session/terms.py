"""Where the sweeps of one call run, with what limits, and in which store their rows are."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from orchestrator.config.console import SafeConsole
from orchestrator.session.bounds import Bounds
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec


@dataclass(frozen=True)
class Terms:
    """The terms of a launch.

    Attributes:
        console: Shows what it has to say.
        began: Its start on the monotonic clock, from which its time is counted.
    """

    where: ClusterSpec
    bounds: Bounds
    results: ResultStore
    console: SafeConsole
    began: float = field(default_factory=time.monotonic)

    def say(self, message: str) -> None:
        """Print a message of one or more lines, unwrapped."""
        self.console.say(message)

    @property
    def elapsed_s(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.began

    @property
    def time_left(self) -> float:
        """Seconds; infinite without a limit."""
        clock = self.bounds.clock(self.began)
        return math.inf if clock is None else clock()
