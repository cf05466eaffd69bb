"""Why: how much of the variance of the scores goes with each setting that a sweep varies."""

from __future__ import annotations

from dashboards.views.importance import IMPORTANCE, MEANS
from dashboards.views.kit.part import SHARED_CONTROLS, View
from dashboards.views.variance import VARIANCE

VIEW = View(
    "/why",
    "Why",
    "Which setting makes the difference?",
    (IMPORTANCE, MEANS, VARIANCE),
    SHARED_CONTROLS,
    takes_in=("/matters", "/layers"),
)
