"""The answers that a page query asks for: the same objects that `permafrost answer` prints."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import dash_mantine_components as dmc
import pandas as pd
from dash import dcc, html

from dashboards.data.frames import Sweep
from dashboards.data.selection import Selection, whole_sweep
from dashboards.data.trial_rows import trials_with_sentences
from dashboards.views.kit.components import squares_of
from dashboards.views.kit.drawing import freeze_name
from orchestrator.analysis.answer import Answer, answers
from orchestrator.analysis.decided import NOT_ON_TEST, POINTS
from orchestrator.analysis.layer_strip import FreezeName
from orchestrator.analysis.savings import FLOPS
from orchestrator.analysis.wording import parts
from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from trials.settings import Seeds

# Of a store, until a trial of the sweep ends: they take 75 ms each, and the first page that people come back to shows
# them all.
_known: WeakKeyDictionary[ResultStore, dict[tuple[Any, ...], tuple[int, tuple[list[Answer], int]]]] = (
    WeakKeyDictionary()
)


def answers_of(selection: Selection, sizes: list[int] | None = None) -> list[Answer]:
    """What to freeze at each train size, or at some of them, the largest first.

    Raises:
        ValueError: The test split is selected, which chooses nothing, or a setting has two trials of one seed.
        StoreError: The storage does not answer.
    """
    query = selection.query
    if query.split == "test":
        raise ValueError(NOT_ON_TEST)
    budget = {} if query.budget is None else {selection.cost: query.budget}
    frame = trials_with_sentences(selection.of_questions)
    if sizes is not None:
        frame = frame[frame["train_size"].isin(sizes)]
    return answers(frame, selection.snapshot.specs, selection.plan, budget=budget, value=selection.column)


def answers_of_sweep(selection: Selection, most: int) -> tuple[list[Answer], int]:
    """The answers of all corpora, models and train sizes of a sweep by its own metric on dev, and how many there are.

    Args:
        selection: Its sweep, tolerance, cost and budget count, nothing else that it selects.
        most: With more than so many, those of the largest train sizes are computed.

    Raises:
        ValueError: A setting has two trials of one seed.
        StoreError: The storage does not answer.
    """
    assert selection.sweep is not None
    found = known_answers_of_sweep(selection, most)
    if found is None:
        found = _of_sweep(selection, selection.sweep.trials, most)
        _known.setdefault(selection.snapshot.store, {})[_key(selection, most)] = _ended(selection.sweep), found
    return found


def known_answers_of_sweep(selection: Selection, most: int) -> tuple[list[Answer], int] | None:
    """What `answers_of_sweep` would return, if it was computed since the last trial of the sweep ended; else None."""
    assert selection.sweep is not None
    ended, found = _known.get(selection.snapshot.store, {}).get(_key(selection, most), (None, None))
    return found if ended == _ended(selection.sweep) else None


def _key(selection: Selection, most: int) -> tuple[Any, ...]:
    assert selection.sweep is not None
    query = selection.query
    return selection.sweep.name, selection.plan, query.budget, most


def _ended(sweep: Sweep) -> int:
    """A digest of the trials of a sweep and how they ended."""
    rows = sweep.trials[["t", "attempt", "state", "score", "time"]]
    return int(pd.util.hash_pandas_object(rows, index=False).sum())


def _of_sweep(selection: Selection, trials: pd.DataFrame, most: int) -> tuple[list[Answer], int]:
    keys = ["task", "corpus", "model", "train_size"]
    questions = trials.loc[trials["cell"] != trials["baseline"], keys].drop_duplicates()
    if len(questions) > most:
        largest = questions.sort_values("train_size", ascending=False, kind="stable").head(most)
        trials = trials.merge(largest, on=keys)
    whole = replace(whole_sweep(selection), trials=trials)
    query = selection.query
    cost = None if selection.cost == FLOPS else selection.cost  # FLOPs where a corpus has them, else parameters
    budget = {} if query.budget is None else {selection.cost: query.budget}
    plan = replace(selection.plan, cost=cost)
    return answers(trials_with_sentences(whole), selection.snapshot.specs, plan, budget=budget), len(questions)


def candidates(found: list[Answer], trials: pd.DataFrame) -> pd.DataFrame:
    """The settings of the answers as rows of a forest plot, in order of train size and depth.

    Columns: those of `decided.Decided.table`, `train_size`, `depth`, `strategy`, `embeddings`, `n_layers`.
    """
    tables = [each.decided_by.table for each in found]
    if not tables:
        return pd.DataFrame({"cell": [], "n_pairs": []})
    keys = ["cell", "train_size", "depth", "strategy", "embeddings", "n_layers"]
    table = pd.concat(tables, ignore_index=True).merge(trials.drop_duplicates("cell")[keys], on="cell")
    order = ["train_size", "depth", "strategy", "embeddings"]
    return table.sort_values(order, ascending=[False, True, True, True], ignore_index=True)


# The answer cards: for each corpus, model and train size what to freeze, or what to run to find out.

MOST_CARDS = 12  # questions that the first page answers
_PLACES = 92  # of the bar's width, for the values; the rest is air


def cards(found: Sequence[Answer], sweep: Sweep, address: str) -> Any:
    """The cards of some answers, side by side."""
    shown = [card_of(answer, sweep, address) for answer in found]
    return dmc.SimpleGrid(shown, cols={"base": 1, "sm": 2, "xl": 3}, spacing="sm", className="answers")


def headline(answer: Answer) -> str:
    """The answer in a few words: `Freeze the first 2 of 6 layers`, `Freeze nothing`, `Not decided yet`."""
    if answer.outcome == "not learned":
        return "The baseline has not learned the task"
    if not answer.decided:
        return "Not decided yet" if answer.further_seeds else "Not decided"
    if answer.outcome == "not worth it":
        return "Not worth it"
    return "Freeze nothing" if answer.freeze == "none" else f"Freeze {parts(answer.freeze or '', answer.n_layers)}"


def where_of(answer: Answer) -> str:
    """What it is the answer for."""
    where = f"{answer.corpus}, {answer.task}, {answer.model}, {answer.train_size:,} for training"
    return f"{where}, {answer.setup}" if answer.setup else where


def card_of(answer: Answer, sweep: Sweep, address: str) -> Any:
    """One answer: in words, as a bar against the tolerance, with its savings, and what to copy or to run next."""
    row = answer.decided_by.subject
    head = [dmc.Text(where_of(answer), size="xs", className="where")]
    title = dmc.Title(
        [squares_of(FreezeName(setting_of(answer), answer.n_layers)), headline(answer)], order=2, size="h4"
    )
    lines = [*head, title]
    if row is not None:
        lines += [dmc.Text(figures_of(answer, row), size="sm"), interval_bar(row, answer.tolerance)]
    lines += [*_next(answer, sweep, address), _details(answer)]
    state = "decided" if answer.decided else "open"
    return dmc.Paper(dmc.Stack(lines, gap=6), p="sm", withBorder=True, className=f"answer {state}")


def setting_of(answer: Answer) -> str:
    """Label of the setting that a card is about; empty if there is none."""
    row = answer.decided_by.subject
    return answer.freeze or "" if answer.decided else "" if row is None else str(row["freeze"])


def figures_of(answer: Answer, row: Mapping[str, Any]) -> str:
    """`loses 0.4 points (-0.1 to 1.0) and saves 12 % of the training FLOPs, 20 % of the time`."""
    loss, low, high = (POINTS * float(row[name]) for name in ("loss", "low", "high"))
    words = f"{'gains' if loss < 0 else 'loses'} {abs(loss):.1f} points"
    if math.isfinite(low) and math.isfinite(high):
        words += f" (loss {low:.1f} to {high:.1f})"
    if not answer.decided or answer.freeze == "none":
        words = f"Freezing {parts(str(row['freeze']), answer.n_layers)} {words}"
    else:
        words = words.capitalize()
    words = f"{words}{'' if answer.decided else ' so far'}; {_saved(answer)}".removesuffix("; ")
    return f"{words}. It {row['froze']}." if row["froze"] else f"{words}."


def _saved(answer: Answer) -> str:
    """`saves 12 % of the training FLOPs and 20 % of the training time`; empty if nothing is recommended."""
    costs = {"training FLOPs": answer.saved_flops, "training time": answer.saved_time}
    known = {name: round(100 * share) for name, share in costs.items() if share is not None}
    saved = [f"{share} % of the {name}" for name, share in known.items() if share > 0]
    more = [f"takes {-share} % more {name}" for name, share in known.items() if share < 0]
    return ", but ".join([*([f"saves {' and '.join(saved)}"] if saved else []), *more])


def interval_bar(row: Mapping[str, Any], tolerance: float) -> Any:
    """The loss as a dot in the interval that decides, over the band of what is tolerated; left of zero is a gain.

    Without an interval where the setting has not been tested, as one that comes before it is not decided.
    """
    loss, low, high = (POINTS * float(row[name]) for name in ("loss", "low", "high"))
    known = math.isfinite(low) and math.isfinite(high)
    low, high = (end if math.isfinite(end) else loss for end in (low, high))
    first, last = min(low, 0.0), max(high, tolerance, loss)

    def at(value: float) -> float:
        return (100 - _PLACES) / 2 + _PLACES * (value - first) / ((last - first) or 1.0)

    interval = f"interval {low:.2f} to {high:.2f}" if known else "no interval yet"
    words = f"Loss {loss:.2f} points, {interval}; tolerated: up to {tolerance:g}"
    side = "across" if not known else "within" if high <= tolerance else "beyond" if low > tolerance else "across"
    return html.Div(
        [
            html.Div(className="tolerated", style={"left": "0%", "width": f"{at(tolerance):.2f}%"}),
            html.Div(className="zero", style={"left": f"{at(0.0):.2f}%"}),
            html.Div(className="limit", style={"left": f"{at(tolerance):.2f}%"}),
            html.Div(className="line", style={"left": f"{at(low):.2f}%", "width": f"{at(high) - at(low):.2f}%"}),
            html.Div(className="dot", style={"left": f"{at(loss):.2f}%"}),
            html.Span("0", className="tick", style={"left": f"{at(0.0):.2f}%"}),
            html.Span(f"tolerance {tolerance:g}", className="tick", style={"left": f"{at(tolerance):.2f}%"}),
        ],
        className=f"interval {side}",
        role="img",
        title=words,
        **{"aria-label": words},
    )


def _next(answer: Answer, sweep: Sweep, address: str) -> list[Any]:
    """What to run where nothing is decided: how many more seeds, and the command."""
    if answer.decided or not answer.further_seeds:
        return []
    words = f"About {counted(answer.further_seeds, 'more seed')} would probably decide it"
    command = next_command(answer.further_seeds, sweep, address)
    if command is None:
        return [dmc.Text(f"{words}.", size="sm")]
    return [dmc.Text(f"{words}:", size="sm"), copied(command, "the command")]


def next_command(more: int, sweep: Sweep, address: str) -> str | None:
    """The launch with so many further seeds; None where the sources of randomness have seeds of their own."""
    keys = sorted(set(sweep.trials["seed"].tolist()))
    if any(seeds != Seeds.of(seeds.seed) for seeds in map(Seeds.from_key, keys)):
        return None
    first = keys[-1] + 1
    setting = f"seeds=[{','.join(map(str, [*keys, *range(first, first + more)]))}]"
    words = ("permafrost", "launch", "--sweep", sweep.source or sweep.name, "--set", setting, "--store", address)
    return shlex.join(words)


def copied(text: str, what: str) -> Any:
    """Text in a box with a button that copies it."""
    copy = dcc.Clipboard(content=text, title=f"Copy {what}", className="copy")
    return html.Div([html.Code(text, tabIndex="0"), copy], className="copied")


def _details(answer: Answer) -> Any:
    """The whole sentence, the second choice and the YAML, opened on demand."""
    lines: list[Any] = [dmc.Text(answer.sentence, size="sm")]
    if answer.runner_up:
        label = "Second choice" if answer.decided else "Nearest to a decision"
        lines.append(dmc.Text(f"{label}: {freeze_name(answer.runner_up)}.", size="sm"))
    if answer.yaml:
        lines.append(copied(answer.yaml.rstrip(), "the YAML"))
    return html.Details([html.Summary("In full, with the YAML" if answer.yaml else "In full"), *lines])
