"""What one trial of a sweep gets of a node, and when the sweep gives it up, or itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trials.spec import Frozen, Positive

MOST_CPUS = 4_096  # for a trial, which runs on one node; the largest nodes have 2,000 hardware threads


class Resources(Frozen):
    """The resources of one trial; not part of its identity.

    Attributes:
        cpus: Cores, and threads per process.
        gpus: ``auto``: as many trials share a GPU as its memory and the cores allow; none where CUDA does not work. 1
            for a whole one, a fraction for a share, 0 for none, which hides them; ``packed`` is ``auto`` that needs
            one.
        device: Which nodes: ``any``, a kind of accelerator as Ray names it (``A100``), ``cpu`` for nodes without, or
            ``one``, the kind with most room, so that all times can be compared.
    """

    cpus: Annotated[int, Field(gt=0, le=MOST_CPUS)] = 1
    gpus: Annotated[float, Field(ge=0, le=1)] | Literal["auto", "packed"] = "auto"
    device: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.:-]*$", max_length=80)] = "any"


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
