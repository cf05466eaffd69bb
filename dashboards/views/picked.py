"""The trials that an address picks to be compared: `/compare?trials=id,id`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, NamedTuple

import dash_mantine_components as dmc
import pandas as pd
from dash import html

from dashboards.data.predictions import Disagreement, disagreements
from dashboards.data.selection import Selection
from dashboards.views.kit.components import marked
from dashboards.views.kit.drawing import axis_name, freeze_name, name, numbers, panels, short
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import DASHES, SYMBOLS, Figure, Look, axis
from orchestrator.analysis.cells import layer_strip
from orchestrator.config.quantities import counted
from trials.errors import StoreError
from trials.metrics.metric import metric_label
from trials.settings import Seeds

FEWEST, MOST = 2, 6
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
    """Of any sweep of the store, whatever the filters select."""
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


def to_compare(selection: Selection) -> Picks:
    """The picked trials. Raises EmptyPartError where they cannot be compared."""
    picks = picks_of(selection)
    if picks.why_not:
        raise EmptyPartError(picks.why_not)
    return picks


def selection_of(selection: Selection, picks: Picks) -> Selection:
    """The picked trials as a selection, by the metric that selects their epochs, on dev."""
    return replace(selection, trials=picks.trials, column="score", value_name="dev score", scored="dev")


# The learning curves of the picked trials, and what names each trial beside the others.


def words_of(picks: Picks) -> list[str]:
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
    picks = to_compare(selection)
    epochs = selection.snapshot.epochs(picks.trials)
    if not len(epochs):
        raise EmptyPartError("None of these trials has been evaluated yet.")
    numbered = epochs.merge(picks.trials[["trial_id", "number"]], on="trial_id")
    return PickedCurves(picks, words_of(picks), numbered.sort_values(["number", "step"], ignore_index=True))


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
    """The number of a trial and what it freezes, as short as a phone needs it."""
    return f"{row['number']} {layer_strip(str(row['freeze']), int(row['n_layers'])) or short(row['freeze'], 12)}"


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


CURVES = Part(
    "compare-curves",
    "Learning curves",
    "Dev score (top) and dev loss (bottom) of each picked trial after each evaluation.",
    prepare_curves,
    curves_table,
    draw_curves,
    of_store=True,
)


# The sentences of dev that the picked trials label differently.

MAX_SENTENCES = 20


class Sentences(NamedTuple):
    """The sentences of dev that the picked trials label differently.

    Attributes:
        picks: The trials with predictions.
        found: The sentences, those with most differing words first.
        n: Number of sentences that all of them labelled.
    """

    picks: Picks
    found: list[Disagreement]
    n: int
    note: str


_STORE_THEM = "Set `predictions: all` in the sweep file to store them."


def prepare_sentences(selection: Selection) -> Sentences:
    """Of the trials whose predictions are stored."""
    picks = to_compare(selection)
    try:
        differing, n, without = disagreements(selection.snapshot, picks.trials["trial_id"].tolist(), "dev")
    except StoreError as error:
        raise EmptyPartError(str(error)) from error
    kept = picks._replace(trials=picks.trials[~picks.trials["trial_id"].isin(without)])
    absent = ", ".join(str(number) for number in picks.trials["number"][picks.trials["trial_id"].isin(without)])
    note = f"No predictions are stored of trial {absent}. {_STORE_THEM}" if without else ""
    if len(kept.trials) < FEWEST:
        raise EmptyPartError(f"Predictions can be compared where two trials have them. {note}")
    if not n:
        raise EmptyPartError(
            "These trials have no dev sentence in common: pick trials of one corpus on the page Trials."
        )
    if not differing:
        raise EmptyPartError(f"No difference in {counted(n, 'sentence')} of dev. {note}".strip())
    return Sentences(kept, sorted(differing, key=lambda sentence: (-sum(sentence.differs), sentence.number)), n, note)


def sentences_body(info: Sentences) -> Any:
    """The first sentences; words whose labels differ are marked, with what each trial says."""
    numbers_of = info.picks.trials["number"].tolist()
    right = [
        f"trial {number} has {sum(_right(sentence, at) for sentence in info.found):,}"
        for at, number in enumerate(numbers_of)
    ]
    n_words = sum(sum(sentence.differs) for sentence in info.found)
    head = (
        f"{len(info.found):,} of {counted(info.n, 'sentence')} of dev are labelled differently, in "
        f"{counted(n_words, 'word')}; of these words, {', '.join(right)} right."
    )
    shown = info.found[:MAX_SENTENCES]
    cut = f" The first {len(shown)} follow, those with most differing words first; the CSV has all."
    return html.Div(
        [
            dmc.Text(head + (cut if len(shown) < len(info.found) else "")),
            *([dmc.Text(info.note)] if info.note else []),
            *(_marked(sentence, numbers_of) for sentence in shown),
        ]
    )


def _right(sentence: Disagreement, at: int) -> int:
    return sum(
        differs and label == gold
        for differs, label, gold in zip(sentence.differs, sentence.predicted[at], sentence.gold, strict=True)
    )


def _marked(sentence: Disagreement, numbers_of: list[int]) -> Any:
    """A sentence; a mark says the correct label, then others, each with the numbers of the trials that predict it."""
    if len(sentence.words) != len(sentence.gold):  # a text with one label
        return html.P(
            [" / ".join(sentence.words), " ", _mark("", sentence, 0, numbers_of)], className="sentence", dir="auto"
        )
    parts: list[Any] = []
    for at, (word, differs) in enumerate(zip(sentence.words, sentence.differs, strict=True)):
        parts += [_mark(word, sentence, at, numbers_of) if differs else word, " "]
    return html.P(parts, className="sentence", dir="auto")


def _mark(word: str, sentence: Disagreement, at: int, numbers_of: list[int]) -> Any:
    by_label: dict[str, list[str]] = {sentence.gold[at]: []}
    for number, labels in zip(numbers_of, sentence.predicted, strict=True):
        by_label.setdefault(labels[at] or "nothing", []).append(str(number))
    remark = ", ".join(f"{label} ({' '.join(trials) or 'none'})" for label, trials in by_label.items())
    found_mark = marked(word, remark)
    found_mark.style = {"background": "transparent", "color": "inherit"}  # so many marks would glare
    return found_mark


def sentences_table(info: Sentences) -> pd.DataFrame:
    """One row per word whose labels differ."""
    numbers_of = info.picks.trials["number"].tolist()
    rows = [
        {
            "sentence": sentence.number,
            "word": sentence.words[at] if len(sentence.words) == len(sentence.gold) else " / ".join(sentence.words),
            "gold": gold,
            **{
                f"trial {number}": labels[at] or ""
                for number, labels in zip(numbers_of, sentence.predicted, strict=True)
            },
        }
        for sentence in info.found
        for at, gold in enumerate(sentence.gold)
        if sentence.differs[at]
    ]
    return pd.DataFrame(rows)


SENTENCES = Part(
    "compare-sentences",
    "Sentences labelled differently",
    "Dev sentences on which predictions differ: the correct label first, in parentheses the trials that predict it.",
    prepare_sentences,
    sentences_table,
    body=lambda info, look: sentences_body(info),
    of_store=True,
)
