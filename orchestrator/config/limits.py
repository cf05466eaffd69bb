"""When a sweep gives a trial up, or itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trials.spec import Frozen, Positive


class Limits(Frozen):
    """When to give up; not part of a trial's identity. See `orchestrator.execution.trial_queue`.

    Attributes:
        lost: How often in a row a trial may lose its worker without an evaluation in between.
        unavailable: How often a trial is retried after a disk or network error.
        alike: The sweep stops if this many first trials all fail with the same error.
    """

    lost: Annotated[int, Field(ge=0)] = 10
    unavailable: Annotated[int, Field(ge=0)] = 4
    alike: Positive = 5
