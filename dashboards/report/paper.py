"""The table and figures for a paper: one table that fits a column, and the first figure at column and page width.

Each row is a setting: what it freezes, its seeds, score with standard deviation over seeds, loss with interval, saving.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import COSTS, Selection
from dashboards.data.tables import STRIPS, as_csv, as_latex
from dashboards.views.kit.cards import answers_of_page, settings_of
from dashboards.views.kit.cells import cells_of, hundredths, loss_columns, setting_columns
from dashboards.views.kit.drawing import LIGHT, LOOKS, Figure
from dashboards.views.kit.part import EmptyPartError, compute
from dashboards.views.losses import LOSSES

COLUMN_PIXELS, PAGE_PIXELS = 317, 662  # 3.3 and 6.9 inches, at 96 pixels per inch
_LETTERS, _RIGHT = 11, 24  # pixels: text of 8 points; a right margin that holds the label of the tolerance only
_WIDTHS = {"column": (LOOKS["light-narrow"], COLUMN_PIXELS), "page": (replace(LIGHT, printed=True), PAGE_PIXELS)}


def paper_table(selection: Selection) -> pd.DataFrame:
    """One row per setting, the baseline first; shares in percent, losses in points, positive where freezing is worse.

    Columns: the train size if there are several, `frozen`, `seeds`, `<metric> (%)`, `sd (points)`, the columns of
    `loss_columns`, `<cost> saved (%)`.

    Raises:
        EmptyPartError: There is no answer, so no setting has a loss with an interval.
    """
    answers = answers_of_page(selection).answers
    if not answers:
        raise EmptyPartError("There is no setting to compare with the baseline.")
    losses = pd.concat([settings_of(answer) for answer in answers])[["cell", "loss", "low", "high", "saved"]]
    scores = cells_of(selection).table.drop(columns=["low", "high"])  # these ends are over seeds alone
    table = scores.merge(losses, on="cell", how="left")
    is_baseline = table["cell"] == table["baseline"]
    table.loc[is_baseline, ["loss", "saved"]] = 0.0  # against itself
    table = table[is_baseline | table["cell"].isin(losses["cell"])]
    columns = setting_columns(table)
    several = table["train_size"].nunique() > 1
    return pd.DataFrame(
        {
            **{title: values for title, values in columns.items() if several or title == "frozen"},
            "seeds": table["n"],
            **hundredths(table, mean=f"{selection.value_name} (%)", std="sd (points)"),
            **loss_columns(table),
            **hundredths(table, saved=f"{COSTS[selection.query.cost]} saved (%)"),
        }
    )


def paper_files(selection: Selection, key: str, title: str, source: str) -> Iterator[tuple[str, bytes]]:
    """(path, content) of the table as CSV and as LaTeX (booktabs) that fits a column; nothing without an answer."""
    try:
        table = paper_table(selection)
    except EmptyPartError:
        return
    name = f"tables/{key}-paper"
    yield f"{name}.csv", as_csv(table, source).encode()
    cost = COSTS[selection.query.cost]
    caption = (
        f"{title}: {selection.value_name}, mean and standard deviation over n seeds; loss against nothing frozen, in "
        "points and paired by seed, with an interval each end of which holds with chance 95 %; saved: "
        f"{cost} in %. {STRIPS}"
    )
    yield f"{name}.tex", as_latex(_text_table(table), caption=caption, label=f"tab:{key}-paper", source=source).encode()


def _text_table(table: pd.DataFrame) -> pd.DataFrame:
    """The table as text, with the score and its deviation in one cell, and the loss and its interval in another."""
    score, deviation = (table.iloc[:, table.columns.get_loc("sd (points)") + offset] for offset in (-1, 0))
    ends = zip(table["loss (points)"], table["from (points)"], table["to (points)"], strict=True)
    named = table.assign(frozen=[getattr(name, "squares", "") or str(name) for name in table["frozen"]])
    return (
        named.loc[:, :"frozen"]
        .assign(
            **{
                "n": table["seeds"],
                "score (%)": [f"{_number(a)} ± {_number(b)}" for a, b in zip(score, deviation, strict=True)],
                "loss": [f"{_number(loss)} [{_number(low)}, {_number(high)}]" for loss, low, high in ends],
                "saved": table.iloc[:, -1].round(0).astype("Int64"),
            }
        )
        .replace({"loss": {"0.0 [, ]": "0"}})
    )


def _number(value: float) -> str:
    return f"{value:.1f}" if math.isfinite(value) else ""


class PaperFigure(NamedTuple):
    """The first figure at one of the widths of a paper.

    Attributes:
        width: Width in CSS pixels.
    """

    name: str
    figure: Figure
    width: int


def paper_figures(selection: Selection, key: str) -> Iterator[PaperFigure]:
    """Loss against saving, as wide as a column and as a page; nothing if there is nothing to draw."""
    for word, (look, width) in _WIDTHS.items():
        drawn = compute(LOSSES, selection, look)
        if drawn.figure is not None and not drawn.why_empty:
            page = drawn.figure["layout"]
            layout = {**page, "font": {**page["font"], "size": _LETTERS}, "margin": {**page["margin"], "r": _RIGHT}}
            yield PaperFigure(f"{key}-paper-{word}", {**drawn.figure, "layout": layout}, width)
