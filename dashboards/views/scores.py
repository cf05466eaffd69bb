"""Scores: what does freezing cost? The scores of all trials by what is frozen, and the differences to the baseline."""

from __future__ import annotations

from dashboards.views.across import PANELS
from dashboards.views.depth_strip import STRIP
from dashboards.views.forest import FOREST
from dashboards.views.kept import KEPT
from dashboards.views.kit.part import SHARED_CONTROLS, View
from dashboards.views.score_table import TABLE
from dashboards.views.stability import STABILITY

VIEW = View(
    "/scores",
    "Scores",
    "What does freezing cost?",
    (STRIP, FOREST, TABLE, PANELS, KEPT, STABILITY),
    SHARED_CONTROLS,
    takes_in=("/depth", "/across"),
)
