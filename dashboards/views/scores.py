"""Scores: what does freezing cost? The scores of all trials by what is frozen, and the differences to the baseline.

Where more than the freeze varies, how much each setting matters.
"""

from __future__ import annotations

from dashboards.views.across import PANELS
from dashboards.views.depth_strip import STRIP
from dashboards.views.forest import FOREST
from dashboards.views.importance import IMPORTANCE, MEANS
from dashboards.views.kit.part import SHARED_CONTROLS, View
from dashboards.views.score_table import TABLE
from dashboards.views.stability import STABILITY

VIEW = View(
    "/scores",
    "Scores",
    "What does freezing cost?",
    (STRIP, FOREST, TABLE, PANELS, IMPORTANCE, MEANS, STABILITY),
    SHARED_CONTROLS,
)
