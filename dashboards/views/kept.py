"""Does it hold everywhere? The quality kept, as a share of full tuning, over all sweeps of a store.

A line is a question whose baseline learned its task. More lines than one tells apart become small multiples, a panel
for each corpus and model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.frames import EVERYTHING
from dashboards.data.selection import Selection, whole_sweep
from dashboards.views.across import share_of_layers
from dashboards.views.kit.axes import grid, panel_axes, with_note
from dashboards.views.kit.cells import KEYS, drawn_of
from dashboards.views.kit.labels import cell_name, freeze_column, name, numbers
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import DASHES, SYMBOLS, Figure, Look, axis, layout
from orchestrator.analysis.decide import has_learned
from orchestrator.analysis.describe import describe_cells
from orchestrator.config.quantities import counted
from trials.freeze.strategies import is_from_below

MOST_LINES, MOST_PANELS = 8, 24  # lines in a figure or panel
NEAR_CHANCE = 0.1  # of the way from the best constant prediction to a perfect one: below it a share says nothing
# Lee, Tang & Lin 2019, "What would Elsa do?": a quarter of the layers, the last ones, keep 90 % of the quality.
_LEE_SHARE, _LEE_QUALITY = 75.0, 90.0
_EACH, _COLUMNS = 230, 3  # height of a panel in pixels, panels in a row
_QUESTION = ["task", "corpus", "model", "train_size"]


class Kept(NamedTuple):
    """Quality by the share of the layers that are frozen.

    Attributes:
        table: One row per cell: `cells.KEYS`, `line`, `share` (% of the layers), `quality` (% of the baseline's mean)
            and `n`.
        lines: Of each line its name, and the corpus and model whose panel it is in.
    """

    table: pd.DataFrame
    lines: list[tuple[str, str]]
    note: str


def prepare_kept(selection: Selection) -> Kept:
    """The cells that freeze from the embeddings up: a line per sweep, task, corpus, model and train size."""
    tables: list[pd.DataFrame] = []
    lines: list[tuple[str, str]] = []
    left_out, several = 0, len(selection.snapshot.sweeps) > 1
    for sweep, key, rows in _questions(selection):
        cells = describe_cells(rows, KEYS, "score")
        base = cells[cells["cell"] == cells["baseline"]]
        if not len(base) or len(cells) < 2:
            continue
        if not _is_far_from_chance(selection, rows):
            left_out += 1
            continue
        quality = 100 * cells["mean"] / base["mean"].iloc[0]
        tables.append(cells.assign(line=len(lines), share=share_of_layers(cells), quality=quality))
        lines.append((", ".join([*[sweep] * several, *map(_word, key)]), f"{key[1]}, {key[2]}"))
    if len(lines) < 2:
        raise EmptyPartError("This needs two corpora, models or train sizes with a baseline that learned its task.")
    table = pd.concat(tables, ignore_index=True).sort_values(["line", "share", "embeddings"], kind="stable")
    note = f"Without {counted(left_out, 'question')} whose baseline is near chance." if left_out else ""
    return Kept(table.reset_index(drop=True), lines, note)


def _questions(selection: Selection) -> Iterator[tuple[str, tuple[Any, ...], pd.DataFrame]]:
    """The name of a sweep, what tells its question, and the completed trials of it that freeze from below."""
    snapshot = selection.snapshot
    for sweep in snapshot.sweeps.values():
        if sweep.name == EVERYTHING and len(snapshot.sweeps) > 1:
            continue
        done = whole_sweep(selection, sweep).completed
        kinds = list(zip(done["strategy"], done["n_layers"], strict=True))
        lowest = {kind for kind in {*kinds} if is_from_below(*kind)}
        below = done[[kind in lowest for kind in kinds]]
        for key, rows in below.groupby(_QUESTION, sort=False):
            yield sweep.name, key, rows


def _is_far_from_chance(selection: Selection, rows: pd.DataFrame) -> bool:
    """Whether the baseline is shown to have learned its task, and enough of it that a share of its score means much."""
    baseline = rows[rows["cell"] == rows["baseline"]]
    constant = baseline["constant_score"].mean() if "constant_score" in baseline else np.nan
    constant = 0.0 if np.isnan(constant) else constant
    if not baseline["score"].mean() - constant >= NEAR_CHANCE * (1 - constant):
        return False
    return has_learned(replace(selection, trials=baseline, every=None, column="score", scored="dev").with_sentences)


def _word(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def draw_kept(info: Kept, look: Look) -> Figure:
    """A line each, named in the legend, over the rule of thumb of Lee et al.; with many, a panel a corpus and model."""
    if len(info.lines) > MOST_LINES:
        return _small_multiples(info, look)
    data = [_line(info, n, n, look) for n in range(len(info.lines))]
    rule_of = {"text": "Lee et al. 2019: 75 % frozen keeps 90 %", "x": _LEE_SHARE, "y": _LEE_QUALITY, "showarrow": True,
             "arrowhead": 2, "ax": -60, "ay": 28, "font": {"size": 12, "color": look.muted}}  # fmt: skip
    if look.narrow:  # where no line runs yet
        text = str(rule_of["text"]).replace(": ", ":<br>")  # in one line it ends outside
        at = {"x": 0, "xanchor": "left", "align": "left", "yshift": -18}
        rule_of = {**rule_of, **at, "text": text, "showarrow": False}
    drawn = layout(
        look, x=axis("layers frozen (% of all)", range=[-4, 104]), y=axis("quality (% of full tuning)"), height=460,
        shapes=[_rule(look)], annotations=[rule_of], showlegend=True,
    )  # fmt: skip
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _small_multiples(info: Kept, look: Look) -> Figure:
    """The lines of each corpus and model by themselves, on the same axes; what a line is, one reads where it is."""
    panels: dict[str, list[int]] = {}
    for n, (_, panel) in enumerate(info.lines):
        panels.setdefault(panel, []).append(n)
    shown = list(panels)[:MOST_PANELS]
    columns = 1 if look.narrow else min(_COLUMNS, len(shown))
    x, y = axis("layers frozen (% of all)", range=[-4, 104]), axis("quality (%)")
    drawn = grid(look, x, y, [name(panel) for panel in shown], columns=columns, panel_height=_EACH)
    data: list[dict[str, Any]] = []
    for place, panel in enumerate(shown):
        at = panel_axes(place)
        data += [{**_line(info, n, k, look), **at} for k, n in enumerate(panels[panel][:MOST_LINES])]
        drawn["shapes"].append({**_rule(look), "xref": f"{at['xaxis']} domain", "yref": at["yaxis"]})
    drawn["showlegend"] = False
    drawn_lines = sum(len(panels[panel][:MOST_LINES]) for panel in shown)
    notes = [info.note, drawn_of(drawn_lines, len(info.lines), "lines"), "Dotted: 90 % (Lee et al. 2019)."]
    return with_note({"data": data, "layout": drawn}, look, *notes)


def _line(info: Kept, n: int, mark: int, look: Look) -> dict[str, Any]:
    rows = info.table[info.table["line"] == n]
    return {
        "type": "scatter", "mode": "lines+markers", "name": name(info.lines[n][0]),
        "x": numbers(rows["share"]), "y": numbers(rows["quality"]),
        "customdata": [[cell_name(row, several=False), row.n] for row in rows.itertuples()],
        "line": {"dash": DASHES[mark // 6 % len(DASHES)], "color": look.line(mark)},
        "marker": {"symbol": SYMBOLS[mark % len(SYMBOLS)], "size": 8, "color": look.line(mark)},
        "hovertemplate": "%{y:.1f} % of full tuning<br>%{customdata[0]} (n=%{customdata[1]})"
        "<extra>%{fullData.name}</extra>",
    }  # fmt: skip


def _rule(look: Look) -> dict[str, Any]:
    ink = {"color": look.muted, "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": _LEE_QUALITY, "y1": _LEE_QUALITY, "line": ink}


def kept_table(info: Kept) -> pd.DataFrame:
    """One row per setting."""
    t = info.table
    return pd.DataFrame(
        {
            "line": [info.lines[n][0] for n in t["line"]],
            "frozen": freeze_column(t["freeze"], t["n_layers"]),
            "layers frozen (%)": t["share"].round(1),
            "quality (% of full tuning)": t["quality"].round(2),
            "trials": t["n"],
        }
    )


KEPT = Part(
    "across-synthesis",
    "Quality kept, of all sweeps",
    "Share of the layers frozen from the embeddings up, against quality as a share of full tuning.",
    prepare_kept,
    kept_table,
    draw_kept,
    method="Mean score of a setting divided by that of its baseline, each over its seeds. Questions whose baseline is "
    "not shown to have learned, or is less than a tenth of the way from the best constant prediction to a perfect one, "
    "are left out: a share of a score near chance says nothing.",
    if_any=True,
    of_store=True,
    shows=whole_sweep,
)
