"""How many epochs a trial takes to reach 95 % of the best score, its own or the baseline's."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.axes import axis_name, panels, with_note
from dashboards.views.kit.cells import Places, beside_each_other, completed_of, places_of, setting_columns, shown_cells
from dashboards.views.kit.labels import cell_name, numbers
from dashboards.views.kit.marks import cell_colour, cell_symbol, mean_marks, without_few
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Figure, Look
from orchestrator.analysis.convergence import baseline_best, epochs_to
from orchestrator.analysis.describe import describe_cells
from orchestrator.config.quantities import counted
from orchestrator.store.schema import METRICS

SHARE = 0.95
LEAST_EVALUATIONS = 10  # of a trial: fewer tell too roughly when a score was reached
MAX_DOTS = 5000
TARGETS = ("its own best", "the baseline's best")
Row = dict[str, Any]


class Speed(NamedTuple):
    """Epochs to a share of a best score.

    Attributes:
        dots: One row per trial and target: `panel`, `trial_id`, `cell`, `seed`, `epoch` (NaN if never reached), `x`.
        means: One row per cell and target: `panel`, `KEYS`, `n` (trials that reach it), `trials`, `mean`, `low`,
            `high`.
    """

    dots: pd.DataFrame
    means: pd.DataFrame
    places: Places
    note: str


def prepare_speed(selection: Selection) -> Speed:
    """Over completed trials, by the selected metric on dev."""
    shown = shown_cells(selection.trials)
    trials = completed_of(selection.trials, shown.table)
    scored = _scored(selection, trials)
    most = int(scored.groupby("trial_id").size().max()) if len(scored) else 0
    if most < LEAST_EVALUATIONS:
        raise EmptyPartError(f"Trials have {most} evaluations; {LEAST_EVALUATIONS} say when a score is reached.")
    best = baseline_best(scored, trials.assign(trial_id=trials["t"]))
    frames = [epochs_to(scored, SHARE), epochs_to(scored, SHARE, best=best)]
    dots = pd.concat([frame.assign(panel=panel) for panel, frame in enumerate(frames)], ignore_index=True)
    dots = dots.assign(trial_id=dots["trial_id"].map(trials.set_index("t")["trial_id"]))
    dots = dots[["panel", "trial_id", "cell", "seed", "epoch"]]
    if dots["epoch"].isna().all():
        raise EmptyPartError("No evaluation has a score above 0 by this metric.")
    by_panel = [dots[dots["panel"] == panel] for panel in range(len(TARGETS))]
    means = pd.concat([describe_cells(own, ["panel", "cell"], "epoch") for own in by_panel])
    means["trials"] = dots.groupby(["panel", "cell"], sort=False).size().to_numpy()
    means = shown.table.merge(means, on="cell").sort_values("panel", kind="stable", ignore_index=True)
    spots = places_of(shown.table, trials)
    return Speed(dots.assign(x=beside_each_other(dots, spots)), means, spots, shown.note)


def _scored(selection: Selection, trials: pd.DataFrame) -> pd.DataFrame:
    """The evaluations with the selected metric as `score`; `trial_id` is a number, which is faster than text."""
    metric = selection.query.metric
    own = metric not in METRICS or metric == str(selection.trials["metric"].iloc[0])
    column = "score" if own else metric
    assert column in {"score", *METRICS}, column
    sql = f"SELECT t, step, epoch, {column} AS score FROM epochs JOIN chosen USING (t, attempt) ORDER BY t, step"  # noqa: S608
    rows = selection.snapshot.database.ask(sql, chosen=trials[["t", "attempt"]].astype("int32"))
    at = pd.Index(trials["t"]).get_indexer(rows["t"])
    same = {name: trials[name].to_numpy()[at] for name in ("cell", "seed")}
    return rows.rename(columns={"t": "trial_id"}).assign(**same)


def draw_speed(info: Speed, look: Look) -> Figure:
    """A dot per trial, and the mean of those that reach the target."""
    data: list[Row] = []
    several = info.means["train_size"].nunique() > 1
    reached = info.dots[info.dots["epoch"].notna()]
    dots = dict(iter(reached.groupby(["panel", "cell"], sort=False))) if len(reached) <= MAX_DOTS else {}
    for row in info.means.itertuples():
        if (row.panel, row.cell) in dots:
            label = cell_name(row, several=several)
            data.append(_dots(dots[row.panel, row.cell], row, row.panel, look, label))
    data += [_means(info, panel, look) for panel in range(len(TARGETS))]
    titles = [f"epochs to {100 * SHARE:.0f} % of<br>{target}" for target in TARGETS]
    drawn = panels(look, info.places.axis(), titles, rangemode="tozero")
    return with_note({"data": data, "layout": drawn}, look, info.note, _unreached(info))


def _unreached(info: Speed) -> str:
    counts = info.dots["epoch"].isna().groupby(info.dots["panel"]).sum().to_dict()
    share = f"{100 * SHARE:.0f} %"
    phrases = [f"{counted(int(n), 'trial')} never reach {share} of {TARGETS[k]}" for k, n in counts.items() if n]
    return f"{' and '.join(phrases)}; they are in no mean." if phrases else ""


def _dots(dots: pd.DataFrame, row: Any, panel: int, look: Look, label: str) -> Row:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label,
        "showlegend": False,
        "yaxis": axis_name(panel),
        "x": numbers(dots["x"]),
        "y": numbers(dots["epoch"]),
        "customdata": list(zip(dots["trial_id"].tolist(), dots["seed"].tolist(), strict=True)),
        "marker": {"symbol": cell_symbol(look, row), "size": 7, "opacity": 0.75, "color": cell_colour(look, row)},
        "hovertemplate": "epochs: %{y:.3~f}, seed %{customdata[1]}<br>trial %{customdata[0]}"
        f"<extra>{label}</extra>",
    }


def _means(info: Speed, panel: int, look: Look) -> Row:
    rows = without_few(info.means[(info.means["panel"] == panel) & (info.means["n"] > 0)])
    return mean_marks(
        [info.places.at[cell] for cell in rows["cell"]],
        rows,
        look,
        showlegend=panel == 0,
        yaxis=axis_name(panel),
        customdata=rows[["n", "trials"]].to_numpy(dtype=object).tolist(),
        hovertemplate="epochs: %{y:.3~f} on average<br>trials: %{customdata[0]} of %{customdata[1]}<extra></extra>",
    )


def speed_table(info: Speed) -> pd.DataFrame:
    """One row per cell and target."""
    t = info.means
    return pd.DataFrame(
        {
            f"epochs to {100 * SHARE:.0f} % of": t["panel"].map(dict(enumerate(TARGETS))),
            **setting_columns(t),
            "trials": t["trials"],
            "trials that reach it": t["n"],
            "mean (epochs)": t["mean"].round(4),
            "median (epochs)": t["median"].round(4),
            "95 % from (epochs)": t["low"].round(4),
            "95 % to (epochs)": t["high"].round(4),
        }
    )


SPEED = Part(
    "curves-speed",
    f"Epochs to {100 * SHARE:.0f} % of the best score",
    f"When a trial first reaches {100 * SHARE:.0f} % of its own best score (top) and of the baseline's (bottom).",
    prepare_speed,
    speed_table,
    draw_speed,
    if_any=True,
    method="The baseline is the trial with the same seed. Dots are trials; horizontal marks are means over the trials "
    "that reach the target, with Student's 95 % interval from three on. The table counts the others.",
    detail=True,
)
