"""What each setting loses against its baseline."""

from __future__ import annotations

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.cells import (
    Shown,
    loss_columns,
    setting_columns,
    verdicts,
    with_cells,
)
from dashboards.views.kit.drawing import (
    Diamonds,
    Figure,
    Look,
    axis,
    cell_colour,
    cell_name,
    forest_plot,
    grid,
    panel_axes,
    row_axis,
    with_note,
)
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.analysis.decide import loss_table

MANY = 10  # settings: from here on a panel each train size
MAX_ROWS = 80  # of the figure
_MOST_BESIDE = 3  # panels
ONLY_BASELINE = "Only the baseline is here, so there is nothing to compare with it."
NO_PAIRS = "No trial has a completed baseline with the same seed. Run the baseline (freeze: none)."


def prepare_forest(selection: Selection) -> Shown:
    """Losses of every cell that has a baseline: the columns of `decide.loss_table` and `cells.KEYS`."""
    losses = loss_table(selection.of_questions.with_sentences, selection.column, selection.plan)
    table = with_cells(losses, selection.trials).sort_values("train_size", kind="stable", ignore_index=True)
    if not len(table):
        raise EmptyPartError(ONLY_BASELINE)
    if not (table["n_pairs"] > 0).any():
        raise EmptyPartError(NO_PAIRS)
    return Shown(table, value_name=selection.value_name)


def draw_forest(info: Shown, look: Look) -> Figure:
    """Points with the intervals that decide."""
    paired = info.table[info.table["n_pairs"] > 0]
    if paired["freeze"].nunique() >= MANY and paired["train_size"].nunique() > 1:
        return _forest_panels(info, paired, look)
    table = paired[-MAX_ROWS:]
    several = info.table["train_size"].nunique() > 1
    labels = [f"{cell_name(row, several=several)} (n={row.n_pairs})" for row in table.itertuples()]
    marks = Diamonds(
        labels,
        [look.depth(row.depth, row.n_layers) for row in table.itertuples()],
        [[label, verdict] for label, verdict in zip(labels, verdicts(table), strict=True)],
        "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    )
    left_out = f"The {MAX_ROWS} of {len(paired)} settings with the largest train sizes; the table has all."
    figure = forest_plot(table, marks, look, f"loss of {info.value_name} (points)")
    return with_note(figure, look, left_out if len(paired) > MAX_ROWS else "", _too_few(table))


def _too_few(table: pd.DataFrame) -> str:
    """A note on the marks without an interval."""
    reasons = "; ".join(dict.fromkeys(why for why in table["why_none"] if why))
    return f"Without an interval: too few seeds to decide ({reasons})." if reasons else ""


def _forest_panels(info: Shown, paired: pd.DataFrame, look: Look) -> Figure:
    """Many settings: a panel for each of the largest train sizes side by side, with a row for each freeze."""
    sizes = sorted(paired["train_size"].unique().tolist(), reverse=True)[:_MOST_BESIDE]
    settings = paired.drop_duplicates("freeze").sort_values(["depth", "strategy", "embeddings"])
    place_of = {freeze: n for n, freeze in enumerate(settings["freeze"])}
    labels = [cell_name(row, several=False) for row in settings.itertuples()]
    x = axis(f"loss of {info.value_name} (points)", zeroline=True)
    height = 40 + 20 * len(labels)
    titles = [f"{size:,} for training" for size in sizes]
    drawn = grid(look, x, row_axis(labels), titles, columns=len(sizes), panel_height=height)
    data = []
    for n, size in enumerate(sizes):
        rows = paired[paired["train_size"] == size]
        names = [f"{cell_name(row, several=False)} (n={row.n_pairs})" for row in rows.itertuples()]
        marks = Diamonds(
            names,
            [cell_colour(look, row) for row in rows.itertuples()],
            [[label, verdict] for label, verdict in zip(names, verdicts(rows), strict=True)],
            "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
        )  # fmt: skip
        figure = forest_plot(rows, marks, look, "")
        place = {**panel_axes(n), "y": [place_of[freeze] for freeze in rows["freeze"]]}
        data += [trace | place for trace in figure["data"]]
    left_out = paired["train_size"].nunique() - len(sizes)
    note = f"{left_out} smaller train sizes are in the table; select them above." if left_out else ""
    return with_note({"data": data, "layout": drawn}, look, note, _too_few(paired))


def forest_table(info: Shown) -> pd.DataFrame:
    """One row per setting with all tests: `pairs`, the loss and its interval, `correction`."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            **loss_columns(t),
            "correction": t["method"],
            "median (points)": t["median"].astype("float64").round(4),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "verdict": verdicts(t),
        }
    )


FOREST = Part(
    "depth-forest",
    "Loss against the baseline",
    "What each setting loses against training everything; an interval that excludes zero shows a difference.",
    prepare_forest,
    forest_table,
    draw_forest,
    on_demand="Loss of each setting against the baseline, with its interval",
    method="The baseline trial minus each trial with the same seed and train subset: positive is worse. The line is "
    "the interval over seeds and dev sentences (over seeds alone where the contributions of sentences were not "
    "recorded) that decides: each end holds with chance 95 %, for all settings of one train size together (max-t) "
    "and at every look from 3 seeds on. A difference is shown where it excludes zero.",
)
