"""The scores against one setting at a time, to see which value of it goes with high scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection, of_corpus
from dashboards.views.drawing import (
    axis_name,
    cell_colour,
    cell_symbol,
    freeze_name,
    name,
    numbers,
    row_panels,
    with_note,
)
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis, dodge
from dashboards.views.varied import ALL_SAME, NOTE_WIDTH, evenly, level_name, levels, thinned, varied

MAX_DOTS, MAX_LEVELS = 3000, 12  # in the whole figure, in a panel
_ROW = 30  # pixels


class Slice(NamedTuple):
    """One panel.

    Attributes:
        names: Its values from the top.
        places: (trials,) which of them each has; NaN for a trial whose value is not drawn.
        means: (values,) mean score (0..1) over all trials.
        counts: (values,) trials.
    """

    label: str
    names: list[str]
    places: pd.Series
    means: list[float]
    counts: list[int]
    note: str


class Slices(NamedTuple):
    """The scores against each setting that varies.

    Attributes:
        trials: One row per completed trial, with `y` (score, 0..1).
    """

    trials: pd.DataFrame
    panels: list[Slice]
    value_name: str


def prepare_slices(selection: Selection) -> Slices:
    """Of a setting with many values, evenly spaced ones are drawn."""
    found = varied(of_corpus(selection))
    trials = found.trials.assign(y=found.trials[selection.column]).reset_index(drop=True)
    panels = [_slice(column, found.labels[column], trials) for column in found.varying]
    return Slices(trials, panels, selection.value_name)


def _slice(column: str, label: str, trials: pd.DataFrame) -> Slice:
    known = levels(trials[column])
    shown = [known[at] for at in np.unique(np.linspace(0, len(known) - 1, min(len(known), MAX_LEVELS)).round())
             .astype(int)]  # fmt: skip
    places = trials[column].map({value: float(n) for n, value in enumerate(shown)})
    scores = trials["y"].groupby(places)
    note = f"{len(shown)} of {len(known)} values of {label} are drawn." if len(shown) < len(known) else ""
    return Slice(
        label, [level_name(column, value) for value in shown], places,
        scores.mean().tolist(), scores.size().tolist(), note,
    )  # fmt: skip


def draw_slices(info: Slices, look: Look) -> Figure:
    """A panel per setting, a row per value, a dot per trial; all panels share the axis of the score."""
    titles = [f"<b>{name(panel.label, 28)}</b>" for panel in info.panels]
    rows = [[name(word, 24) for word in panel.names] for panel in info.panels]
    drawn = row_panels(look, axis(f"{info.value_name} (%)"), titles, rows, each=_ROW, showgrid=True)
    chosen = evenly(info.trials["y"], MAX_DOTS // len(info.panels))
    trials = info.trials.iloc[chosen]
    seeds = np.unique(info.trials["seed"], return_inverse=True)[1]
    shifts = np.array(dodge(seeds.tolist(), int(seeds.max()) + 1, width=0.5))[chosen]
    dots = _dots(trials, look)
    data = []
    for n, panel in enumerate(info.panels):
        at = {"type": "scatter", "mode": "markers", "yaxis": axis_name(n)}
        data.append({**at, **dots, "y": numbers(panel.places.iloc[chosen].to_numpy() + shifts)})
        data.append(
            {
                **at, "x": numbers(panel.means, 100), "y": list(range(len(panel.names))),
                "customdata": [[count] for count in panel.counts],
                "marker": {"symbol": "line-ns-open", "size": 22, "color": look.text, "line": {"width": 3}},
                "hovertemplate": "mean %{x:.2f} % of %{customdata[0]:,} trials<extra></extra>",
            }
        )  # fmt: skip
    notes_below = (thinned(len(chosen), len(info.trials)), *(panel.note for panel in info.panels))
    return with_note({"data": data, "layout": drawn}, look, *notes_below, width=NOTE_WIDTH)


def _dots(trials: pd.DataFrame, look: Look) -> dict[str, Any]:
    """What the dots of all panels share: the score, the trial, and the colour and symbol of what it freezes."""
    rows = list(trials.itertuples())
    words = [name(freeze_name(row.freeze)) for row in rows]
    return {
        "x": numbers(trials["y"], 100),
        "customdata": [[row.trial_id, word] for row, word in zip(rows, words, strict=True)],
        "marker": {
            "size": 7,
            "opacity": 0.75,
            "color": [cell_colour(look, row) for row in rows],
            "symbol": [cell_symbol(look, row) for row in rows],
        },
        "hovertemplate": "%{x:.2f} %, frozen: %{customdata[1]}<br>trial %{customdata[0]}<extra></extra>",
    }


def slices_table(info: Slices) -> pd.DataFrame:
    """One row per setting and value."""
    return pd.DataFrame(
        [
            {
                "setting": panel.label,
                "value": word,
                "trials": count,
                f"mean {info.value_name} (%)": round(100 * mean, 4),
            }
            for panel in info.panels
            for word, mean, count in zip(panel.names, panel.means, panel.counts, strict=True)
        ]
    )


SLICES = Part(
    "matters-slices",
    "Scores against each setting",
    "Each dot is one trial, each vertical mark a mean. Click a dot to open its trial.",
    prepare_slices,
    slices_table,
    draw_slices,
    why_empty=lambda info: "" if info.panels else ALL_SAME,
    method="Every panel shows the same trials, by another setting. Colour and symbol are those of what a trial "
    "freezes. The other settings differ within a row, so a mean is fair only where every value was tried with the same "
    "other settings; the importance above accounts for that.",
)
