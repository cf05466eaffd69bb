"""Answer: how much can be frozen? Loss against saving with the tolerance between, and what to freeze or to run."""

from __future__ import annotations

from typing import Any, NamedTuple

import dash_mantine_components as dmc
import numpy as np
import pandas as pd
from dash import html

from dashboards.data.page_query import COSTS
from dashboards.data.selection import Selection, of_page
from dashboards.views import coverage
from dashboards.views.kit.cards import (
    PageAnswers,
    answers_of_page,
    answers_table,
    cards_or_table,
    figures_of,
    headline,
    in_short,
    left_out,
    settings_of,
    settings_table,
)
from dashboards.views.kit.cells import with_cells
from dashboards.views.kit.drawing import (
    beside_marks,
    cell_colour,
    cell_name,
    cell_symbol,
    grid,
    interval_bars,
    name,
    numbers,
    panel_axes,
    with_note,
    with_strip,
)
from dashboards.views.kit.part import EmptyPartError, Part, View
from dashboards.views.kit.theme import Figure, Look, axis
from dashboards.views.sweep_list import SWEEPS, add_sweep_callbacks
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.wording import NO_CANDIDATES
from orchestrator.config.quantities import counted

_COLUMNS, _HIGH, _NARROW_HIGH = 2, 400, 320  # panels in a row; pixels of one
_HANDLE = (130, 12)  # pixels: width and half the height of the handle at the end of the line to drag
_FAR = 6.0  # settings that lose this many times the tolerance, or the widest interval near it, stand at the edge


class LossPanel(NamedTuple):
    """The settings of one question.

    Attributes:
        table: One row per setting with a loss and a saving: `cells.KEYS` and the columns of `cards.settings_of`.
        baseline: Mean score without freezing, 0..1; NaN if unknown.
        without: How many settings have no loss or no saving.
    """

    answer: Answer
    table: pd.DataFrame
    baseline: float
    without: int


class LossPanels(NamedTuple):
    """Loss against saving.

    Attributes:
        tolerance: In points.
        cost: A key of `page_query.COSTS`.
    """

    panels: tuple[LossPanel, ...]
    tolerance: float
    cost: str
    note: str


def prepare_losses(selection: Selection) -> LossPanels:
    """A panel for each corpus, model and train size that the address selects; of the selected set-up, if several."""
    page, cost = answers_of_page(selection), selection.query.cost
    if not page.answers:
        raise EmptyPartError(NO_CANDIDATES)
    trials = page.trials
    done = trials[(trials["state"] == "completed") & (trials["cell"] == trials["baseline"])]
    means = done.groupby("cell")["score"].mean()
    panels = [_panel(answer, trials, means) for answer in page.answers]
    if not any(len(panel.table) for panel in panels):
        neither = any(panel.without for panel in panels)
        reason = f"No setting has both a loss and its {COSTS[cost]} yet. " * neither
        raise EmptyPartError(f"{reason}{panels[0].answer.sentence}")
    return LossPanels(tuple(panels), selection.plan.tolerance, cost, left_out(page))


def _panel(answer: Answer, trials: pd.DataFrame, means: pd.Series) -> LossPanel:
    table = with_cells(settings_of(answer), trials)
    complete = table[np.isfinite(table["loss"]) & np.isfinite(table["saved"].astype("float64"))].reset_index(drop=True)
    baseline = means.reindex(table["baseline"].unique()).mean() if len(table) else np.nan
    return LossPanel(answer, complete, float(baseline), len(table) - len(complete))


def draw_losses(info: LossPanels, look: Look) -> Figure:
    """A mark per setting: how much it saves, and its loss with the interval that decides. Below the line is tolerated.

    Filled marks are shown to be within the tolerance; the recommended one has a ring. Settings that lose far more than
    the others stand at the upper edge, with their loss in words.
    """
    panels = [panel for panel in info.panels if len(panel.table)]
    low, high = _ends(panels, info.tolerance)
    left = min(0.0, min(float(panel.table["saved"].min()) for panel in panels)) * 100
    right = max(float(panel.table["saved"].max()) for panel in panels) * 100
    columns = 1 if look.narrow else min(_COLUMNS, len(panels))
    pixels = _NARROW_HIGH if look.narrow else _HIGH
    x = axis(f"saved of the {COSTS[info.cost]} (%)", range=[left - 4, right + 0.08 * (right - left) + 4], zeroline=True)
    y = axis("loss (points)", range=[low, high], zeroline=True)
    drawn = grid(look, x, y, [_heading(panel, len(panels)) for panel in panels], columns=columns, panel_height=pixels)
    data: list[dict[str, Any]] = []
    for n, panel in enumerate(panels):
        room = 820 if columns == 1 else 470, pixels - 90
        data += _marks(panel, n, look, (low, high), x["range"], room)
        drawn["shapes"] += _tolerated(info.tolerance, panel_axes(n), low, look)
    drawn["showlegend"] = False
    drawn["meta"] = {"tolerance": info.tolerance}  # the line to drag: assets/permafrost.js
    without = sum(panel.without for panel in panels)
    note = f"{counted(without, 'setting')} without a completed pair or a known saving: in the table." if without else ""
    return with_note({"data": data, "layout": drawn}, look, info.note, note)


def _ends(panels: list[LossPanel], tolerance: float) -> tuple[float, float]:
    """The ends of the axis of losses: a loss far beyond the tolerance and the intervals near it is not within."""
    table = pd.concat([panel.table for panel in panels])
    loss, low, high = (100 * table[name].astype("float64") for name in ("loss", "low", "high"))
    wide = (high - low)[np.isfinite(high - low)]
    far = _FAR * max(tolerance, float(wide.median()) if len(wide) else 0.0, 0.25)
    shown = loss <= far
    tops = np.concatenate([high[shown & np.isfinite(high)], loss[shown], [tolerance]])
    bottoms = np.concatenate([low[shown & np.isfinite(low)], loss[shown], [0.0]])
    top, bottom = min(float(tops.max()), 1.5 * far), max(float(bottoms.min()), -far)
    air = 0.08 * (top - bottom) or 0.5
    return bottom - air, top + air * (1 if shown.all() else 2)


def _heading(panel: LossPanel, n: int) -> str:
    answer = panel.answer
    where = ", ".join(filter(None, [f"<b>{name(answer.corpus)}</b>", name(answer.model, 30) if n > 1 else ""]))
    score = "" if np.isnan(panel.baseline) else f"; nothing frozen: {100 * panel.baseline:.2f} %"
    between = "<br>" if n > 1 else ", "
    return f"{where}{between}{answer.train_size:,} for training{score}"


def _tolerated(tolerance: float, at: dict[str, str], low: float, look: Look) -> list[dict[str, Any]]:
    across = {"xref": f"{at['xaxis']} domain", "yref": at["yaxis"], "x0": 0, "x1": 1, "layer": "below"}
    band = {"type": "rect", "y0": low, "y1": tolerance, "fillcolor": look.tolerated, "line": {"width": 0}}
    dashed = {"color": look.text, "width": 1.5, "dash": "dash"}
    return [{**across, **band}, {**across, "type": "line", "y0": tolerance, "y1": tolerance, "line": dashed}]


def _marks(
    panel: LossPanel, n: int, look: Look, ends: tuple[float, float], across: list[float], room: tuple[int, int]
) -> list[dict[str, Any]]:
    low, high = ends
    table = _dodged(panel.table.assign(mean=panel.table["loss"]), across[1] - across[0])
    far, place = 100 * table["loss"] > high, panel_axes(n)
    inside = table.assign(low=table["low"].clip(lower=low / 100), high=table["high"].clip(upper=high / 100))
    baseline: dict[str, Any] = {
        "type": "scatter", "mode": "markers", "name": "nothing frozen", **place, "x": [0], "y": [0],
        "marker": {"symbol": "circle", "size": 11, "color": look.text},
        "hovertemplate": "nothing frozen<extra></extra>",
    }  # fmt: skip
    data = [baseline]
    if (near := inside[~far]).size:
        labels = _labels(near, panel, look, ends, across, room)
        data.append(
            {
                "type": "scatter", "mode": "markers+text", "name": "settings", **place,
                "x": numbers(near["x"], digits=2), "y": numbers(near["loss"], 100, 3),
                "error_y": interval_bars(near, look.muted, scale=100), "text": [text for text, _ in labels],
                "textposition": [side for _, side in labels], "cliponaxis": False, "customdata": _hover(near),
                "marker": _drawn_as(near, panel, look), "hovertemplate": _TEMPLATE,
            }
        )  # fmt: skip
    if (away := table[far]).size:
        data.append(
            {
                "type": "scatter", "mode": "markers+text", "name": "far beyond", **place,
                "x": numbers(away["x"], digits=2), "y": [high - 0.04 * (high - low)] * len(away),
                "text": [f"+{100 * row.loss:.1f}" for row in away.itertuples()], "textposition": "middle left",
                "cliponaxis": False, "customdata": _hover(away), "hovertemplate": _TEMPLATE,
                "marker": {
                    "symbol": "triangle-up", "size": 11, "color": [cell_colour(look, row) for row in away.itertuples()],
                },
            }
        )  # fmt: skip
    return data


def _dodged(table: pd.DataFrame, width: float) -> pd.DataFrame:
    """With `x`: the saving in percent, of settings that save the same beside each other."""
    saved = 100 * table["saved"].astype("float64")
    near = (saved / (0.01 * width)).round()
    place, n = saved.groupby(near).cumcount(), near.map(near.value_counts())
    return table.assign(x=saved + 0.016 * width * (place - (n - 1) / 2))


_TEMPLATE = "%{customdata[1]}<extra>%{customdata[0]}</extra>"


def _drawn_as(rows: pd.DataFrame, panel: LossPanel, look: Look) -> dict[str, Any]:
    """Filled where it is shown to be within the tolerance, with a ring around the recommended one."""
    colours = [cell_colour(look, row) for row in rows.itertuples()]
    chosen = [panel.answer.decided and row.freeze == panel.answer.freeze for row in rows.itertuples()]
    symbols = [cell_symbol(look, row).removesuffix("-open") for row in rows.itertuples()]
    return {
        "symbol": [symbol if ok else f"{symbol}-open" for symbol, ok in zip(symbols, rows["qualifies"], strict=True)],
        "size": [17 if best else 12 for best in chosen],
        "color": colours,
        "line": {
            "width": [3 if best else 2 for best in chosen],
            "color": [look.text if best else colour for best, colour in zip(chosen, colours, strict=True)],
        },
    }


def _labels(
    rows: pd.DataFrame,
    panel: LossPanel,
    look: Look,
    ends: tuple[float, float],
    across: list[float],
    room: tuple[int, int],
) -> list[tuple[str, str]]:
    """The layer strip of each setting and where it stands; those that the answer names first, none where no room is."""
    width, height = (270, room[1]) if look.narrow else room
    x = width * (rows["x"] - across[0]) / (across[1] - across[0])
    y = height * (100 * rows["loss"] - ends[0]) / (ends[1] - ends[0])
    pairs = zip(rows["freeze"], rows["n_layers"], strict=True)
    labels = [with_strip(str(freeze), int(n), "").rstrip() or name(freeze, 24) for freeze, n in pairs]
    named = (panel.answer.freeze, panel.answer.runner_up, panel.answer.about)
    first = [n for n, freeze in enumerate(rows["freeze"]) if freeze in named]
    order = first + [n for n in range(len(rows)) if n not in first]
    low, high = (height * (100 * rows[end] - ends[0]) / (ends[1] - ends[0]) for end in ("low", "high"))
    line = height * (panel.answer.tolerance - ends[0]) / (ends[1] - ends[0])
    drawn = [(at - 1, at + 1, *bar) for at, *bar in zip(x, low, high, strict=True) if np.isfinite(bar).all()]
    drawn.append((width - _HANDLE[0], width, line - _HANDLE[1], line + _HANDLE[1]))
    sides = beside_marks(list(zip(x, y, strict=True)), labels, width, order, drawn)
    return [(text if side else "", side or "top center") for text, side in zip(labels, sides, strict=True)]


def _hover(rows: pd.DataFrame) -> list[list[str]]:
    return [[cell_name(row, several=False), _said(row)] for row in rows.itertuples()]


def _said(row: Any) -> str:
    loss = f"loses {100 * row.loss:.2f} points" if row.loss >= 0 else f"gains {-100 * row.loss:.2f} points"
    has_interval = np.isfinite(row.low) and np.isfinite(row.high)
    ends = f" ({100 * row.low:.2f} to {100 * row.high:.2f})" if has_interval else ", no interval yet"
    return f"{loss}{ends}<br>saves {100 * row.saved:.1f} %<br>{name(row.verdict, 80)}, n={row.n_pairs}"


def losses_table(info: LossPanels) -> pd.DataFrame:
    """The settings of all answers, those without a loss or a saving included."""
    return settings_table([panel.answer for panel in info.panels], COSTS[info.cost])


class Cards(NamedTuple):
    """The answers of the page; the selection has their sweep and store."""

    found: PageAnswers
    selection: Selection


def prepare_cards(selection: Selection) -> Cards:
    """Those of the figure."""
    page = answers_of_page(selection)
    if not page.answers:
        raise EmptyPartError(NO_CANDIDATES)
    return Cards(page, selection)


def cards_body(info: Cards) -> Any:
    """Cards, or from five answers on a table, and one command for what is not decided."""
    sweep = info.selection.sweep
    assert sweep is not None
    return cards_or_table(info.found.answers, sweep, info.selection.snapshot.address)


def first_glance(selection: Selection) -> Any:
    """The answer in a sentence, and how far an unfinished sweep is."""
    if selection.sweep is None:
        store = selection.snapshot.address
        text = f"{store} has no sweep yet. Run one: permafrost launch --store {store}"
        return dmc.Alert(text, title="Empty store", color="blue", variant="outline")
    lines = [html.P(_sentence(selection), className="sentence-first")]
    return html.Div([*lines, *coverage.progress(selection)])


def _sentence(selection: Selection) -> str:
    if not (selection.sweep is not None and (selection.sweep.trials["state"] == "completed").any()):
        return "No trial has completed yet, so there is no answer."
    try:
        answers = answers_of_page(selection).answers
    except EmptyPartError as error:
        return str(error)
    if len(answers) == 1:
        return f"{headline(answers[0])}. {figures_of(answers[0])}"
    return in_short(answers)


def page_sentences(selection: Selection) -> list[str]:
    """The answers in full, for files; none if there are none."""
    try:
        return [f"{answer.heading}: {answer.sentence}" for answer in answers_of_page(selection).answers]
    except EmptyPartError:
        return []


LOSSES = Part(
    "answer-losses",
    "Loss against saving",
    "Filled marks are shown to lose no more than the tolerance, the dashed line; the ring is recommended.",
    prepare_losses,
    losses_table,
    draw_losses,
    method="Loss: the baseline's score minus the setting's, paired by seed, positive where freezing is worse. The "
    "interval decides: it is over seeds and dev sentences, both of which are samples (over seeds alone where the "
    "contributions of sentences were not recorded: then it holds on this dev set), and holds for all settings "
    "together and at every look from 3 seeds on. A setting is within the tolerance if its upper end is. Triangles "
    "lose more than the figure has room for.",
    of_store=True,
    shows=of_page,
)
ANSWERS = Part(
    "answer-cards",
    "What to freeze",
    "The setting that saves most among those shown to lose no more than the tolerance.",
    prepare_cards,
    lambda info: answers_table(info.found.answers),
    body=lambda info, look: cards_body(info),
    note=lambda info: left_out(info.found),
    of_store=True,
    shows=of_page,
)
VIEW = View(
    "/",
    "Answer",
    "How much can be frozen, and what does that save?",
    (LOSSES, ANSWERS, coverage.FAILURES, SWEEPS, coverage.COVERAGE),
    ("sweep", "corpus", "model", "setup", "size", "tolerance", "cost"),
    content=first_glance,
    add_callbacks=add_sweep_callbacks,
    of_all=("corpus", "model", "size"),
    takes_in=("/choose",),
    why_dimmed=lambda selection: "",
    shows=of_page,
)
