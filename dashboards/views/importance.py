"""How much of the variance of the scores goes with each setting that a sweep varies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection, corpus_selection, whole_sweep
from dashboards.views.kit.cells import hundredths, with_varying_settings
from dashboards.views.kit.drawing import (
    Figure,
    Look,
    axis,
    axis_name,
    interval_bars,
    name,
    numbers,
    row_panels,
    with_note,
)
from dashboards.views.kit.part import EmptyPartError, Part
from orchestrator.analysis.variance import SHARED, Anova, anova
from orchestrator.config.quantities import amount

MAX_ROWS = 400  # rows of an analysis of variance, which inverts a matrix of rows by levels
_REST = {"residual": "not explained", SHARED: "several together"}
_OF_FREEZE = {"depth", "strategy", "embeddings", *_REST}  # what the other figures of the page are about
_NOTHING = "Nothing but what is frozen varies among the completed trials."
_BAR = 26  # pixels


class Panel(NamedTuple):
    """The importance of the settings of some trials."""

    title: str
    found: Anova
    labels: dict[str, str]
    note: str


def prepare_importance(selection: Selection) -> list[Panel]:
    """The selected corpus, then the whole sweep if that has others and one metric scores them all."""
    mine, whole = corpus_selection(selection), whole_sweep(selection)
    title = str(selection.trials["corpus"].iloc[0]) if len(selection.trials) else ""
    panels = [_panel(title, mine)]
    if whole.trials["corpus"].nunique() > 1 and whole.trials["metric"].nunique() == 1:
        panels.append(_panel("all corpora of the sweep", whole))
    if not any(set(panel.found.table["factor"]) - _OF_FREEZE for panel in panels):
        raise EmptyPartError(_NOTHING)
    return panels


def _panel(title: str, selection: Selection) -> Panel:
    rows, labels, note = _analyse(selection)
    return Panel(title, anova(rows, list(labels), selection.column), labels, note)


def _analyse(selection: Selection) -> tuple[pd.DataFrame, dict[str, str], str]:
    """The trials that are analysed, the names of their settings, and a note if they are not all. As many seeds as fit
    are taken; if not even two fit, the trials of the largest train sizes.
    """
    done, labels = with_varying_settings(selection)
    seeds = np.sort(done["seed"].unique())
    most = max(2, MAX_ROWS // max(1, done["cell"].nunique()))
    rows = done[done["seed"].isin(seeds[:most])]
    sizes = rows["train_size"].value_counts().sort_index(ascending=False)
    shown = sizes.index[: max(1, int((sizes.cumsum() <= MAX_ROWS).sum()))]
    which = f"the first {most} seeds" + (" of the largest train sizes" if len(shown) < len(sizes) else "")
    rows = rows[rows["train_size"].isin(shown)]
    return rows, labels, "" if len(rows) == len(done) else f"{len(rows):,} of {len(done):,} trials: {which}"


def draw_importance(info: list[Panel], look: Look) -> Figure:
    """A bar per setting with its 95 % interval, largest first, then what several or none explain; a panel a corpus."""
    shown = [panel for panel in info if len(panel.found.table)]
    titles = [f"<b>{name(panel.title, 28)}</b>, {amount(panel.found.n, 'trial')}" for panel in shown]
    rows = [[name((p.labels | _REST)[factor], 28) for factor in p.found.table["factor"]] for p in shown]
    drawn = row_panels(look, axis("share of the variance (%)", range=[0, 104]), titles, rows, row_height=_BAR)
    drawn["barmode"] = "overlay"
    data = []
    for n, (panel, names) in enumerate(zip(shown, rows, strict=True)):
        data += _bars(panel.found.table, names, axis_name(n), look)
    notes_of_panels = dict.fromkeys(_left_out_note(panel) for panel in shown)
    return with_note({"data": data, "layout": drawn}, look, *notes_of_panels)


def _bars(table: pd.DataFrame, names: list[str], at: str, look: Look) -> list[dict[str, Any]]:
    rest = table["factor"].isin(list(_REST)).tolist()
    shares, low, high = (numbers(table[key], 100, 2) for key in ("eta_sq", "low", "high"))
    ends = [
        f"{a:.0f} to {b:.0f} %" if a is not None and b is not None else "no interval"
        for a, b in zip(low, high, strict=True)
    ]
    beyond = [share if end is None else max(end, share or 0.0) for share, end in zip(shares, high, strict=True)]
    labels = {  # beyond the ends of the intervals
        "type": "scatter", "mode": "text", "yaxis": at, "x": beyond, "y": list(range(len(names))),
        "text": [" < 1 %" if abs(share) < 0.01 else f" {100 * share:.0f} %" for share in table["eta_sq"]],
        "textposition": "middle right", "hoverinfo": "skip", "cliponaxis": False,
    }  # fmt: skip
    bars = {
        "type": "bar", "orientation": "h", "yaxis": at, "x": shares, "y": list(range(len(names))),
        "error_x": interval_bars(table.rename(columns={"eta_sq": "mean"}), look.text, scale=100),
        "customdata": list(zip(names, ends, strict=True)),
        "hovertemplate": "%{customdata[0]}: %{x:.1f} % (95 % interval %{customdata[1]})<extra></extra>",
        "marker": {
            "color": [look.grid if is_rest else look.line(0) for is_rest in rest],
            "pattern": {"shape": ["/" if is_rest else "" for is_rest in rest], "fgcolor": look.muted, "size": 6},
        },
    }  # fmt: skip
    return [bars, labels]


def _left_out_note(panel: Panel) -> str:
    """Which settings the others determine, and which trials are left out."""
    fixed = [
        f"{panel.labels[key]} ({_reason(panel, why)})" for key, why in panel.found.dropped.items() if "fixed" in why
    ]
    return " ".join(
        filter(None, [f"Left out: {', '.join(fixed)}." if fixed else "", f"{panel.note}." if panel.note else ""])
    )


def _reason(panel: Panel, why: str) -> str:
    keys = sorted(panel.labels, key=len, reverse=True)
    return next((why.replace(key, panel.labels[key]) for key in keys if why == f"fixed by {key}"), why)


def importance_table(info: list[Panel]) -> pd.DataFrame:
    """One row per panel (`trials of`) and `setting`, then what several or none explain, then the settings left out:
    shares of the variance in percent with their intervals, `df`, `F`, `p`, `trials` and `note`.
    """
    return pd.concat([_rows(panel) for panel in info], ignore_index=True)


def _rows(panel: Panel) -> pd.DataFrame:
    t = panel.found.table
    table = pd.DataFrame(
        {
            "trials of": panel.title,
            "setting": t["factor"].map(lambda factor: (panel.labels | _REST)[factor]),
            **hundredths(t, eta_sq="share of the variance (%)", low="95 % from (%)", high="95 % to (%)"),
            **hundredths(t, partial_eta_sq="partial eta squared (%)"),
            "df": t["df"],
            "F": t["f"].astype("float64").round(3),
            "p": t["p"].astype("float64"),
            "trials": t["n"],
            "note": panel.note,
        }
    )
    dropped = [
        {
            "trials of": panel.title,
            "setting": panel.labels[key],
            "trials": panel.found.n,
            "note": f"left out: {_reason(panel, why)}",
        }
        for key, why in panel.found.dropped.items()
    ]
    return pd.concat([table, pd.DataFrame(dropped)], ignore_index=True) if dropped else table


IMPORTANCE = Part(
    "matters-importance",
    "Importance of each setting",
    "How much of the variance of the scores goes with each setting, with its 95 % interval.",
    prepare_importance,
    importance_table,
    draw_importance,
    if_any=True,
    method="Analysis of variance of main effects, type II: what a setting explains beyond all others (eta squared). "
    "Not explained: interactions of settings, and chance, seeds among it. Several together: what in a sweep with gaps "
    "belongs to no setting alone, below 0 where settings hide each other's effect. All add up to 100 %. The "
    "intervals follow from the noncentrality of F (Steiger 2004). The importance of a setting is that of the values "
    "the sweep tries: a wider range would matter more.",
)
