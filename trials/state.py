"""How an attempt at a trial ended."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """How an attempt ended. Only `completed` may enter a mean; after `lost` and `unavailable` it is tried again."""

    COMPLETED = "completed"
    PRUNED = "pruned"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    LOST = "lost"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
