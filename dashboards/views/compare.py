"""Compare: how two to six picked trials differ in scores, learning curves and settings.

An address picks them: `/compare?trials=id,id`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd
from dash import dcc, html

from dashboards.data.selection import Selection
from dashboards.views.kit.components import frame_table, trial_link
from dashboards.views.kit.drawing import (
    DASHES,
    SYMBOLS,
    Figure,
    Look,
    axis_name,
    epoch_axis,
    freeze_column,
    name,
    numbers,
    panels,
    short,
    with_strip,
)
from dashboards.views.kit.part import EmptyPartError, Part, View
from dashboards.views.trial_page import settings_of
from orchestrator.analysis.freeze_names import FreezeName, freeze_changes_by
from orchestrator.analysis.losses import losses
from orchestrator.analysis.two_way import interval
from orchestrator.config.quantities import amount
from trials.metrics.metric import metric_label
from trials.spec import Seeds

FEWEST, MOST = 2, 6  # trials that fit side by side
_HOW = "Tick two to six trials on the page Trials, then choose Compare."


class Picks(NamedTuple):
    """The picked trials that the store has.

    Attributes:
        trials: Their rows of `Sweep.trials`, in the order of the address, with `number` (from 1) and `sweep`.
        why_not: Why they cannot be compared, and what to do; empty if they can.
        note: Which picked trials the store does not have; empty if it has all.
    """

    trials: pd.DataFrame
    why_not: str
    note: str


def picks_of(selection: Selection) -> Picks:
    """The picked trials, of any sweep of the store, whatever the filters select."""
    wanted = selection.query.trials
    pairs = [(trial_id, selection.snapshot.trial(trial_id)) for trial_id in wanted[: MOST + 1]]
    rows = pd.DataFrame([row for _, row in pairs if row is not None])
    rows = rows.assign(number=range(1, len(rows) + 1)) if len(rows) else pd.DataFrame({"number": [], "trial_id": []})
    absent = [trial_id[:40] for trial_id, row in pairs if row is None]
    note = f"This store has no trial {', '.join(map(repr, absent))}; Trials lists those it has." if absent else ""
    why_not = ""
    if len(wanted) > MOST:
        why_not = (
            f"{len(wanted)} trials are picked, and at most {MOST} fit side by side. Untick some on the page Trials."
        )
    elif len(rows) < FEWEST:
        problem = "Only one trial is picked, and a comparison needs two." if len(rows) else "No trial is picked yet."
        why_not = f"{note} {problem} {_HOW}".strip()
    return Picks(rows, why_not, note)


def compared_picks(selection: Selection) -> Picks:
    """The picked trials. Raises EmptyPartError where they cannot be compared."""
    picks = picks_of(selection)
    if picks.why_not:
        raise EmptyPartError(picks.why_not)
    return picks


def selection_of(selection: Selection, picks: Picks) -> Selection:
    """The picked trials as a selection, by the metric that selects their epochs, on dev."""
    return replace(selection, trials=picks.trials, column="score", value_name="dev score", scored="dev")


def words_of(picks: Picks) -> list[str]:
    """A name for each trial among the others: what it freezes, and in what else they differ; not escaped."""
    rows = picks.trials
    more: dict[str, Callable[[Any], str]] = {
        "corpus": str,
        "model": str,
        "train_size": lambda value: f"train size {value:,}",
        "setup": str,
        "seed": lambda value: f"seed {Seeds.label_of(int(value))}",
    }
    differing = [key for key in more if rows[key].nunique() > 1]
    frozen = freeze_column(rows["freeze_spec"], rows["n_layers"])
    return [
        ", ".join([name, *(more[key](row[key]) for key in differing if row[key] != "")])
        for name, row in zip(frozen, rows.to_dict("records"), strict=True)
    ]


class PickedCurves(NamedTuple):
    """The evaluations of the picked trials.

    Attributes:
        epochs: One row per evaluation, with `number` of the trial.
    """

    picks: Picks
    words: list[str]
    epochs: pd.DataFrame


def prepare_curves(selection: Selection) -> PickedCurves:
    """Every evaluation that the store has."""
    picks = compared_picks(selection)
    epochs = selection.snapshot.epochs(picks.trials)
    if not len(epochs):
        raise EmptyPartError("None of these trials has been evaluated yet.")
    numbered = epochs.merge(picks.trials[["trial_id", "number"]], on="trial_id")
    return PickedCurves(picks, words_of(picks), numbered.sort_values(["number", "step"], ignore_index=True))


def draw_curves(info: PickedCurves, look: Look) -> Figure:
    """Score above, loss below; each line is named at its end."""
    metrics = info.picks.trials["metric"].unique().tolist()
    title = f"dev {metric_label(metrics[0])} (%)" if len(metrics) == 1 else "dev score (%)"
    first, last = float(info.epochs["epoch"].min()), float(info.epochs["epoch"].max())
    air = 0.03 * max(last - first, 1.0)
    x = epoch_axis("epoch", last, range=[max(first - air, 0), last + air])  # the names lie beyond
    drawn = panels(look, x, [title, "dev loss"])
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    rows = info.picks.trials.to_dict("records")
    labels = [str(row["number"]) if look.narrow else _end_label(row) for row in rows]  # the page lists them, too
    for panel, (column, scale) in enumerate((("score", 100.0), ("dev_loss", 1.0))):
        ends: list[tuple[float, float, int]] = []
        for number, phrase in enumerate(info.words):
            rows = info.epochs[(info.epochs["number"] == number + 1) & info.epochs[column].notna()]
            if len(rows):
                data.append(_line(rows, numbers(rows[column], scale), number, f"{number + 1} {phrase}", panel, look))
                ends.append((float(rows["epoch"].iloc[-1]), scale * float(rows[column].iloc[-1]), number))
        if ends:
            notes += _labels(ends, labels, panel, look)
    del drawn["legend"]  # which would take room above
    drawn |= {"showlegend": False, "annotations": notes}
    drawn["margin"] = {**drawn["margin"], "r": 24 + 9 * max(map(len, labels))}
    return {"data": data, "layout": drawn}


def _end_label(row: dict[Hashable, Any]) -> str:
    """The number of a trial and what it freezes."""
    return f"{row['number']} {_freeze_name(row).squares or short(row['freeze'], 12)}"


def _freeze_name(row: dict[Hashable, Any]) -> FreezeName:
    return FreezeName(row["freeze_spec"], int(row["n_layers"]))


def _line(rows: pd.DataFrame, y: list[float | None], number: int, title: str, panel: int, look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name(title),
        "yaxis": axis_name(panel),
        "x": numbers(rows["epoch"]),
        "y": y,
        "customdata": [[trial_id] for trial_id in rows["trial_id"]],
        "line": {"color": look.line(number), "dash": DASHES[number], "width": 2},
        "marker": {"symbol": SYMBOLS[number], "size": 7, "color": look.line(number)},
        "hovertemplate": "%{y:.4~f} at epoch %{x:.3~f}<extra>%{fullData.name}</extra>",
    }


def _labels(ends: list[tuple[float, float, int]], labels: list[str], panel: int, look: Look) -> list[dict[str, Any]]:
    """The names at the ends of lines, apart from each other where the lines are not."""
    ordered = sorted(ends, key=lambda end: end[1])
    low, high = ordered[0][1], ordered[-1][1]
    gap = max(high - low, 0.02 * abs(high), 1e-6) / 6
    places: list[float] = []
    for _, y, _ in ordered:
        places.append(max(y, places[-1] + gap) if places else y)
    shift = (sum(places) - sum(y for _, y, _ in ordered)) / len(places)
    return [
        {"text": name(labels[number], 40), "xref": "x", "x": max(x for x, _, _ in ends), "xanchor": "left",
         "xshift": 8, "yref": axis_name(panel), "y": round(place - shift, 4), "yanchor": "middle", "showarrow": False,
         "font": {"color": look.line(number), "size": 12}}
        for place, (_, _, number) in zip(places, ordered, strict=True)
    ]  # fmt: skip


def curves_table(info: PickedCurves) -> pd.DataFrame:
    """One row per evaluation: `number`, `trial`, `epoch`, the dev score in percent, and both losses."""
    t = info.epochs
    return pd.DataFrame(
        {
            "number": t["number"],
            "trial": t["trial_id"],
            "epoch": t["epoch"].round(4),
            "dev score (%)": (100 * t["score"]).round(4),
            "dev loss": t["dev_loss"].round(4),
            "train loss": t["train_loss"].round(4),
        }
    )


CURVES = Part(
    "compare-curves",
    "Learning curves",
    "Dev score (top) and dev loss (bottom) of each picked trial after each evaluation.",
    prepare_curves,
    curves_table,
    draw_curves,
    of_store=True,
)


_SAME = ("task", "metric", "corpus", "train_size")  # what two trials must share for their scores to compare


def _picked_selection(selection: Selection) -> Selection:
    """The picked trials, if there are any."""
    picks = picks_of(selection)
    return selection_of(selection, picks) if len(picks.trials) else selection


def picked_list(selection: Selection) -> Any:
    """The picked trials with their numbers, each with a link that removes it."""
    picks = picks_of(selection)
    if not len(picks.trials):
        return dmc.Alert(
            [picks.why_not, " ", dcc.Link("Open Trials", href=f"/trials{selection.query.search()}")],
            title="Nothing to compare yet",
            className="nothing-picked",
            color="blue",
            variant="outline",
        )
    lines = []
    for row, phrase in zip(picks.trials.to_dict("records"), words_of(picks), strict=True):
        rest = tuple(trial_id for trial_id in selection.query.trials if trial_id != row["trial_id"])
        remove = dcc.Link(
            "Remove",
            href=f"/compare{selection.query.but(trials=rest).search()}",
            title=f"Remove trial {row['number']} from the comparison",
        )
        strip = with_strip(_freeze_name(row), "")
        lines.append(
            html.Li([html.Span(strip, className="strip"), f"{phrase} (", trial_link(row["trial_id"]), ") ", remove])
        )
    notices = [dmc.Text(notice, size="sm") for notice in dict.fromkeys((picks.why_not, picks.note)) if notice]
    more = dcc.Link("Pick other trials", href=f"/trials{selection.query.search()}")
    return dmc.Paper([html.Ol(lines, className="picks"), *notices, more], p="sm", withBorder=True, className="part")


def prepare_scores(selection: Selection) -> pd.DataFrame:
    """One row per picked `trial`: `state`, `metric`, scores in percent, `best epoch` and the `difference to 1
    (points)`, which is NaN where a trial does not compare with the first.

    Two trials are paired if they share corpus, train size and seeds; scores compare within one corpus and size.
    """
    picks = compared_picks(selection)
    t, rows = picks.trials, picks.trials.to_dict("records")
    first = rows[0]
    paired, differences = [], []
    for row in rows:
        other = next((key.replace("_", " ") for key in _SAME if row[key] != first[key]), "")
        differences.append(float("nan") if other else 100 * (float(row["score"]) - float(first["score"])))
        if row is first:
            paired.append("reference")
        elif other:
            paired.append(f"not compared: other {other}")
        else:
            paired.append("yes, by seed" if row["seed"] == first["seed"] else "no: other seed")
    changing = freeze_changes_by(t, "trial_id")
    return pd.DataFrame(
        {
            "number": t["number"],
            "what": words_of(picks),
            "dev score (%)": 100 * t["score"].astype("float64"),
            "difference to 1 (points)": differences,
            "paired with 1": paired,
            "test score (%)": 100 * t["test_score"].astype("float64"),
            "metric": t["metric"].map(metric_label),
            "trial": t["trial_id"],
            "state": t["state"].str.replace("_", " "),
            "best epoch": t["best_epoch"],
            "training (s)": t["train_s"].astype("float64").round(2),
            **({"what it froze": t["trial_id"].map(changing).fillna("")} if changing else {}),
        }
    )


def prepare_pairs(selection: Selection) -> pd.DataFrame:
    """Differences paired by seed, over seeds and, where their contributions are stored, sentences.

    One row per `setting` that has `pairs` with that of the first trial (`minus`): the mean difference and its interval
    in points, whose ends are NaN where there is none, and a `note`.
    """
    picks = compared_picks(selection)
    first = picks.trials.iloc[0]
    mine = picks.trials[(picks.trials[list(_SAME)] == first[list(_SAME)]).all(axis=1)]
    frame = selection_of(selection, picks._replace(trials=mine)).with_sentences
    paired = losses(frame.assign(baseline=first["cell"]))
    labels = mine.drop_duplicates("cell").set_index("cell")
    rows = []
    for cell, values in zip(paired.cells["cell"], paired.values, strict=True):
        if len(values):
            estimate = interval(values, sizes=paired.sizes)
            low, high = (float("nan") if end is None else -end for end in (estimate.high, estimate.low))
            rows.append(
                {
                    "setting": _setting(labels.loc[cell]),
                    "minus": _setting(first),
                    "pairs": estimate.n_seeds,
                    "difference (points)": -estimate.mean,
                    "95 % from (points)": low,
                    "95 % to (points)": high,
                    "note": estimate.note or f"over {estimate.ranges_over}",
                }
            )
    if not rows:
        raise EmptyPartError(
            "No two completed trials of different settings share corpus, train size and seed, so none are paired. Pick "
            "trials of the same seed on the page Trials."
        )
    return pd.DataFrame(rows)


def _setting(row: Any) -> str:
    return ", ".join(filter(None, [_freeze_name(row), str(row["setup"])]))


def prepare_settings(selection: Selection) -> pd.DataFrame:
    """All settings of the picked trials' specs: `setting`, a column per trial, `differs`; those that differ first."""
    by_trial = [settings_of(selection.snapshot, row) for row in compared_picks(selection).trials.to_dict("records")]
    keys = list(dict.fromkeys(key for settings in by_trial for key in settings))
    columns = {str(n): [settings.get(key, "") for key in keys] for n, settings in enumerate(by_trial, start=1)}
    table = pd.DataFrame({"setting": keys, **columns})
    table["differs"] = table[list(columns)].nunique(axis=1) > 1
    return table.sort_values("differs", ascending=False, kind="stable", ignore_index=True)


def settings_body(info: pd.DataFrame) -> Any:
    """Each `setting` that `differs`; the others on demand."""
    shown = info.drop(columns="differs")
    differing, same = shown[info["differs"]], shown[~info["differs"]]
    head = frame_table(differing) if len(differing) else dmc.Text("These trials have the same settings.")
    summary = html.Summary(f"{amount(len(same), 'setting')} that {'are' if len(same) != 1 else 'is'} the same in all")
    folded = html.Details([summary, frame_table(same[["setting", "1"]].rename(columns={"1": "value"}))])
    return html.Div([head, folded])


SCORES = Part(
    "compare-scores",
    "Scores side by side",
    "Score and cost of each picked trial, and its difference to the first.",
    prepare_scores,
    method="Two trials are paired if they share corpus, train size and seed: then they saw the same sentences in the "
    "same order and started from the same head. A difference of unpaired trials also holds what the seeds differ by.",
    of_store=True,
)
PAIRS = Part(
    "compare-pairs",
    "Paired differences",
    "Mean difference of each picked setting to that of the first trial, over the picked pairs.",
    prepare_pairs,
    method="Paired by seed; the 95 % interval is over seeds and, where the store has what each contributes, sentences. "
    "One pair has no interval: how much another seed would differ is unknown. Picking the pairs by their scores makes "
    "the interval meaningless; Scores has all pairs.",
    of_store=True,
)
SETTINGS = Part(
    "compare-settings",
    "Settings",
    "The settings in which the picked trials differ, one column a trial.",
    prepare_settings,
    body=lambda info, look: settings_body(info),
    of_store=True,
)
VIEW = View(
    "/compare",
    "Compare",
    "How do the picked trials differ?",
    (SCORES, PAIRS, CURVES, SETTINGS),
    (),
    content=picked_list,
    in_navigation=False,
    shows=_picked_selection,
)
