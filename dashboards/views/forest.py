"""The difference of each setting to its baseline, paired by seed, and the table of mean, median, spread and range."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.data.trial_rows import trials_with_sentences
from dashboards.views.kit.cells import KEYS, Cells, cells_of, setting_columns
from dashboards.views.kit.drawing import (
    Diamonds,
    axis_name,
    cell_colour,
    cell_name,
    forest_plot,
    grid,
    heading,
    row_axis,
    with_note,
)
from dashboards.views.kit.part import Part
from dashboards.views.kit.theme import Figure, Look, axis
from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.statistic import STATISTICS

MANY = 10  # settings: from here on a panel each train size
MAX_ROWS = 80  # of the figure
_MOST_BESIDE = 3  # panels
NO_PAIRS = "No trial has a completed baseline with the same seed. Run the baseline (freeze: none)."


class Forest(NamedTuple):
    """Losses against the baseline.

    Attributes:
        table: One row per cell: the columns of `decide.loss_table` and `cells.KEYS`.
    """

    table: pd.DataFrame
    value_name: str


def prepare_forest(selection: Selection) -> Forest:
    """Losses of every cell that has a baseline."""
    trials = selection.trials
    cells = trials.drop_duplicates("cell")[KEYS]
    found = loss_table(trials_with_sentences(selection.of_questions), selection.column, selection.plan)
    new = [name for name in KEYS if name == "cell" or name not in found]
    table = found.merge(cells[new], on="cell").sort_values(["train_size", "depth", "strategy", "embeddings"])
    return Forest(table.reset_index(drop=True), selection.value_name)


def why_no_forest(info: Forest) -> str:
    """Why there is no difference to show; empty if there is one."""
    if not len(info.table):
        return "Only the baseline is here, so there is nothing to compare with it."
    return "" if (info.table["n_pairs"] > 0).any() else NO_PAIRS


def draw_forest(info: Forest, look: Look) -> Figure:
    """Points with intervals; filled if the interval that decides excludes zero."""
    paired = info.table[info.table["n_pairs"] > 0]
    if paired["freeze"].nunique() >= MANY and paired["train_size"].nunique() > 1:
        return _forest_panels(info, paired, look)
    table = paired[-MAX_ROWS:]
    several = info.table["train_size"].nunique() > 1
    labels = [f"{cell_name(row, several=several)} (n={row.n_pairs})" for row in table.itertuples()]
    marks = Diamonds(
        labels,
        table["difference"].isin(["worse", "better"]).tolist(),
        [look.depth(row.depth, row.n_layers) for row in table.itertuples()],
        [[label, verdict] for label, verdict in zip(labels, _words(table), strict=True)],
        "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    )
    left_out = f"The {MAX_ROWS} of {len(paired)} settings with the largest train sizes; the table has all."
    figure = forest_plot(table, marks, look, f"loss of {info.value_name} (points)")
    return with_note(figure, look, left_out if len(paired) > MAX_ROWS else "", _too_few(table))


def _too_few(table: pd.DataFrame) -> str:
    """A note on the marks without an interval."""
    reasons = "; ".join(dict.fromkeys(why for why in table["why_none"] if why))
    return f"Without an interval: too few seeds to decide ({reasons})." if reasons else ""


def _words(table: pd.DataFrame) -> list[str]:
    """What each interval says of the baseline; why there is none."""
    return [why or said for why, said in zip(table["why_none"], table["difference"], strict=True)]


def _forest_panels(info: Forest, paired: pd.DataFrame, look: Look) -> Figure:
    """Many settings: a panel for each of the largest train sizes side by side, with a row for each freeze."""
    sizes = sorted(paired["train_size"].unique().tolist(), reverse=True)[: 1 if look.narrow else _MOST_BESIDE]
    settings = paired.drop_duplicates("freeze").sort_values(["depth", "strategy", "embeddings"])
    at = {freeze: n for n, freeze in enumerate(settings["freeze"])}
    labels = [cell_name(row, several=False) for row in settings.itertuples()]
    x = axis(f"loss of {info.value_name} (points)", zeroline=True)
    height = 40 + 20 * len(labels)
    drawn = grid(look, x, row_axis(labels), len(sizes), columns=len(sizes), each=height, gap=0.03)
    data = []
    for n, size in enumerate(sizes):
        rows = paired[paired["train_size"] == size]
        names = [f"{cell_name(row, several=False)} (n={row.n_pairs})" for row in rows.itertuples()]
        marks = Diamonds(
            names, rows["difference"].isin(["worse", "better"]).tolist(),
            [cell_colour(look, row) for row in rows.itertuples()],
            [[each, verdict] for each, verdict in zip(names, _words(rows), strict=True)],
            "%{x:+.2f} points<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
        )  # fmt: skip
        figure = forest_plot(rows, marks, look, "")
        place = {"xaxis": f"x{n + 1}" if n else "x", "yaxis": axis_name(n), "y": [at[each] for each in rows["freeze"]]}
        data += [trace | place for trace in figure["data"]]
        drawn["annotations"].append(
            heading(f"{size:,} for training", drawn[f"xaxis{n + 1 if n else ''}"]["domain"][0], 1)
        )
    drawn["margin"] |= {"l": 12 + 7 * min(max(map(len, labels), default=0), 46)}
    left_out = paired["train_size"].nunique() - len(sizes)
    note = f"{left_out} smaller train sizes are in the table; select them above." if left_out else ""
    return with_note({"data": data, "layout": drawn}, look, note, _too_few(paired))


def forest_table(info: Forest) -> pd.DataFrame:
    """One row per setting with all tests."""
    t = info.table
    return pd.DataFrame(
        {
            **setting_columns(t),
            "pairs": t["n_pairs"],
            "loss (points)": (100 * t["loss"]).round(4),
            "from (points)": (100 * t["low"]).round(4),
            "to (points)": (100 * t["high"]).round(4),
            "correction": t["method"],
            "median (points)": (100 * t["median"]).round(4),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "verdict": _words(t),
        }
    )


FOREST = Part(
    "depth-forest",
    "Loss against the baseline",
    "What each setting loses against training everything; filled diamonds are shown to differ.",
    prepare_forest,
    forest_table,
    draw_forest,
    why_no_forest,
    method="The baseline trial minus each trial with the same seed and train subset: positive is worse. The line is "
    "the interval over seeds and dev sentences (over seeds alone where the contributions of sentences were not "
    "recorded) that decides: each end holds with chance 95 %, for all settings of one train size together (max-t) "
    "and at every look from 3 seeds on. A difference is shown where it excludes zero.",
)


# Mean scores of the settings: bars, and a table of mean, median, spread and range.


def cells_table(info: Cells) -> pd.DataFrame:
    """One row per cell: mean, median, standard deviation, minimum, maximum and interval."""
    table = info.table
    shares = {name: 100 * table[name] for name in ("mean", "median", "std", "min", "max", "low", "high")}
    names = {"std": "sd (points)", "low": "95 % from (%)", "high": "95 % to (%)"}
    return pd.DataFrame(
        {
            **setting_columns(table),
            "depth (layers)": table["depth"],
            "n": table["n"],
            "planned": table["planned"],
            **{names.get(name, f"{name} (%)"): values.round(4) for name, values in shares.items()},
            **{one.label: table[one.label] for one in STATISTICS.values() if one.label in table},
        }
    )


TABLE = Part(
    "depth-table",
    "Mean, median, spread and range",
    "Scores on this dev set over the completed seeds of each setting; intervals are over seeds alone.",
    cells_of,
    cells_table,
    method="Standard deviations (sd) divide by n - 1. The 95 % interval of the mean is the wider of Student's t and "
    "the logit interval.",
    on_demand="Mean, median, spread and range of each setting",
    detail=True,
)
