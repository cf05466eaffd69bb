"""Loss against saving, with the tolerance between: the first figure that a visitor sees.

Each question has a panel with a loss axis of its own, which ends at three tolerances or at what is recommended: one
setting that loses 89 points would press all others flat. What lies beyond is an arrow at the edge, with its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dashboards.data.selection import COSTS, page_selection
from dashboards.views.kit.drawing import Figure, Look, axis, grid, name, panel_axes, with_note
from dashboards.views.kit.part import Part
from dashboards.views.loss_panels import LossPanel, LossPanels, PanelDrawing, losses_table, prepare_losses
from orchestrator.config.quantities import amount, points

_COLUMNS, _MOST_COLUMNS, _HIGH, _NARROW_HIGH = 2, 3, 400, 320  # panels in a row, also of a large screen; pixels of one
_HEADS = 90  # pixels between two rows of panels: the axis below and the two lines of a heading
_HANDLE = 56  # pixels right of a panel, where the handle of the tolerance stands
# Pixels of a panel on the narrowest screen of each kind. Marks that do not touch there do not touch on a wider one.
_ALONE, _BESIDE, _PHONE, _PRINTED = 850, 380, 228, 0.65  # the last as a share of a screen's


def draw_losses(info: LossPanels, look: Look) -> Figure:
    """A mark per setting: how much it saves, and its loss with the interval that decides. Below the line is tolerated.

    Filled marks are shown to be within the tolerance; the recommended one has a thick edge and always its strip.
    """
    panels = [panel for panel in info.panels if len(panel.table)]
    lowest = min(0.0, min(float(panel.table["saved"].min()) for panel in panels)) * 100
    right = max(float(panel.table["saved"].max()) for panel in panels) * 100
    columns = 1 if look.narrow else min(_MOST_COLUMNS if look.large else _COLUMNS, len(panels))
    pixels = _NARROW_HIGH if look.narrow else _HIGH
    across = (lowest - 4, right + 0.08 * (right - lowest) + 4)
    width = _PHONE if look.narrow else round((_ALONE if columns == 1 else _BESIDE) * (_PRINTED if look.printed else 1))
    room = width, pixels - _HEADS
    drawings = [PanelDrawing(panel, info.tolerance, across, room, look) for panel in panels]
    x = axis(f"saved of the {COSTS[info.cost]} (%)", **_between(across))
    ys = [axis("loss (points)", **_between(drawing.ends)) for drawing in drawings]
    drawn = grid(
        look, x, ys, [_heading(panel, len(panels), look) for panel in panels], columns=columns, panel_height=pixels
    )
    drawn["margin"]["r"] = _HANDLE
    data: list[dict[str, Any]] = []
    for n, drawing in enumerate(drawings):
        axes = panel_axes(n)
        data += [{**trace, **axes} for trace in drawing.traces()]
        drawn["shapes"] += drawing.tolerance_band(axes)
        drawn["annotations"] += drawing.annotations(axes)
    drawn["showlegend"] = False
    drawn["meta"] = {"tolerance": info.tolerance}  # the line to drag: assets/permafrost.js
    without = sum(panel.without for panel in panels)
    note = f"{amount(without, 'setting')} without a completed pair or a known saving: in the table." if without else ""
    return with_note({"data": data, "layout": drawn}, look, info.note, note)


def _between(ends: tuple[float, float]) -> dict[str, Any]:
    """An axis that ends there until it is zoomed. New rows move these ends, and plotly.js keeps a zoom over new data,
    but not over another `range`.
    """
    return {"autorangeoptions": {"minallowed": ends[0], "maxallowed": ends[1]}, "zeroline": True}


def _heading(panel: LossPanel, n: int, look: Look) -> str:
    answer = panel.answer
    where = ", ".join(filter(None, [f"<b>{name(answer.corpus)}</b>", name(answer.model, 30) if n > 1 else ""]))
    score = "" if np.isnan(panel.baseline) else f"; nothing frozen: {points(panel.baseline)} %"
    between = "<br>" if n > 1 or look.narrow else ", "
    return f"{where}{between}{answer.train_size:,} for training{score}"


READING: Sequence[tuple[str, str]] = (
    ("Thick edge", "the setting that is recommended."),
    ("Filled", "shown to lose no more than the tolerance; hollow: not shown, or not yet."),
    ("Green band", "losses within the tolerance. Drag its handle to ask with another one."),
    ("■ ■■□□□□", "what is frozen: the embeddings, then each layer; filled where frozen."),
)
LOSSES = Part(
    "answer-losses",
    "Loss against saving",
    "Filled marks are shown to lose no more than the tolerance, the dashed line; a thick edge is recommended.",
    prepare_losses,
    losses_table,
    draw_losses,
    reading=READING,
    method="Loss: the baseline's score minus the setting's, paired by seed, positive where freezing is worse. The "
    "interval decides: it is over seeds and dev sentences, both of which are samples (over seeds alone where the "
    "contributions of sentences were not recorded: then it holds on this dev set), and holds for all settings "
    "together and at every look from 3 seeds on. A setting is within the tolerance if its upper end is. Each panel "
    "ends at three tolerances, at what is recommended, or at the nearest setting where all lie beyond; arrows at its "
    "edge are settings beyond, with their loss. "
    "Click a mark to see its trials.",
    shows=page_selection,
)
