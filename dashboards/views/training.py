"""Training: how fast does it converge? Mean scores and losses after each evaluation."""

from __future__ import annotations

from dashboards.views.curves import LOSS, QUALITY
from dashboards.views.kit.part import SHARED_CONTROLS, View

VIEW = View(
    "/training",
    "Training",
    "How fast does it converge?",
    (QUALITY, LOSS),
    (*SHARED_CONTROLS, "axis"),
)
