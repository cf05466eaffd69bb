"""When a running trial saves checkpoints: what a sweep's file says, and what a trial gets of it. Without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field

from trials.spec import Frozen


@dataclass(frozen=True)
class CheckpointTimes:
    """When a running trial saves checkpoints; by default never.

    Attributes:
        epochs: A checkpoint is due at the first evaluation after this many epochs; None for never by epochs.
        seconds: A checkpoint is due after this many seconds, even within an epoch; None for never by time.
        share: At every evaluation, as long as saving takes at most this share of the time; None for never.
    """

    epochs: float | None = None
    seconds: float | None = None
    share: float | None = None


NEVER = CheckpointTimes()


class CheckpointSpec(Frozen):
    """When a running trial saves checkpoints; not part of its identity.

    Attributes:
        epochs: Save one at the first evaluation after this many epochs.
        minutes: Save one after this many minutes, even within an epoch.
        auto: At every evaluation, while that takes at most a twentieth of the time, and every two minutes.
    """

    epochs: Annotated[float, Field(gt=0)] | None = None
    minutes: Annotated[float, Field(gt=0)] | None = None
    auto: bool = False

    @property
    def is_off(self) -> bool:
        """Whether no checkpoints are saved."""
        return self.epochs is None and self.minutes is None and not self.auto

    @property
    def times(self) -> CheckpointTimes | None:
        """When a trial saves checkpoints; None if never."""
        minutes = self.minutes or (2 if self.auto else None)
        seconds = None if minutes is None else 60 * minutes
        return None if self.is_off else CheckpointTimes(self.epochs, seconds, 0.05 if self.auto else None)


def _word(value: object) -> object:
    if value == "auto":
        return {"auto": True}
    return {} if value in ("off", False, None) else value  # YAML reads a bare `off` as false


CheckpointKey = Annotated[CheckpointSpec, BeforeValidator(_word)]
