"""Why: how much of the variance of the scores goes with each setting that a sweep varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.predictions import predictions_of
from dashboards.data.selection import Selection, of_corpus, whole_sweep
from dashboards.data.trial_rows import trials_with_sentences
from dashboards.views import layers
from dashboards.views.kit.cells import NOTE_WIDTH, completed_of, setting_columns, shown_cells, varied
from dashboards.views.kit.drawing import (
    axis_name,
    cell_name,
    interval_bars,
    name,
    numbers,
    row_axis,
    row_panels,
    with_note,
)
from dashboards.views.kit.part import SHARED_CONTROLS, Part, View
from dashboards.views.kit.theme import Figure, Look, axis, layout
from orchestrator.analysis.variance import (
    INITIALISATION,
    INTERACTIONS,
    ORDER,
    SENTENCES,
    SHARED,
    SUBSET,
    Anova,
    VarianceSource,
    anova,
    variance_sources,
)
from orchestrator.config.quantities import counted
from trials.settings import Seeds
from trials.tasks.task import head_of

MAX_ROWS = 400  # of an analysis of variance, which inverts a matrix of rows by levels
_REST = {"residual": "not explained", SHARED: "several together"}
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
    """A bar per setting with its 95 % interval, largest first, then what several or none explain; a panel a corpus."""
    shown = [panel for panel in info.panels if len(panel.found.table)]
    titles = [f"<b>{name(panel.title)}</b>, {counted(panel.found.n, 'trial')}" for panel in shown]
    rows = [[name((p.labels | _REST)[factor], 28) for factor in p.found.table["factor"]] for p in shown]
    drawn = row_panels(look, axis("share of the variance (%)", range=[0, 104]), titles, rows, each=_BAR)
    drawn["barmode"] = "overlay"
    data = []
    for n, (panel, words) in enumerate(zip(shown, rows, strict=True)):
        data += _bars(panel.found.table, words, axis_name(n), look)
    notes_of_panels = dict.fromkeys(_left_out(panel) for panel in shown)
    return with_note({"data": data, "layout": drawn}, look, *notes_of_panels, width=NOTE_WIDTH)


def _bars(table: pd.DataFrame, words: list[str], at: str, look: Look) -> list[dict[str, Any]]:
    rest = table["factor"].isin(list(_REST)).tolist()
    shares, low, high = (numbers(table[key], 100, 2) for key in ("eta_sq", "low", "high"))
    ends = [
        f"{a:.0f} to {b:.0f} %" if a is not None and b is not None else "no interval"
        for a, b in zip(low, high, strict=True)
    ]
    beyond = [share if end is None else max(end, share or 0.0) for share, end in zip(shares, high, strict=True)]
    labels = {  # beyond the ends of the intervals
        "type": "scatter", "mode": "text", "yaxis": at, "x": beyond, "y": list(range(len(words))),
        "text": [" < 1 %" if abs(share) < 0.01 else f" {100 * share:.0f} %" for share in table["eta_sq"]],
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
    """One row per panel and setting, then what several or none explain, then the settings that were left out."""
    return pd.concat([_rows(panel) for panel in info.panels], ignore_index=True)


def _rows(panel: Panel) -> pd.DataFrame:
    t = panel.found.table
    shares = (100 * t[["eta_sq", "low", "high", "partial_eta_sq"]].astype("float64")).round(3)
    table = pd.DataFrame(
        {
            "trials of": panel.title,
            "setting": t["factor"].map(lambda factor: (panel.labels | _REST)[factor]),
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
    "Not explained: interactions of settings, and chance, seeds among it. Several together: what in a sweep with gaps "
    "belongs to no setting alone, below 0 where settings hide each other's effect. All add up to 100 %. The "
    "intervals follow from the noncentrality of F (Steiger 2004). The importance of a setting is that of the values "
    "the sweep tries: a wider range would matter more.",
)
# How much of the variance of a score goes with which source: subset, initialisation, order, sentences.

_SEEDS = (SUBSET, INITIALISATION, ORDER)
# In the order of the bars: Okabe and Ito's colours, each with a pattern. Sources that go together have their own.
_STYLES = {
    SUBSET: ("#0072B2", ""),
    INITIALISATION: ("#D55E00", "/"),
    ORDER: ("#009E73", "x"),
    INTERACTIONS: ("#8A8678", "."),
    SENTENCES: ("#CC79A7", "-"),
}
_TOGETHER = ("#56B4E9", "\\")
_ESTIMATE = ("variance", "low", "high", "levels", "df")
_SQUARED = 100.0**2  # a variance of scores of 0 to 1 in squared points


class Variances(NamedTuple):
    """The variance of the selected score by source.

    Attributes:
        table: One row per cell and source: `cell`, `freeze`, `n_layers`, `train_size`, `source`, `variance`
            (0..1 squared; may be below 0), `low`, `high` (of its 95 % interval), `levels`, `df`, `runs`.
        cells: The cells that have rows, with `cells.KEYS`.
    """

    table: pd.DataFrame
    cells: pd.DataFrame
    value_name: str
    note: str


def prepare_variance(selection: Selection) -> Variances:
    """For each cell over its completed trials."""
    shown = shown_cells(selection.trials)
    done = completed_of(trials_with_sentences(selection), shown.table)
    done = done[done[selection.column].notna()]
    rows, words = [], _words(selection, done)
    for cell in shown.table.itertuples():
        own = done[done["cell"] == cell.cell]
        same_subset = len(own) > 0 and selection.snapshot.specs[str(cell.cell)].subset_seed is not None
        for source in _sources(own, selection.column, words, same_subset=same_subset):
            key = {
                "cell": cell.cell,
                "freeze": cell.freeze,
                "n_layers": cell.n_layers,
                "train_size": cell.train_size,
                "source": source_label(source.names),
            }
            rows.append({**key, **{name: getattr(source, name) for name in _ESTIMATE}, "runs": len(own)})
    table = pd.DataFrame(rows, columns=["cell", "freeze", "n_layers", "train_size", "source", *_ESTIMATE, "runs"])
    cells = shown.table[shown.table["cell"].isin(table["cell"])].reset_index(drop=True)
    return Variances(table, cells, selection.value_name, " ".join(filter(None, [shown.note, _missing(table)])))


def _words(selection: Selection, trials: pd.DataFrame) -> np.ndarray | None:
    """(sentences,) words of each of the split where the score is their accuracy: empty if not stored, else None."""
    scored = trials[trials["sentences"].notna()]
    if not len(scored) or scored["metric"].iloc[0] != "accuracy" or head_of(scored["task"].iloc[0]) == "text":
        return None
    found = next(iter(predictions_of(selection.snapshot, scored.head(1), selection.scored).values()), None)
    return np.empty(0) if found is None else np.diff(found.starts, append=len(found.gold)).astype(np.float64)


def _sources(
    rows: pd.DataFrame, column: str, words: np.ndarray | None, *, same_subset: bool
) -> tuple[VarianceSource, ...]:
    scores = rows[column].to_numpy(dtype=np.float64)
    known = len(rows) > 0 and rows["sentences"].notna().all() and (words is None or len(words) > 0)
    contributions = np.stack(rows["sentences"].tolist()) if known else None
    seeds = [Seeds.from_key(int(key)) for key in rows["seed"]]
    return variance_sources(seeds, scores, contributions, words=words, same_subset=same_subset)


def _missing(table: pd.DataFrame) -> str:
    """What the sweep or the store lacks for a part of the figure."""
    names = set(table["source"])
    notes = []
    if names and not names & {INITIALISATION, ORDER}:
        notes.append(
            "Subset, initialisation and order change together here: a sweep whose `space` crosses `init_seed` and "
            "`order_seed` with its `seeds` separates them (configs/sweeps/seeds.yaml)."
        )
    if names and SENTENCES not in names:
        notes.append("What the sentences contribute to this score, or their numbers of words, is not stored.")
    return " ".join(notes)


def source_label(names: Sequence[str]) -> str:
    """The name of a source in legends and tables."""
    return "seeds (subset, initialisation and order)" if tuple(names) == _SEEDS else " and ".join(names)


def draw_variance(info: Variances, look: Look) -> Figure:
    """A bar per cell, stacked by source; an estimate below 0 has no width."""
    several = info.cells["train_size"].nunique() > 1
    labels = [cell_name(row, several=several) for row in info.cells.itertuples()]
    place = {cell: n for n, cell in enumerate(info.cells["cell"])}
    known = list(_STYLES)
    order = sorted(set(info.table["source"]), key=lambda source: known.index(source) if source in known else -1)
    data = [_source_bars(info.table[info.table["source"] == source], source, place, look) for source in order]
    height = int(np.clip(130 + 28 * len(labels), 240, 1200))
    x = axis(f"variance of {info.value_name} (squared points)", rangemode="tozero")
    drawn = layout(look, x=x, y=row_axis(labels), height=height, barmode="stack")
    drawn["margin"] = {**drawn["margin"], "l": 12 + 7 * min(max(map(len, labels), default=0), 40)}
    return with_note({"data": data, "layout": drawn}, look, info.note)


def _source_bars(rows: pd.DataFrame, source: str, place: dict[Any, int], look: Look) -> dict[str, Any]:
    colour, pattern = _STYLES.get(source, _TOGETHER)
    spread, low, high = (numbers(np.sqrt(rows[name].clip(lower=0)), 100, 2) for name in ("variance", "low", "high"))
    return {
        "type": "bar",
        "orientation": "h",
        "name": source,
        "x": numbers(rows["variance"].clip(lower=0), _SQUARED),
        "y": [place[cell] for cell in rows["cell"]],
        "customdata": list(zip(spread, low, high, rows["levels"].tolist(), strict=True)),
        "marker": {
            "color": colour,
            "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": look.paper, "size": 6},
        },
        "hovertemplate": "standard deviation %{customdata[0]} points (%{customdata[1]} to %{customdata[2]})<br>"
        f"from %{{customdata[3]:,}} levels<extra>{source}</extra>",
    }


def variance_table(info: Variances) -> pd.DataFrame:
    """One row per cell and source."""
    t = info.table
    known = t["variance"].clip(lower=0)
    total = known.groupby(t["cell"]).transform("sum")
    return pd.DataFrame(
        {
            **setting_columns(t),
            "source": t["source"],
            "standard deviation (points)": (100 * np.sqrt(known)).round(3),
            "95 % from (points)": (100 * np.sqrt(t["low"])).round(3),
            "95 % to (points)": (100 * np.sqrt(t["high"])).round(3),
            "share of the variance (%)": (100 * known / total.where(total > 0)).round(1),
            "levels": t["levels"],
            "degrees of freedom": t["df"],
            "runs": t["runs"],
            "note": np.where(t["variance"] < 0, "estimated below 0", ""),
        }
    )


VARIANCE = Part(
    "factors-variance",
    "Variance by source",
    "What makes scores differ: train subset, initialisation, order of training, and the sentences of the dev set.",
    prepare_variance,
    variance_table,
    draw_variance,
    lambda info: "" if len(info.table) else "This needs a setting with two or more completed seeds.",
    method="Variance components of the runs of one setting by the method of moments for crossed designs (Henderson's "
    "method 3; in a balanced design, the analysis of variance). Order includes dropout. Interactions: what no single "
    "source explains. Sentences: what another dev set of the same size would change, from the sentences' contributions "
    "to the score. The parts add up to the variance of one new run on a new dev set. Three levels of a source estimate "
    "its part only roughly, as its 95 % interval in the table shows.",
    detail=True,
)

VIEW = View(
    "/why",
    "Why",
    "Which setting makes the difference?",
    (IMPORTANCE, VARIANCE, layers.LAYERS),
    SHARED_CONTROLS,
    takes_in=("/matters", "/layers"),
)
