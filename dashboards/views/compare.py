"""Compare: how two to six picked trials differ in scores, learning curves, settings and predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd
from dash import dcc, html

from dashboards.data.contributions import trials_with_sentences
from dashboards.data.picks import Picks, picks_of, selection_of
from dashboards.data.predictions import Disagreement, disagreements
from dashboards.data.selection import Selection
from dashboards.views.components import frame_table, trial_link
from dashboards.views.drawing import axis_name, count, freeze_name, name, numbers, panels, short, with_strip
from dashboards.views.part import Part
from dashboards.views.theme import Figure, Look, axis
from dashboards.views.trial_page import settings_of
from dashboards.views.view import View
from orchestrator.analysis.layer_strip import layer_strip
from orchestrator.analysis.losses import losses
from orchestrator.analysis.two_way import interval
from trials.errors import StoreError
from trials.metrics.metric import metric_label
from trials.settings import Seeds

MAX_SENTENCES = 20
_SAME = ("task", "metric", "corpus", "train_size")  # what two trials must share for their scores to compare
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")


def _words_of(picks: Picks) -> list[str]:
    """What names each trial beside the others: what it freezes, and in what else they differ; not escaped."""
    rows = picks.trials
    more: dict[str, Callable[[Any], str]] = {
        "corpus": str,
        "model": str,
        "train_size": lambda value: f"train size {value:,}",
        "setup": str,
        "seed": lambda value: f"seed {Seeds.label_of(int(value))}",
    }
    differing = [key for key in more if rows[key].nunique() > 1]
    return [
        ", ".join([freeze_name(row["freeze"]), *(more[key](row[key]) for key in differing if row[key] != "")])
        for row in rows.to_dict("records")
    ]


# --- Which trials


def picked_list(selection: Selection) -> Any:
    """The picked trials with their numbers, each with a link that removes it."""
    picks = picks_of(selection)
    if not len(picks.trials):
        return dmc.Alert(
            [picks.why_not, " ", dcc.Link("Open Trials", href=f"/trials{selection.query.search()}")],
            title="Nothing to compare yet",
            color="blue",
            variant="outline",
        )
    lines = []
    for row, words in zip(picks.trials.to_dict("records"), _words_of(picks), strict=True):
        rest = tuple(each for each in selection.query.trials if each != row["trial_id"])
        remove = dcc.Link(
            "Remove",
            href=f"/compare{selection.query.but(trials=rest).search()}",
            title=f"Remove trial {row['number']} from the comparison",
        )
        strip = with_strip(str(row["freeze"]), int(row["n_layers"]), "")
        lines.append(
            html.Li([html.Span(strip, className="strip"), f"{words} (", trial_link(row["trial_id"]), ") ", remove])
        )
    said = [dmc.Text(words, size="sm") for words in dict.fromkeys((picks.why_not, picks.note)) if words]
    more = dcc.Link("Pick other trials", href=f"/trials{selection.query.search()}")
    return dmc.Paper([html.Ol(lines, className="picks"), *said, more], p="sm", withBorder=True, className="part")


# --- Scores


class Scores(NamedTuple):
    """The scores of the picked trials.

    Attributes:
        picks: The trials.
        words: What names each.
        differences: Score (0..1) minus that of the first; NaN where they do not compare.
        paired: Whether each is paired with the first, in words.
    """

    picks: Picks
    words: list[str]
    differences: list[float]
    paired: list[str]


def prepare_scores(selection: Selection) -> Scores:
    """Two trials are paired if they share corpus, train size and seeds; scores compare within one corpus and size."""
    picks = picks_of(selection)
    if picks.why_not:
        return Scores(picks, [], [], [])
    rows = picks.trials.to_dict("records")
    first = rows[0]
    paired, differences = [], []
    for row in rows:
        other = next((key.replace("_", " ") for key in _SAME if row[key] != first[key]), "")
        differences.append(float("nan") if other else float(row["score"]) - float(first["score"]))
        if row is first:
            paired.append("reference")
        elif other:
            paired.append(f"not compared: other {other}")
        else:
            paired.append("yes, by seed" if row["seed"] == first["seed"] else "no: other seed")
    return Scores(picks, _words_of(picks), differences, paired)


def scores_table(info: Scores) -> pd.DataFrame:
    """One row per trial."""
    t = info.picks.trials
    return pd.DataFrame(
        {
            "number": t["number"],
            "trial": t["trial_id"],
            "what": info.words,
            "state": t["state"].str.replace("_", " "),
            "metric": t["metric"].map(metric_label),
            "dev score (%)": 100 * t["score"].astype("float64"),
            "test score (%)": 100 * t["test_score"].astype("float64"),
            "difference to 1 (points)": [100 * value for value in info.differences],
            "paired with 1": info.paired,
            "best epoch": t["best_epoch"],
            "training (s)": t["train_s"].astype("float64").round(2),
        }
    )


class Pairs(NamedTuple):
    """The mean differences between the settings of the picked trials.

    Attributes:
        picks: The trials.
        rows: One row per setting that has pairs with that of the first trial: `setting`, `n_pairs`, `mean`, `low`,
            `high` (0..1; NaN without an interval), `note`.
        reference: The setting of the first trial.
    """

    picks: Picks
    rows: pd.DataFrame
    reference: str


def prepare_pairs(selection: Selection) -> Pairs:
    """Differences paired by seed, over seeds and, where their contributions are stored, sentences."""
    picks = picks_of(selection)
    if picks.why_not:
        return Pairs(picks, pd.DataFrame(), "")
    first = picks.trials.iloc[0]
    mine = picks.trials[(picks.trials[list(_SAME)] == first[list(_SAME)]).all(axis=1)]
    frame = trials_with_sentences(selection_of(selection, picks._replace(trials=mine)))
    found = losses(frame.assign(baseline=first["cell"]))
    labels = mine.drop_duplicates("cell").set_index("cell")
    rows = []
    for cell, values in zip(found.cells["cell"], found.values, strict=True):
        if len(values):
            each = interval(values)
            low, high = (float("nan") if end is None else -end for end in (each.high, each.low))
            rows.append(
                {"setting": _setting(labels.loc[cell]), "n_pairs": each.n_seeds, "mean": -each.mean, "low": low,
                 "high": high, "note": each.note or f"over {each.ranges_over}"}
            )  # fmt: skip
    return Pairs(picks, pd.DataFrame(rows), _setting(first))


def _setting(row: Any) -> str:
    return ", ".join(filter(None, [freeze_name(row["freeze"]), str(row["setup"])]))


def why_no_pairs(info: Pairs) -> str:
    """Why there is no difference to show; empty if there is one."""
    if info.picks.why_not or len(info.rows):
        return info.picks.why_not
    return (
        "No two completed trials of different settings share corpus, train size and seed, so none are paired. Pick "
        "trials of the same seed on the page Trials."
    )


def pairs_table(info: Pairs) -> pd.DataFrame:
    """One row per setting."""
    t = info.rows
    return pd.DataFrame(
        {
            "setting": t["setting"],
            "minus": info.reference,
            "pairs": t["n_pairs"],
            "difference (points)": 100 * t["mean"],
            "95 % from (points)": 100 * t["low"],
            "95 % to (points)": 100 * t["high"],
            "note": t["note"],
        }
    )


# --- Curves


class PickedCurves(NamedTuple):
    """The evaluations of the picked trials.

    Attributes:
        picks: The trials.
        words: What names each.
        epochs: One row per evaluation, with `number` of the trial.
    """

    picks: Picks
    words: list[str]
    epochs: pd.DataFrame


def prepare_curves(selection: Selection) -> PickedCurves:
    """Every evaluation that the store has."""
    picks = picks_of(selection)
    if picks.why_not:
        return PickedCurves(picks, [], pd.DataFrame())
    found = selection.snapshot.epochs(picks.trials)
    numbered = found.merge(picks.trials[["trial_id", "number"]], on="trial_id")
    return PickedCurves(picks, _words_of(picks), numbered.sort_values(["number", "step"], ignore_index=True))


def why_no_curves(info: PickedCurves) -> str:
    """Why there is nothing to draw; empty if there is something."""
    return info.picks.why_not or ("" if len(info.epochs) else "None of these trials has been evaluated yet.")


def draw_curves(info: PickedCurves, look: Look) -> Figure:
    """Score above, loss below; each line is named at its end."""
    metrics = info.picks.trials["metric"].unique().tolist()
    title = f"dev {metric_label(metrics[0])} (%)" if len(metrics) == 1 else "dev score (%)"
    last = float(info.epochs["epoch"].max())
    drawn = panels(look, axis("epoch", range=[0, 1.03 * last]), [title, "dev loss"])  # the names lie beyond
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    labels = [_end_label(row) for row in info.picks.trials.to_dict("records")]
    for panel, (column, scale) in enumerate((("score", 100.0), ("dev_loss", 1.0))):
        ends: list[tuple[float, float, int]] = []
        for number, words in enumerate(info.words):
            rows = info.epochs[(info.epochs["number"] == number + 1) & info.epochs[column].notna()]
            if len(rows):
                data.append(_line(rows, numbers(rows[column], scale), number, f"{number + 1} {words}", panel, look))
                ends.append((float(rows["epoch"].iloc[-1]), scale * float(rows[column].iloc[-1]), number))
        if ends:
            notes += _labels(ends, labels, panel, look)
    del drawn["legend"]  # which would take room above
    drawn |= {"showlegend": False, "annotations": notes}
    drawn["margin"] = {**drawn["margin"], "r": 24 + 9 * max(map(len, labels))}
    return {"data": data, "layout": drawn}


def _end_label(row: dict[Hashable, Any]) -> str:
    """The number of a trial and what it freezes, as short as a phone needs it."""
    return f"{row['number']} {layer_strip(str(row['freeze']), int(row['n_layers'])) or short(row['freeze'], 12)}"


def _line(rows: pd.DataFrame, y: list[float | None], number: int, words: str, panel: int, look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name(words),
        "yaxis": axis_name(panel),
        "x": numbers(rows["epoch"]),
        "y": y,
        "customdata": [[trial_id] for trial_id in rows["trial_id"]],
        "line": {"color": look.line(number), "dash": _DASHES[number], "width": 2},
        "marker": {"symbol": _SYMBOLS[number], "size": 7, "color": look.line(number)},
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
    """One row per evaluation."""
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


# --- Settings


class PickedSettings(NamedTuple):
    """The settings of the picked trials.

    Attributes:
        picks: The trials.
        table: One row per setting: `setting`, a column per trial, `differs`; those that differ first.
    """

    picks: Picks
    table: pd.DataFrame


def prepare_settings(selection: Selection) -> PickedSettings:
    """All settings of their specs."""
    picks = picks_of(selection)
    if picks.why_not:
        return PickedSettings(picks, pd.DataFrame())
    found = [settings_of(selection.snapshot, row) for row in picks.trials.to_dict("records")]
    keys = list(dict.fromkeys(key for settings in found for key in settings))
    columns = {str(n): [each.get(key, "") for key in keys] for n, each in enumerate(found, start=1)}
    table = pd.DataFrame({"setting": keys, **columns})
    table["differs"] = table[list(columns)].nunique(axis=1) > 1
    return PickedSettings(picks, table.sort_values("differs", ascending=False, kind="stable", ignore_index=True))


def settings_body(info: PickedSettings) -> Any:
    """The settings that differ; the others on demand."""
    shown = info.table.drop(columns="differs")
    differing, same = shown[info.table["differs"]], shown[~info.table["differs"]]
    head = frame_table(differing) if len(differing) else dmc.Text("These trials have the same settings.")
    summary = html.Summary(f"{count(len(same), 'setting')} that {'are' if len(same) != 1 else 'is'} the same in all")
    folded = html.Details([summary, frame_table(same[["setting", "1"]].rename(columns={"1": "value"}))])
    return html.Div([head, folded])


# --- Sentences


class Sentences(NamedTuple):
    """The sentences of dev that the picked trials label differently.

    Attributes:
        picks: The trials with predictions.
        found: The sentences, those with most differing words first.
        n: Number of sentences that all of them labelled.
        note: Which trials have no predictions; empty if all have.
        why_not: Why there is nothing to show; empty if there is something.
    """

    picks: Picks
    found: list[Disagreement]
    n: int
    note: str
    why_not: str


_STORE_THEM = "Set `predictions: all` in the sweep file to store them."


def prepare_sentences(selection: Selection) -> Sentences:
    """Of the trials whose predictions are stored."""
    picks = picks_of(selection)
    if picks.why_not:
        return Sentences(picks, [], 0, "", picks.why_not)
    try:
        found, n, without = disagreements(selection.snapshot, picks.trials["trial_id"].tolist(), "dev")
    except StoreError as error:
        return Sentences(picks, [], 0, "", str(error))
    kept = picks._replace(trials=picks.trials[~picks.trials["trial_id"].isin(without)])
    absent = ", ".join(str(number) for number in picks.trials["number"][picks.trials["trial_id"].isin(without)])
    note = f"No predictions are stored of trial {absent}. {_STORE_THEM}" if without else ""
    found = sorted(found, key=lambda each: (-sum(each.differs), each.number))
    return Sentences(kept, found, n, note, _why_no_sentences(kept, found, n, note))


def _why_no_sentences(picks: Picks, found: list[Disagreement], n: int, note: str) -> str:
    if len(picks.trials) < 2:
        return f"Predictions can be compared where two trials have them. {note}"
    if not n:
        return "These trials have no dev sentence in common: pick trials of one corpus on the page Trials."
    return "" if found else f"No difference in {count(n, 'sentence')} of dev. {note}".strip()


def sentences_body(info: Sentences) -> Any:
    """The first sentences; words whose labels differ are marked, with what each trial says."""
    numbers_of = info.picks.trials["number"].tolist()
    right = [
        f"trial {number} has {sum(_right(each, at) for each in info.found):,}" for at, number in enumerate(numbers_of)
    ]
    words = sum(sum(each.differs) for each in info.found)
    head = (
        f"{len(info.found):,} of {count(info.n, 'sentence')} of dev are labelled differently, in "
        f"{count(words, 'word')}; of these words, {', '.join(right)} right."
    )
    shown = info.found[:MAX_SENTENCES]
    cut = f" The first {len(shown)} follow, those with most differing words first; the CSV has all."
    return html.Div(
        [
            dmc.Text(head + (cut if len(shown) < len(info.found) else "")),
            *([dmc.Text(info.note)] if info.note else []),
            *(_marked(each, numbers_of) for each in shown),
        ]
    )


def _right(found: Disagreement, at: int) -> int:
    return sum(
        differs and label == gold
        for differs, label, gold in zip(found.differs, found.predicted[at], found.gold, strict=True)
    )


def _marked(found: Disagreement, numbers_of: list[int]) -> Any:
    """A sentence; a mark says the correct label, then others, each with the numbers of the trials that predict it."""
    if len(found.words) != len(found.gold):  # a text with one label
        return html.P([" / ".join(found.words), " ", _mark("", found, 0, numbers_of)], className="sentence", dir="auto")
    parts: list[Any] = []
    for at, (word, differs) in enumerate(zip(found.words, found.differs, strict=True)):
        parts += [_mark(word, found, at, numbers_of) if differs else word, " "]
    return html.P(parts, className="sentence", dir="auto")


def _mark(word: str, found: Disagreement, at: int, numbers_of: list[int]) -> Any:
    by_label: dict[str, list[str]] = {found.gold[at]: []}
    for number, labels in zip(numbers_of, found.predicted, strict=True):
        by_label.setdefault(labels[at] or "nothing", []).append(str(number))
    said = ", ".join(f"{label} ({' '.join(trials) or 'none'})" for label, trials in by_label.items())
    plain = {"background": "transparent", "color": "inherit"}  # so many marks would glare
    return html.Mark([word, html.Span(f" {said}", className="tag")], className="wrong", style=plain)


def sentences_table(info: Sentences) -> pd.DataFrame:
    """One row per word whose labels differ."""
    numbers_of = info.picks.trials["number"].tolist()
    rows = [
        {
            "sentence": each.number,
            "word": each.words[at] if len(each.words) == len(each.gold) else " / ".join(each.words),
            "gold": gold,
            **{f"trial {number}": labels[at] or "" for number, labels in zip(numbers_of, each.predicted, strict=True)},
        }
        for each in info.found
        for at, gold in enumerate(each.gold)
        if each.differs[at]
    ]
    return pd.DataFrame(rows)


SCORES = Part(
    "compare-scores",
    "Scores side by side",
    "Score and cost of each picked trial, and its difference to the first.",
    prepare_scores,
    scores_table,
    why_empty=lambda info: info.picks.why_not,
    method="Two trials are paired if they share corpus, train size and seed: then they saw the same sentences in the "
    "same order and started from the same head. A difference of unpaired trials also holds what the seeds differ by.",
    of_store=True,
)
PAIRS = Part(
    "compare-pairs",
    "Paired differences",
    "Mean difference of each picked setting to that of the first trial, over the picked pairs.",
    prepare_pairs,
    pairs_table,
    why_empty=why_no_pairs,
    method="Paired by seed; the 95 % interval is over seeds and, where the store has what each contributes, sentences. "
    "One pair has no interval: how much another seed would differ is unknown. Picking the pairs by their scores makes "
    "the interval meaningless; Depth has all pairs.",
    of_store=True,
)
CURVES = Part(
    "compare-curves",
    "Learning curves",
    "Dev score (top) and dev loss (bottom) of each picked trial after each evaluation.",
    prepare_curves,
    curves_table,
    draw_curves,
    why_no_curves,
    of_store=True,
)
SETTINGS = Part(
    "compare-settings",
    "Settings",
    "The settings in which the picked trials differ, one column a trial.",
    prepare_settings,
    lambda info: info.table,
    why_empty=lambda info: info.picks.why_not,
    body=settings_body,
    of_store=True,
)
SENTENCES = Part(
    "compare-sentences",
    "Sentences labelled differently",
    "Dev sentences on which predictions differ: the correct label first, in parentheses the trials that predict it.",
    prepare_sentences,
    sentences_table,
    why_empty=lambda info: info.why_not,
    body=sentences_body,
    of_store=True,
)
VIEW = View(
    "/compare",
    "Compare",
    "How do the picked trials differ?",
    (SCORES, PAIRS, CURVES, SETTINGS, SENTENCES),
    (),
    content=picked_list,
)
