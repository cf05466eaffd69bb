"""What matters: how much of the variance of the scores goes with each setting that a sweep varies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection, of_corpus, whole_sweep
from dashboards.views.drawing import axis_name, interval_bars, name, numbers, row_panels, with_note
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis
from dashboards.views.varied import NOTE_WIDTH, varied
from dashboards.views.view import View
from orchestrator.analysis.variance import Anova, anova
from orchestrator.config.quantities import counted

MAX_ROWS = 400  # of an analysis of variance, which inverts a matrix of rows by levels
_REST = "not explained"
_BAR = 26  # pixels


class Panel(NamedTuple):
    """The importance of the settings of some trials."""

    title: str
    found: Anova
    labels: dict[str, str]
    note: str


class Importance(NamedTuple):
    """The importance of the settings.

    Attributes:
        panels: The selected corpus, then the whole sweep if that has others.
    """

    panels: tuple[Panel, ...]
    value_name: str


def prepare_importance(selection: Selection) -> Importance:
    """Trials of several corpora are analysed together only where one metric scores them all."""
    mine, whole = of_corpus(selection), whole_sweep(selection)
    title = str(selection.trials["corpus"].iloc[0]) if len(selection.trials) else ""
    panels = [_panel(title, mine)]
    if whole.trials["corpus"].nunique() > 1 and whole.trials["metric"].nunique() == 1:
        panels.append(_panel("all corpora of the sweep", whole))
    return Importance(tuple(panels), selection.value_name)


def _panel(title: str, selection: Selection) -> Panel:
    found = varied(selection)
    rows, which = _few_enough(found.trials)
    note = "" if len(rows) == len(found.trials) else f"{len(rows):,} of {len(found.trials):,} trials: {which}"
    return Panel(title, anova(rows, list(found.labels), selection.column), dict(found.labels), note)


def _few_enough(done: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The trials of as many seeds as fit; if not even two do, those of the largest train sizes. And which they are."""
    seeds = np.sort(done["seed"].unique())
    most = max(2, MAX_ROWS // max(1, done["cell"].nunique()))
    rows = done[done["seed"].isin(seeds[:most])]
    sizes = rows["train_size"].value_counts().sort_index(ascending=False)
    shown = sizes.index[: max(1, int((sizes.cumsum() <= MAX_ROWS).sum()))]
    which = f"the first {most} seeds" + (" of the largest train sizes" if len(shown) < len(sizes) else "")
    return rows[rows["train_size"].isin(shown)], which


def why_no_importance(info: Importance) -> str:
    """Why there is nothing to analyse; empty if there is something."""
    if any(len(panel.found.table) for panel in info.panels):
        return ""
    panel = info.panels[0]
    reasons = "; ".join(f"{panel.labels[factor]}: {why}" for factor, why in panel.found.dropped.items())
    return f"Nothing to analyse in {counted(panel.found.n, 'completed trial')} ({reasons})."


def draw_importance(info: Importance, look: Look) -> Figure:
    """A bar per setting with its 95 % interval, largest first, then what no setting explains; a panel above another."""
    shown = [panel for panel in info.panels if len(panel.found.table)]
    titles = [f"<b>{name(panel.title)}</b>, {counted(panel.found.n, 'trial')}" for panel in shown]
    rows = [[name(p.labels.get(factor, _REST), 28) for factor in p.found.table["factor"]] for p in shown]
    drawn = row_panels(look, axis("share of the variance (%)", range=[0, 104]), titles, rows, each=_BAR)
    drawn["barmode"] = "overlay"
    data = []
    for n, (panel, words) in enumerate(zip(shown, rows, strict=True)):
        data += _bars(panel.found.table, words, axis_name(n), look)
    notes_of_panels = dict.fromkeys(_left_out(panel) for panel in shown)
    return with_note({"data": data, "layout": drawn}, look, *notes_of_panels, width=NOTE_WIDTH)


def _bars(table: pd.DataFrame, words: list[str], at: str, look: Look) -> list[dict[str, Any]]:
    rest = table["factor"].eq("residual").tolist()
    shares, low, high = (numbers(table[key], 100, 2) for key in ("eta_sq", "low", "high"))
    ends = [
        f"{a:.0f} to {b:.0f} %" if a is not None and b is not None else "no interval"
        for a, b in zip(low, high, strict=True)
    ]
    beyond = [share if end is None else max(end, share or 0.0) for share, end in zip(shares, high, strict=True)]
    labels = {  # beyond the ends of the intervals
        "type": "scatter", "mode": "text", "yaxis": at, "x": beyond, "y": list(range(len(words))),
        "text": [" < 1 %" if share < 0.01 else f" {100 * share:.0f} %" for share in table["eta_sq"]],
        "textposition": "middle right", "hoverinfo": "skip", "cliponaxis": False,
    }  # fmt: skip
    bars = {
        "type": "bar", "orientation": "h", "yaxis": at, "x": shares, "y": list(range(len(words))),
        "error_x": interval_bars(table.rename(columns={"eta_sq": "mean"}), look.text, scale=100),
        "customdata": list(zip(words, ends, strict=True)),
        "hovertemplate": "%{customdata[0]}: %{x:.1f} % (95 % interval %{customdata[1]})<extra></extra>",
        "marker": {
            "color": [look.grid if each else look.line(0) for each in rest],
            "pattern": {"shape": ["/" if each else "" for each in rest], "fgcolor": look.muted, "size": 6},
        },
    }  # fmt: skip
    return [bars, labels]


def _left_out(panel: Panel) -> str:
    """Which settings the others determine, and which trials are left out."""
    fixed = [f"{panel.labels[key]} ({_why(panel, why)})" for key, why in panel.found.dropped.items() if "fixed" in why]
    return " ".join(
        filter(None, [f"Left out: {', '.join(fixed)}." if fixed else "", f"{panel.note}." if panel.note else ""])
    )


def _why(panel: Panel, why: str) -> str:
    known = sorted(panel.labels, key=len, reverse=True)
    return next((why.replace(key, panel.labels[key]) for key in known if why == f"fixed by {key}"), why)


def importance_table(info: Importance) -> pd.DataFrame:
    """One row per panel and setting, then the residual, then the settings that were left out."""
    return pd.concat([_rows(panel) for panel in info.panels], ignore_index=True)


def _rows(panel: Panel) -> pd.DataFrame:
    t = panel.found.table
    shares = (100 * t[["eta_sq", "low", "high", "partial_eta_sq"]].astype("float64")).round(3)
    table = pd.DataFrame(
        {
            "trials of": panel.title,
            "setting": t["factor"].map(lambda factor: panel.labels.get(factor, _REST)),
            "share of the variance (%)": shares["eta_sq"],
            "95 % from (%)": shares["low"],
            "95 % to (%)": shares["high"],
            "partial eta squared (%)": shares["partial_eta_sq"],
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
            "note": f"left out: {_why(panel, why)}",
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
    why_no_importance,
    method="Analysis of variance of main effects, type II: what a setting explains beyond all others (eta squared). "
    "Not explained: interactions of settings, and chance. In sweeps with gaps the shares need not add up to 100 %. The "
    "intervals follow from the noncentrality of F (Steiger 2004). The importance of a setting is that of the values "
    "the sweep tries: a wider range would matter more.",
)
VIEW = View(
    "/matters",
    "What matters",
    "Which setting makes the difference?",
    (IMPORTANCE,),
    ("sweep", "corpus", "size", "strategy", "embeddings", "metric", "split"),
)
