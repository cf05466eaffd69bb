"""The panels of the figure of losses: the settings of a question, its axis, its marks, and where a label has room."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import COSTS, PageQuery, Selection
from dashboards.views.kit.cards import answers_of_page, hidden_answers_note, settings_of, settings_table
from dashboards.views.kit.cells import with_cells
from dashboards.views.kit.drawing import (
    Look,
    cell_colour,
    cell_name,
    freeze_column,
    interval_bars,
    name,
    numbers,
    short,
)
from dashboards.views.kit.part import EmptyPartError
from orchestrator.analysis.answer import Answer
from orchestrator.analysis.freeze_names import FROZEN, TRAINED
from orchestrator.analysis.setting_phrases import loss_phrase
from orchestrator.analysis.wording import NO_CANDIDATES

_LETTER, _SQUARE, _LINE, _MARKER = 7.0, 11.5, 16, 8  # pixels
_SIDES = ("right", "left", "center")
Box = tuple[float, float, float, float]  # left, right, bottom, top


def label_places(
    at: Sequence[tuple[float, float]],
    names: Sequence[str],
    room: Box,
    order: Sequence[int],
    lines: Sequence[Box] = (),
) -> list[str]:
    """Where the name of each mark stands, as `textposition`; empty for one that would cover another mark or name.

    Args:
        at: Of the marks, in pixels.
        room: Of the panel.
        order: Those that are placed first.
        lines: What names may not cover, too.
    """
    taken: list[Box] = [(x - _MARKER, x + _MARKER, y - _MARKER, y + _MARKER) for x, y in at] + list(lines)
    positions = [""] * len(at)
    for n in order:
        for place, box in _places_around(*at[n], label_width(names[n])):
            fits = box[0] >= room[0] and box[1] <= room[1] and box[2] >= room[2] and box[3] <= room[3]
            if fits and not any(_overlap(box, other) for other in taken):
                positions[n] = place
                taken.append(box)
                break
    return positions


def label_width(label: str) -> float:
    """Pixels that a label takes in a figure; the squares of a layer strip are wider than letters."""
    squares = sum(label.count(square) for square in (FROZEN, TRAINED))
    return _SQUARE * squares + _LETTER * (len(label) - squares)


def _places_around(x: float, y: float, wide: float) -> Iterator[tuple[str, Box]]:
    """The places beside, above and below a marker, those first that its intervals do not cross."""
    starts = {"right": x + _MARKER / 2, "left": x - _MARKER / 2 - wide, "center": x - wide / 2}
    for side in _SIDES:
        for up, bottom in (("top", y + _MARKER), ("bottom", y - _MARKER - _LINE)):
            yield f"{up} {side}", (starts[side], starts[side] + wide, bottom, bottom + _LINE)


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]


class LossPanel(NamedTuple):
    """The settings of one question.

    Attributes:
        table: One row per setting with a loss and a saving: `cells.KEYS` and the columns of `cards.settings_of`.
        baseline: Mean score without freezing, 0..1; NaN if unknown.
        without: How many settings have no loss or no saving.
        trials: Address of the page that lists its trials, without a filter.
    """

    answer: Answer
    table: pd.DataFrame
    baseline: float
    without: int
    trials: PageQuery


class LossPanels(NamedTuple):
    """Loss against saving.

    Attributes:
        tolerance: In points.
        cost: A key of `selection.COSTS`.
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
    panels = [_panel(answer, trials, means, selection.url_query) for answer in page.answers]
    if not any(len(panel.table) for panel in panels):
        neither = any(panel.without for panel in panels)
        reason = f"No setting has both a loss and its {COSTS[cost]} yet. " * neither
        raise EmptyPartError(f"{reason}{panels[0].answer.sentence}")
    return LossPanels(tuple(panels), selection.plan.tolerance, cost, hidden_answers_note(page))


def _panel(answer: Answer, trials: pd.DataFrame, means: pd.Series, url_query: PageQuery) -> LossPanel:
    table = with_cells(settings_of(answer), trials)
    complete = table[np.isfinite(table["loss"]) & np.isfinite(table["saved"].astype("float64"))].reset_index(drop=True)
    baseline = means.reindex(table["baseline"].unique()).mean() if len(table) else np.nan
    here = url_query.but(
        corpus=f"{answer.task} {answer.corpus}", model=answer.model, setup=answer.setup, size=(answer.train_size,)
    )
    return LossPanel(answer, complete, float(baseline), len(table) - len(complete), here)


def losses_table(info: LossPanels) -> pd.DataFrame:
    """The settings of all answers, also those without a `loss` or a saving."""
    return settings_table([panel.answer for panel in info.panels], COSTS[info.cost])


_TOLERANCES, _LEAST_TOLERANCE = 3.0, 1 / 3  # end of the axis in tolerances, each counted as at least these points
_LEADERS = tuple((right, up) for up in (36, -36, 64, -64, 92) for right in (0, 70, -70))  # pixels from a mark


def ends_of(panel: LossPanel, tolerance: float) -> tuple[float, float]:
    """The ends of a panel's axis of losses, in points."""
    limit = _TOLERANCES * max(tolerance, _LEAST_TOLERANCE)
    table = panel.table
    loss, low, high = (table[column].astype("float64") for column in ("loss", "low", "high"))
    chosen = _recommended(panel)
    best = float(pd.concat([loss[chosen], high[chosen]]).max()) if chosen.any() else 0.0
    if loss.min() > limit:  # all lie beyond: an empty panel would show nothing
        best = float(loss.min())
    shown = loss.between(-limit, max(limit, best))
    tops = [1.3 * tolerance, *high[shown & np.isfinite(high)], *loss[shown]]
    bottoms = [0.0, *low[shown & np.isfinite(low)], *loss[shown]]
    top, bottom = max(min(max(tops), limit), best, 0.3), max(min(bottoms), -limit)
    air = 0.08 * (top - bottom)
    return bottom - air, top + air * (1 if shown.all() else 2.5)  # arrows stand above the tolerated and the intervals


def _recommended(panel: LossPanel) -> pd.Series:
    """(settings,) which one is recommended."""
    return (panel.table["freeze"] == panel.answer.freeze) & panel.answer.decided


@dataclass(frozen=True)
class PanelDrawing:
    """What one panel draws.

    Attributes:
        tolerance: In points.
        across: Ends of the axis of savings, in percent.
        room: Width and height in pixels.
    """

    panel: LossPanel
    tolerance: float
    across: tuple[float, float]
    room: tuple[int, int]
    look: Look

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The ends of the axis of losses, in points."""
        return ends_of(self.panel, self.tolerance)

    @cached_property
    def marks(self) -> pd.DataFrame:
        """The settings with `x` (saving in percent, of those that save the same beside each other), `y` (points; at
        an edge for what lies beyond), `beyond` (1 above, -1 below, else 0), `label`, `recommended`, and the ends of
        intervals cut to the panel.
        """
        table, (low, high), width = self.panel.table, self.ends, self.across[1] - self.across[0]
        saved, loss = 100 * table["saved"].astype("float64"), table["loss"]
        near = (saved / (0.01 * width)).round()
        place, n = saved.groupby(near).cumcount(), near.map(near.value_counts())
        beyond = (loss > high).astype(int) - (loss < low)
        edge = 0.04 * (high - low)
        strips = [
            frozen.squares or short(frozen, 24) for frozen in freeze_column(table["freeze_spec"], table["n_layers"])
        ]
        return table.assign(
            x=saved + 0.016 * width * (place - (n - 1) / 2),
            y=loss.mask(beyond > 0, high - edge).mask(beyond < 0, low + edge),
            beyond=beyond,
            label=[f"{strip} {a:+.1f}" if far else strip for strip, a, far in zip(strips, loss, beyond, strict=True)],
            recommended=_recommended(self.panel),
            low=table["low"].clip(lower=low),
            high=table["high"].clip(upper=high),
        )

    def traces(self) -> list[dict[str, Any]]:
        """The baseline, the settings with their intervals, and arrows for what lies beyond the edges."""
        look, (labels, sides) = self.look, self.labels
        shown = [text if side else "" for text, side in zip(labels, sides, strict=True)]
        marks = self.marks.assign(text=shown, side=sides)
        baseline: dict[str, Any] = {
            "type": "scatter", "mode": "markers", "name": "nothing frozen", "x": [0], "y": [0],
            "marker": {"symbol": "circle", "size": 11, "color": look.text},
            "customdata": [["nothing frozen", "", self._address("none")]],
            "hovertemplate": "nothing frozen<extra></extra>",
        }  # fmt: skip
        inside, away = marks[marks["beyond"] == 0], marks[marks["beyond"] != 0]
        data = [baseline]
        if len(inside):
            bars = interval_bars(inside.assign(mean=inside["loss"]), look.muted)
            data.append(
                {**self._label_traces(inside), "name": "settings", "error_y": bars, "marker": _drawn_as(inside, look)}
            )
        ends = zip(("low", "high"), self.ends, ("arrow-down", "arrow-up"), strict=True)
        cut = [(x, end, symbol) for column, end, symbol in ends for x in inside.loc[inside[column] == end, "x"]]
        if cut:
            x, y, symbols = zip(*cut, strict=True)
            data.append({
                "type": "scatter", "mode": "markers", "name": "intervals that go on", "hoverinfo": "skip",
                "x": numbers(x, digits=2), "y": numbers(y, digits=3), "cliponaxis": False,
                "marker": {"symbol": list(symbols), "size": 9, "color": look.muted},
            })  # fmt: skip
        if len(away):
            ways = zip(away["beyond"], away["within"], strict=True)
            arrow = {
                "symbol": [f"triangle-{'up' if up > 0 else 'down'}{'' if ok else '-open'}" for up, ok in ways],
                "size": 11, "color": [cell_colour(look, row) for row in away.itertuples()], "line": {"width": 2},
            }  # fmt: skip
            data.append({**self._label_traces(away), "name": "far beyond", "marker": arrow})
        return data

    def _label_traces(self, marks: pd.DataFrame) -> dict[str, Any]:
        return {
            "type": "scatter", "mode": "markers+text",
            "x": numbers(marks["x"], digits=2), "y": numbers(marks["y"], digits=3),
            "text": marks["text"].tolist(), "textposition": [side or "bottom center" for side in marks["side"]],
            "cliponaxis": False, "hovertemplate": "%{customdata[1]}<extra>%{customdata[0]}</extra>",
            "customdata": [
                [cell_name(row, several=False), _hover_text(row), self._address(frozen)]
                for row, frozen in zip(
                    marks.itertuples(), freeze_column(marks["freeze_spec"], marks["n_layers"]), strict=True
                )
            ],
        }  # fmt: skip

    def _address(self, frozen: str) -> str:
        """The address of the page with the trials of a setting; a click on its mark opens it."""
        named = {"freeze": {"filterType": "text", "type": "equals", "filter": frozen}}
        return f"/trials{self.panel.trials.but(filters=json.dumps(named)).search()}"

    @cached_property
    def labels(self) -> tuple[list[str], list[str]]:
        """What stands beside each mark, and where: those that the answer names first, nothing where no room is.

        What lies beyond an edge has at least its number.
        """
        marks, answer, (width, height) = self.marks, self.panel.answer, self.room
        texts = marks["label"].tolist()
        named = marks["freeze"].isin([answer.freeze, answer.runner_up, answer.about])
        rank = (3 - marks["recommended"] * 3 - named * 2 - (marks["beyond"] != 0) * 1).tolist()

        def place_labels() -> list[str]:
            order, lines = sorted(range(len(marks)), key=rank.__getitem__), self._lines(marks)
            return label_places(self._pixels(marks), texts, (0, width, 0, height), order, lines)

        sides = place_labels()
        bare = [n for n, (side, beyond) in enumerate(zip(sides, marks["beyond"], strict=True)) if beyond and not side]
        if not bare:
            return texts, sides
        for n in bare:
            texts[n], rank[n] = texts[n].rpartition(" ")[2], -1 - n  # those at the right edge have one side alone
        sides = place_labels()
        return texts, [side or ("bottom left" if n in bare else "") for n, side in enumerate(sides)]

    def _pixels(self, marks: pd.DataFrame) -> list[tuple[float, float]]:
        """The place of each mark in pixels from the panel's corner below."""
        (first, last), (low, high), (width, height) = self.across, self.ends, self.room
        x = width * (marks["x"] - first) / (last - first)
        y = height * (marks["y"] - low) / (high - low)
        return list(zip(x, y, strict=True))

    def _lines(self, marks: pd.DataFrame) -> list[Box]:
        """The intervals and the mark of the baseline."""
        (first, last), (low, high), (width, height) = self.across, self.ends, self.room
        bars = []
        for (x, _), row in zip(self._pixels(marks), marks.itertuples(), strict=True):
            if row.beyond == 0 and np.isfinite(row.low) and np.isfinite(row.high):
                ends = (height * (end - low) / (high - low) for end in (row.low, row.high))
                bars.append((x - 4, x + 4, *ends))
        x, y = width * -first / (last - first), height * -low / (high - low)
        return [*bars, (x - 8, x + 8, y - 8, y + 8)]

    def annotations(self, at: dict[str, str]) -> list[dict[str, Any]]:
        """The number of the tolerance, and the strip of the recommended mark where it has no room beside it."""
        unit = {"xref": at["xaxis"], "yref": at["yaxis"], "font": {"size": 12, "color": self.look.text}}
        limit = {
            **unit, "xref": f"{at['xaxis']} domain", "x": 1, "xanchor": "left", "xshift": 4, "y": self.tolerance,
            "yanchor": "middle", "showarrow": False, "text": f"{self.tolerance:g}",
        }  # fmt: skip
        marks = self.marks
        lacking = [n for n, side in enumerate(self.labels[1]) if marks["recommended"].iloc[n] and not side]
        return [limit, *({**unit, **self._led_label(n)} for n in lacking)]

    def _led_label(self, n: int) -> dict[str, Any]:
        """A label at the end of a line from the mark, at the place where it covers least."""
        marks = self.marks
        points, row, (width, height) = self._pixels(marks), marks.iloc[n], self.room
        taken = [(x - 8, x + 8, y - 8, y + 8) for x, y in points] + self._lines(marks)
        half = label_width(row["label"]) / 2

        def covered_area(leader: tuple[int, int]) -> float:
            x, y = points[n][0] + leader[0], points[n][1] + leader[1]
            outside = x - half < 0 or x + half > width or y < 8 or y > height - 8
            hits = sum(
                x - half < right and west < x + half and y - 9 < top and low < y + 9 for west, right, low, top in taken
            )
            return hits + 10 * outside

        right, up = min(_LEADERS, key=covered_area)
        return {
            "text": row["label"], "x": round(float(row["x"]), 2), "y": round(float(row["y"]), 3), "showarrow": True,
            "arrowhead": 0, "arrowwidth": 1, "arrowcolor": self.look.muted, "ax": right, "ay": -up, "standoff": 9,
        }  # fmt: skip

    def tolerance_band(self, at: dict[str, str]) -> list[dict[str, Any]]:
        """The band of losses within the tolerance, and its edge."""
        across = {"xref": f"{at['xaxis']} domain", "yref": at["yaxis"], "x0": 0, "x1": 1, "layer": "below"}
        band = {"type": "rect", "y0": self.ends[0], "y1": self.tolerance, "fillcolor": self.look.tolerance_colour}
        dashed = {"color": self.look.text, "width": 1.5, "dash": "dash"}
        return [
            {**across, **band, "line": {"width": 0}},
            {**across, "type": "line", "y0": self.tolerance, "y1": self.tolerance, "line": dashed},
        ]


def _drawn_as(rows: pd.DataFrame, look: Look) -> dict[str, Any]:
    """The marker: filled if the loss is shown to be within the tolerance, with a thick edge if recommended."""
    colours = [cell_colour(look, row) for row in rows.itertuples()]
    chosen = rows["recommended"].tolist()
    symbols = [look.strategy(str(row.strategy))[1] for row in rows.itertuples()]
    return {
        "symbol": [symbol if ok else f"{symbol}-open" for symbol, ok in zip(symbols, rows["within"], strict=True)],
        "size": [17 if best else 12 for best in chosen],
        "color": colours,
        "line": {
            "width": [3 if best else 2 for best in chosen],
            "color": [look.text if best else colour for best, colour in zip(chosen, colours, strict=True)],
        },
    }


def _hover_text(row: Any) -> str:
    no_interval = "" if np.isfinite(row.low) and np.isfinite(row.high) else ", no interval yet"
    saves = f"saves {100 * row.saved:.1f} %"
    return f"{loss_phrase(row._asdict())}{no_interval}<br>{saves}<br>{name(row.verdict, 80)}, n={row.n_pairs}"
