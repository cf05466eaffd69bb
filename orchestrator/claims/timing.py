"""Intervals and clocks of drivers that share a store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

BEAT_S = 10.0
STALE_S = 60.0  # six heartbeats: storage may be unavailable for a while
POLL_S = 1.0
PAUSE_S = 0.05
EXIT_S = 10.0

# CLOCK_MONOTONIC stops while a machine sleeps, and closing a laptop's lid is the most common way to suspend a driver.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Timing:
    """Intervals and clocks; `stale_s` must be the same for all drivers of a store.

    Attributes:
        beat_s: Seconds between two heartbeats.
        stale_s: Seconds without a heartbeat after which a driver counts as dead.
        poll_s: Seconds between two looks at the others.
        pause_s: Initial backoff in seconds when two ask at once.
        exit_s: Maximum seconds that leaving waits for the storage.
        now: A monotonic clock that keeps running while the machine sleeps.
        sleep: Waits for a number of seconds.
    """

    beat_s: float = BEAT_S
    stale_s: float = STALE_S
    poll_s: float = POLL_S
    pause_s: float = PAUSE_S
    exit_s: float = EXIT_S
    now: Callable[[], float] = _now
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        assert 0 < self.beat_s <= self.stale_s / 2, "a driver must not look dead between two heartbeats"


TIMING = Timing()
