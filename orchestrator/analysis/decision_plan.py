"""The plan of a sweep's decisions, fixed before its first look: what is asked, how sure an answer has to be, and when.

It belongs to the sweep: `goal` in its file declares it, the store keeps it with the sweep's trials, and terminal, API,
report, pages and searches decide by it. An option that overrides a value is named in the answer.

`resolved_points` says what a dev split can tell at all, however many seeds there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

FIRST_LOOK = 3  # seeds at the first look
ERROR = 0.05  # chance that a claim which is read off an end of an interval is wrong
MIN_SAVING = 0.10  # share of a cost below which a freeze is not worth having


@dataclass(frozen=True)
class PlannedLooks:
    """When a loss is looked at: after every seed from the first look on, also beyond what is planned.

    Attributes:
        first: Seeds at the first look, at least 2.
        planned: Seeds that the sweep declares, by which most of the error is spent (`looks`).

    Raises:
        ValueError: A value is out of range.
    """

    first: int
    planned: int

    def __post_init__(self) -> None:
        if not 2 <= self.first <= self.planned:
            raise ValueError(
                f"looks from {self.first} to {self.planned} seeds: the first needs 2 or more, the last no fewer"
            )


@dataclass(frozen=True)
class DecisionPlan:
    """What a sweep asks; see the module docstring.

    Attributes:
        tolerance: Acceptable loss in points (hundredths of the score), 0 or more.
        cost: What freezing should save, a key of `record.SAVED`; None for training FLOPs where they are recorded,
            else trainable parameters.
        min_saving: Share of that cost, 0 to 1, below which a freeze is not worth having. The settings that save at
            least so much are the family whose intervals hold together.
        error: Chance, over all looks, that some setting of the family is recommended although it truly loses more; the
            same chance holds for claims that a setting loses more.
        most_seeds: The seeds that are planned, 2 or more, fixed before the first look; None for as many as the sweep
            declares, which a plan that adds seeds to an earlier one writes down. Looks at further seeds use a share of
            the error that is reserved for them (`looks`).
        min_seeds: Seeds at the first look, 2 or more.

    Raises:
        ValueError: A value is out of range.
    """

    tolerance: float = 1.0
    cost: str | None = None
    min_saving: float = MIN_SAVING
    error: float = ERROR
    most_seeds: int | None = None
    min_seeds: int = FIRST_LOOK

    def __post_init__(self) -> None:
        rules = [
            (0 <= self.tolerance < math.inf, f"tolerance {self.tolerance:g} must be 0 or more"),
            (0 <= self.min_saving < 1, f"min_saving {self.min_saving:g} must be 0 or more and below 1"),
            (0 < self.error < 0.5, f"error {self.error:g} must be above 0 and below 0.5"),
            (self.most_seeds is None or self.most_seeds >= 2, f"most_seeds {self.most_seeds} must be 2 or more"),
            (self.min_seeds >= 2, f"min_seeds {self.min_seeds} must be 2 or more"),
        ]
        if wrong := [text for holds, text in rules if not holds]:
            raise ValueError("; ".join(wrong))

    def looks(self, planned: int = 0) -> PlannedLooks:
        """The seed counts at which losses are checked, if the sweep plans `planned` seeds."""
        most = self.most_seeds or max(planned, 2)
        return PlannedLooks(min(self.min_seeds, most), most)

    def as_json(self) -> dict[str, Any]:
        """The values that are not the defaults, by name: what a store keeps."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(DecisionPlan(), name)}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        """From `as_json`, also of a later version, whose further values are left out. Raises ValueError, TypeError."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})


DIFFERING = 0.05  # share of dev labels on which two settings differ; 2 to 10 % in our own sweeps
_NORMAL_95 = 1.96  # standard errors to each end of 95 %


def resolved_points(n: int) -> float:
    """The smallest loss, in points, that `n` labels tell from chance if a share `DIFFERING` of them differs."""
    return 100 * _NORMAL_95 * math.sqrt(DIFFERING / n) if n else math.inf


def labels_that_show(tolerance: float) -> int:
    """How many labels show at least one difference, 19 times in 20, if the loss is the tolerance, in points; two
    digits, rounded up.

    It is the question where none was seen (J. A. Hanley and A. Lippman-Hand, "If nothing goes wrong, is everything all
    right?" (1983)).
    """
    n = math.log(0.05) / math.log1p(-tolerance / 100)
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(math.ceil(n / step) * step)
