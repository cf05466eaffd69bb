"""Compare: how two to six picked trials differ in scores, learning curves and settings."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
import pandas as pd
from dash import dcc, html

from dashboards.data.selection import Selection
from dashboards.views.kit.components import frame_table, trial_link
from dashboards.views.kit.labels import with_strip
from dashboards.views.kit.part import EmptyPartError, Part, View
from dashboards.views.picked import picks_of, selection_of, to_compare, words_of
from dashboards.views.picked_curves import CURVES
from dashboards.views.trial_page import settings_of
from orchestrator.analysis.freeze_names import freeze_name, froze_by
from orchestrator.analysis.losses import losses
from orchestrator.analysis.two_way import interval
from orchestrator.config.quantities import counted
from trials.metrics.metric import metric_label

_SAME = ("task", "metric", "corpus", "train_size")  # what two trials must share for their scores to compare


def _picked(selection: Selection) -> Selection:
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
        strip = with_strip(str(row["freeze"]), int(row["n_layers"]), "")
        lines.append(
            html.Li([html.Span(strip, className="strip"), f"{phrase} (", trial_link(row["trial_id"]), ") ", remove])
        )
    notices = [dmc.Text(notice, size="sm") for notice in dict.fromkeys((picks.why_not, picks.note)) if notice]
    more = dcc.Link("Pick other trials", href=f"/trials{selection.query.search()}")
    return dmc.Paper([html.Ol(lines, className="picks"), *notices, more], p="sm", withBorder=True, className="part")


def prepare_scores(selection: Selection) -> pd.DataFrame:
    """One row per picked trial, with the difference of its score to that of the first; NaN where they do not compare.

    Two trials are paired if they share corpus, train size and seeds; scores compare within one corpus and size.
    """
    picks = to_compare(selection)
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
    changing = froze_by(t, "trial_id")
    return pd.DataFrame(
        {
            "number": t["number"],
            "trial": t["trial_id"],
            "what": words_of(picks),
            "state": t["state"].str.replace("_", " "),
            "metric": t["metric"].map(metric_label),
            "dev score (%)": 100 * t["score"].astype("float64"),
            "test score (%)": 100 * t["test_score"].astype("float64"),
            "difference to 1 (points)": differences,
            "paired with 1": paired,
            "best epoch": t["best_epoch"],
            "training (s)": t["train_s"].astype("float64").round(2),
            **({"what it froze": t["trial_id"].map(changing).fillna("")} if changing else {}),
        }
    )


def prepare_pairs(selection: Selection) -> pd.DataFrame:
    """Differences paired by seed, over seeds and, where their contributions are stored, sentences.

    One row per setting that has pairs with that of the first trial; without an interval its ends are NaN.
    """
    picks = to_compare(selection)
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
    return ", ".join(filter(None, [freeze_name(row["freeze"], int(row["n_layers"])), str(row["setup"])]))


def prepare_settings(selection: Selection) -> pd.DataFrame:
    """All settings of the picked trials' specs: `setting`, a column per trial, `differs`; those that differ first."""
    by_trial = [settings_of(selection.snapshot, row) for row in to_compare(selection).trials.to_dict("records")]
    keys = list(dict.fromkeys(key for settings in by_trial for key in settings))
    columns = {str(n): [settings.get(key, "") for key in keys] for n, settings in enumerate(by_trial, start=1)}
    table = pd.DataFrame({"setting": keys, **columns})
    table["differs"] = table[list(columns)].nunique(axis=1) > 1
    return table.sort_values("differs", ascending=False, kind="stable", ignore_index=True)


def settings_body(info: pd.DataFrame) -> Any:
    """The settings that differ; the others on demand."""
    shown = info.drop(columns="differs")
    differing, same = shown[info["differs"]], shown[~info["differs"]]
    head = frame_table(differing) if len(differing) else dmc.Text("These trials have the same settings.")
    summary = html.Summary(f"{counted(len(same), 'setting')} that {'are' if len(same) != 1 else 'is'} the same in all")
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
    shows=_picked,
)
