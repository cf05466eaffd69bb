"""Training: how fast does it converge? Mean scores and losses after each evaluation, and epochs to near the best."""

from __future__ import annotations

from dashboards.views.curves import LOSS, QUALITY
from dashboards.views.kit.part import SHARED_CONTROLS, View
from dashboards.views.speed import SPEED
from dashboards.views.step_losses import STEPS

VIEW = View(
    "/training",
    "Training",
    "How fast does it converge?",
    (QUALITY, LOSS, STEPS, SPEED),
    (*SHARED_CONTROLS, "axis"),
    takes_in=("/curves",),
)
