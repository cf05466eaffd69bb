"""When a running trial saves checkpoints; without torch, as a sweep's file says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointTimes:
    """When a running trial saves checkpoints; by default never.

    Attributes:
        epochs: At the first evaluation after so many epochs; None for never by epochs.
        seconds: After so many seconds, inside an epoch if need be; None for never by time.
        share: At every evaluation, as long as saving takes at most this share of the time; None for never.
    """

    epochs: float | None = None
    seconds: float | None = None
    share: float | None = None


NEVER = CheckpointTimes()
