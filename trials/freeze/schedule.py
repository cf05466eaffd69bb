"""Freeze by a timetable."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, field_validator

from trials.freeze.rules import FREEZING_RULES, FreezingRule, LayerHistory


@FREEZING_RULES.register("schedule")
class Schedule(FreezingRule):
    """The depth in each of equally long parts of the training: `[0, 2, 4]` freezes two layers after the first third.

    The simplest rule: it looks at nothing. If it does as well as those that measure, their measuring buys nothing.

    Attributes:
        depths: Frozen layers in each part, never fewer than before.
    """

    name: Literal["schedule"] = "schedule"
    depths: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=1000)]

    @field_validator("depths")
    @classmethod
    def _never_fewer(cls, depths: tuple[int, ...]) -> tuple[int, ...]:
        if any(later < earlier for earlier, later in pairwise(depths)):
            raise ValueError(f"{list(depths)} unfreezes layers; `thaw_every` does that")
        return depths

    @property
    def n_intervals(self) -> int:
        """As many as depths."""
        return len(self.depths)

    @property
    def first_depth(self) -> int:
        """The first of the depths."""
        return self.depths[0]

    @property
    def known_depths(self) -> tuple[int, ...]:
        """Every depth that it freezes."""
        return self.depths

    def depth(self, seen: LayerHistory) -> int:
        """The depth of the part that begins."""
        return self.depths[min(len(seen.rows), len(self.depths) - 1)]

    def refusal(self, n_layers: int) -> str | None:
        """It must not freeze more layers than there are."""
        deepest = max(self.depths)
        return f"depth {deepest} is beyond the {n_layers} layers of the model." if deepest > n_layers else None
