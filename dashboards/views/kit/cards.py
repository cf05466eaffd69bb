"""The answers of a page as cards, or as a table if there are five or more: what to freeze, or what to run next.

They are the same `Answer` objects that `permafrost answer` prints.
"""

from __future__ import annotations

import math
import shlex
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import dash_mantine_components as dmc
import pandas as pd
from dash import html

from dashboards.data.frames import Sweep
from dashboards.data.selection import Selection, page_selection
from dashboards.views.kit.cells import hundredths, loss_columns
from dashboards.views.kit.components import copy_box, squares_of
from dashboards.views.kit.drawing import freeze_column
from dashboards.views.kit.part import EmptyPartError
from orchestrator.analysis.answer import Answer, answers
from orchestrator.analysis.answer_text import Loss
from orchestrator.analysis.decide import NOT_ON_TEST
from orchestrator.analysis.freeze_names import FreezeName
from orchestrator.analysis.savings import FLOPS
from orchestrator.analysis.two_way import WITHIN
from orchestrator.analysis.wording import NO_CANDIDATES, further_seeds_text
from orchestrator.config.quantities import amount
from orchestrator.store import ResultStore
from trials.spec import Seeds

MOST_ANSWERS = 12  # answers that a page computes


class PageAnswers(NamedTuple):
    """The answers of a page.

    Attributes:
        answers: The computed answers; for each corpus and model the largest train size comes first.
        n: The number of questions; if it exceeds the limit, only those of the largest train sizes are answered.
        trials: The trials that the answers were computed from.
    """

    answers: list[Answer]
    n: int
    trials: pd.DataFrame


# Answers by store, reused until another trial of the sweep ends: each takes 75 ms to compute, and the page that people
# open most shows all of them.
_known: WeakKeyDictionary[ResultStore, dict[tuple[Any, ...], PageAnswers]] = WeakKeyDictionary()
_MOST_KNOWN = 64  # pages whose answers are kept, for each store
_one_at_a_time = threading.Lock()


def answers_of_page(selection: Selection, most: int = MOST_ANSWERS) -> PageAnswers:
    """What to freeze for each corpus, model and train size of the sweep that the address does not exclude.

    Raises:
        EmptyPartError: The test split is selected, on which nothing may be chosen, or a setting repeats a seed.
        StoreError: The storage does not answer.
    """
    assert selection.sweep is not None
    if selection.query.split == "test":
        raise EmptyPartError(f"No answer: {NOT_ON_TEST}.")
    try:
        return _answer_questions(selection, selection.sweep.name, most)
    except ValueError as error:
        raise EmptyPartError(f"No answer: {error}.") from error


def _answer_questions(selection: Selection, sweep: str, most: int) -> PageAnswers:
    page = page_selection(selection)
    trials = page.trials
    questions = questions_of(trials)
    if len(questions) > most:
        largest = questions.sort_values("train_size", ascending=False, kind="stable").head(most)
        trials = trials.merge(largest, on=[*questions])
    # Addresses that select the same trials share their answers.
    cache, query = _known.setdefault(selection.snapshot.store, {}), selection.query
    key = sweep, _digest(trials), len(questions), selection.plan, query.budget
    with _one_at_a_time:  # a second request for the same answers waits and reuses them
        if key not in cache:
            cost = None if query.cost == FLOPS else query.cost  # FLOPs where a corpus has them, else parameters
            budget = {} if query.budget is None else {query.cost: query.budget}
            frame, plan = replace(page, trials=trials).with_sentences, replace(selection.plan, cost=cost)
            answered = answers(frame, selection.snapshot.specs, plan, budget=budget)
            while len(cache) >= _MOST_KNOWN:
                cache.pop(next(iter(cache)))
            cache[key] = PageAnswers(answered, len(questions), trials)
    return cache[key]


def questions_of(trials: pd.DataFrame) -> pd.DataFrame:
    """Each question with a setting other than the `baseline` of its `cell`: `task`, `corpus`, `model`, `train_size`."""
    keys = ["task", "corpus", "model", "train_size"]
    return trials.loc[trials["cell"] != trials["baseline"], keys].drop_duplicates()


def _digest(trials: pd.DataFrame) -> int:
    """A hash of the trials and of how they ended, which changes when an answer might."""
    rows = trials[["t", "attempt", "state", "score", "time"]]
    return int(pd.util.hash_pandas_object(rows, index=False).sum())


def settings_of(answer: Answer) -> pd.DataFrame:
    """The settings of an answer, losses in points and positive where a setting is worse.

    Columns, as in `Decision.table` and `missing_data`: `cell`, `freeze`, `freeze_spec`, `n_pairs`, `n_sentences`,
    `loss`, `low`, `high`, `verdict` (or the reason why there is none), `chance` (if not decided), `within` (shown to be
    within the tolerance), `qualifies`, `saved`, `further_seeds`, `collapses`.
    """
    table = answer.decided_by.table.join(answer.decided_by.missing_data)
    why = table["why_none"].where(table["why_none"] != "", table["barred"])
    return table.assign(
        verdict=why.where(why != "", table["verdict"]),
        within=(table["verdict"] == WITHIN) & (table["barred"] == "") & (not answer.decided_by.is_vacuous),
    )[
        ["cell", "freeze", "freeze_spec", "n_pairs", "n_sentences", "loss", "low", "high", "verdict", "chance",
         "within", "qualifies", "saved", "further_seeds", "collapses"]
    ]  # fmt: skip


def settings_table(all_answers: Sequence[Answer], cost: str) -> pd.DataFrame:
    """One row per setting of all these answers; `cost` is the name of the cost in the column titles."""
    tables = [_settings(answer, cost) for answer in all_answers]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _settings(answer: Answer, cost: str) -> pd.DataFrame:
    t = settings_of(answer)
    layers = pd.Series(answer.n_layers, index=t.index)
    return pd.DataFrame(
        {
            "corpus": answer.corpus,
            "model": answer.model,
            "train size (sentences)": answer.train_size,
            "frozen": freeze_column(t["freeze_spec"], layers),
            "pairs": t["n_pairs"],
            **loss_columns(t),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "passes": t["qualifies"],
            "verdict": t["verdict"],
            **hundredths(t, chance="chance to be within the tolerance (%)"),
            "collapses": t["collapses"],
            **hundredths(t, saved=f"{cost} saved (%)"),
            "further seeds": t["further_seeds"].astype(object).where(t["further_seeds"].notna(), None),
        }
    )


def answers_table(all_answers: Sequence[Answer]) -> pd.DataFrame:
    """One row per answer, identified by `corpus`, `model` and train size."""
    layers = pd.Series([answer.n_layers for answer in all_answers], dtype=object)

    def names(which: str) -> pd.Series:
        return freeze_column(pd.Series([getattr(answer, which) for answer in all_answers], dtype=object), layers)

    return pd.DataFrame(
        {
            "corpus": [answer.corpus for answer in all_answers],
            "model": [answer.model for answer in all_answers],
            "train size (sentences)": [answer.train_size for answer in all_answers],
            "freeze": names("freeze_spec"),
            "loss (points)": pd.Series([answer.loss for answer in all_answers], dtype="float64"),
            "from (points)": pd.Series([answer.low for answer in all_answers], dtype="float64"),
            "to (points)": pd.Series([answer.high for answer in all_answers], dtype="float64"),
            "FLOPs saved (%)": _percent([answer.saved_flops for answer in all_answers]),
            "time saved (%)": _percent([answer.saved_time for answer in all_answers]),
            "seeds": [answer.n_seeds for answer in all_answers],
            "further seeds": pd.Series([answer.further_seeds for answer in all_answers], dtype=object),
            "next best": names("runner_up_spec"),
            "answer": [answer.sentence for answer in all_answers],
            "YAML snippet": [answer.yaml for answer in all_answers],
        }
    )


def _percent(shares: Sequence[float | None]) -> pd.Series:
    return 100 * pd.Series(list(shares), dtype="float64")


def hidden_answers_note(page: PageAnswers) -> str:
    """A sentence that says which of the answers are shown; empty if all are."""
    if page.n <= len(page.answers):
        return ""
    return f"{len(page.answers)} of {amount(page.n, 'answer')}: those of the largest train sizes."


MOST_CARDS = 4  # more answers are rows of a table
_PLACES = 92  # percent of the bar's width that the values span; the rest is margin

Scale = tuple[float, float]  # ends of the axis that all bars of a page share, in points


class ShortAnswer(NamedTuple):
    """A sentence on what to freeze, and its subject: names of corpora, or empty if it is about all of them."""

    subject: str
    words: str


MOST_NAMED = 5  # with more corpora, outcomes are counted instead


def short_answers(all_answers: Sequence[Answer]) -> list[ShortAnswer]:
    """One sentence per corpus, such as `EWT, Naija` and `freeze the first 2 of 6 layers.` A single answer comes with
    its figures; of more than `MOST_NAMED` corpora, the answers with each outcome are counted.
    """
    if not all_answers:
        return [ShortAnswer("", NO_CANDIDATES)]
    if len(all_answers) == 1:
        return [ShortAnswer("", f"{all_answers[0].headline}. {all_answers[0].words.brief}".rstrip())]
    corpora: dict[str, list[Answer]] = {}
    for answer in all_answers:
        corpora.setdefault(answer.corpus, []).append(answer)
    if len(corpora) > MOST_NAMED:
        outcomes = Counter(answer.headline for answer in all_answers)
        return [ShortAnswer(outcome, f"{n} of {len(all_answers)}.") for outcome, n in outcomes.items()]
    same: dict[str, list[str]] = {}
    for corpus, answers_of in corpora.items():
        same.setdefault(_sentence_of_corpus(answers_of), []).append(corpus)
    return [ShortAnswer(", ".join(names), words) for words, names in same.items()]


def _sentence_of_corpus(all_answers: Sequence[Answer]) -> str:
    """A sentence such as `freeze nothing (100 for training); about 9 more seeds to decide (500 for training).`."""
    told: dict[str, list[str]] = {}
    varies = [len({getattr(answer, key) for answer in all_answers}) > 1 for key in ("model", "train_size", "setup")]
    for answer in all_answers:
        each = (answer.model, f"{answer.train_size:,} for training", answer.setup)
        told.setdefault(answer.words.in_passing, []).append(
            ", ".join(w for w, v in zip(each, varies, strict=True) if v)
        )
    if len(told) == 1:
        return f"{next(iter(told))}."
    parts = [f"{words} ({', '.join(sizes)})" for words, sizes in told.items()]
    return f"{'; '.join(parts)}."


def short_sentence(all_answers: Sequence[Answer]) -> str:
    """The sentences of `short_answers` on one line."""
    return " ".join(f"{subject}: {words}" if subject else words for subject, words in short_answers(all_answers))


def recommended_squares(answer: Answer) -> Any:
    """The layer strip of the recommended freeze; empty if there is none, as filled squares would say "freeze this"."""
    return squares_of(FreezeName(answer.freeze_spec, answer.n_layers)) if answer.freeze_spec else ""


def cards_or_table(all_answers: Sequence[Answer], sweep: Sweep, address: str) -> Any:
    """The answers, drawn on one common scale, and one command for everything that is not decided yet."""
    scale = _scale(all_answers)
    if len(all_answers) <= MOST_CARDS:
        shown = dmc.SimpleGrid(
            [_card(answer, scale) for answer in all_answers],
            cols={"base": 1, "sm": min(2, len(all_answers))}, spacing="sm", className="answers",
        )  # fmt: skip
    else:
        shown = html.Div(_table(all_answers, scale), className="wide", tabIndex="0", role="group")
    return html.Div([*_next(all_answers, sweep, address), shown])


def _card(answer: Answer, scale: Scale) -> Any:
    """The card of one answer: its text with savings, its loss as a bar against the tolerance, and the YAML to copy."""
    title = dmc.Title([recommended_squares(answer), answer.headline], order=3, size="h4")
    lines = [dmc.Text(answer.heading, size="xs", className="where"), title]
    if figures := answer.words.brief:
        lines += [dmc.Text(figures, size="sm"), interval_bar(_loss(answer), answer.tolerance, scale)]
    lines += [_details(answer)]
    state = "decided" if answer.decided else "open"
    return dmc.Paper(dmc.Stack(lines, gap=6), p="sm", withBorder=True, className=f"answer {state}")


def _table(all_answers: Sequence[Answer], scale: Scale) -> Any:
    """The table of answers. The answer comes first, where a phone shows it; columns that are empty are left out."""
    cells: dict[str, list[Any]] = {
        "answer": [[html.B(a.corpus), " ", recommended_squares(a), a.headline] for a in all_answers],
        "loss against the tolerance": [
            interval_bar(_loss(a), a.tolerance, scale) if a.words.brief else "" for a in all_answers
        ],
        "saves (FLOPs)": ["" if a.saved_flops is None else f"{100 * a.saved_flops:.0f} %" for a in all_answers],
        "more seeds": [f"about {a.further_seeds}" if a.further_seeds else "" for a in all_answers],
        "train size": [f"{a.train_size:,}" for a in all_answers],
        "model": [a.model for a in all_answers],
    }
    cells = {head: column for head, column in cells.items() if any(column)}
    states = ["decided" if answer.decided else "open" for answer in all_answers]
    rows = [
        html.Tr(
            [html.Td(column[n], className="bar-cell" if "loss" in head else None) for head, column in cells.items()],
            className=f"answer {state}",
        )
        for n, state in enumerate(states)
    ]
    heads = html.Thead(html.Tr([html.Th(head, scope="col") for head in cells]))
    return html.Table([heads, html.Tbody(rows)], className="plain")


def _scale(all_answers: Sequence[Answer]) -> Scale:
    """The ends of an axis that covers the losses, interval ends and tolerances of all answers."""
    values = [0.0, *(answer.tolerance for answer in all_answers)]
    values += [
        v
        for answer in all_answers
        for v in (answer.loss, answer.low, answer.high)
        if v is not None and math.isfinite(v)
    ]
    return min(values), max(values)


def _loss(answer: Answer) -> Loss:
    return Loss(answer.loss or 0.0, answer.low, answer.high)


def interval_bar(loss: Loss, tolerance: float, scale: Scale) -> Any:
    """A bar with the loss as a dot in its interval, over a band up to the tolerance; left of zero is a gain.

    The interval is missing if too few runs have ended.
    """
    first, last = scale
    has_ends = loss.low is not None and loss.high is not None
    low, high = (loss.low, loss.high) if loss.low is not None and loss.high is not None else (loss.mean, loss.mean)

    def position(value: float) -> float:
        return (100 - _PLACES) / 2 + _PLACES * (value - first) / ((last - first) or 1.0)

    interval = f"interval {low:.2f} to {high:.2f}" if has_ends else "no interval yet"
    text = f"Loss {loss.mean:.2f} points, {interval}; tolerated: up to {tolerance:g}"
    side = "across" if not has_ends else "within" if high <= tolerance else "beyond" if low > tolerance else "across"
    return html.Div(
        [
            html.Div(className="tolerated", style={"left": "0%", "width": f"{position(tolerance):.2f}%"}),
            html.Div(className="zero", style={"left": f"{position(0.0):.2f}%"}),
            html.Div(className="limit", style={"left": f"{position(tolerance):.2f}%"}),
            html.Div(
                className="line",
                style={"left": f"{position(low):.2f}%", "width": f"{position(high) - position(low):.2f}%"},
            ),
            html.Div(className="dot", style={"left": f"{position(loss.mean):.2f}%"}),
            html.Span("0", className="tick before", style={"left": f"{position(0.0):.2f}%"}),
            html.Span(f"{tolerance:g}", className="tick after", style={"left": f"{position(tolerance):.2f}%"}),
        ],
        className=f"interval {side}",
        role="img",
        title=text,
        **{"aria-label": text},
    )


def _next(all_answers: Sequence[Answer], sweep: Sweep, address: str) -> list[Any]:
    """How many more seeds the undecided answers need, and one command that runs them; empty if none is needed."""
    needed = [answer.further_seeds for answer in all_answers if not answer.decided and answer.further_seeds]
    if not needed:
        return []
    text = further_seeds_text(max(needed), len(needed), len(all_answers))
    command = next_command(max(needed), sweep, address)
    if command is None:
        return [dmc.Text(f"{text}.", size="sm")]
    if came_along(sweep, address):
        text = f"{text}, but its encoder and data did not come along. The same question of those that did"
    return [html.Div([dmc.Text(f"{text}:", size="sm"), copy_box(command, "the command")], className="next")]


def next_command(more: int, sweep: Sweep, address: str) -> str | None:
    """The command that launches the sweep with `more` further seeds, or the starter sweep if the sweep shipped with
    Permafrost; None if initialisation and data order have seeds of their own.
    """
    keys = sorted(set(sweep.trials["seed"].tolist()))
    if any(seeds != Seeds.from_settings(seeds.seed) for seeds in map(Seeds.from_key, keys)):
        return None
    if came_along(sweep, address):
        return shlex.join(("permafrost", "launch", "--store", MY_STORE))
    first = keys[-1] + 1
    setting = f"seeds=[{','.join(map(str, [*keys, *range(first, first + more)]))}]"
    launch = ("permafrost", "launch", "--sweep", sweep.source or sweep.name)
    return shlex.join((*launch, "--set", setting, "--store", address))


MY_STORE = "my-store"  # the store that a command proposes if the one on show is not the reader's own


def came_along(sweep: Sweep, address: str) -> bool:
    """Whether the sweep was shipped with Permafrost, as FreezeBench is: its file is next to its store, not here."""
    is_here = not sweep.source or Path(sweep.source).exists() or "://" in address
    return not is_here and (Path(address).parent / sweep.source).is_file()


def _details(answer: Answer) -> Any:
    """The full sentence, the second choice and the YAML, folded until the reader opens them."""
    lines: list[Any] = [dmc.Text(answer.sentence, size="sm")]
    if answer.runner_up_spec:
        label = "Second choice" if answer.decided else "Nearest to a decision"
        lines.append(dmc.Text(f"{label}: {FreezeName(answer.runner_up_spec, answer.n_layers)}.", size="sm"))
    if answer.yaml:
        lines.append(copy_box(answer.yaml.rstrip(), "the YAML"))
    if answer.own_training:
        lines.append(dmc.Text("In your own training code, before the optimizer is made:", size="sm"))
        lines.append(copy_box(answer.own_training.rstrip(), "the lines"))
    return html.Details([html.Summary("In full, with the YAML" if answer.yaml else "In full"), *lines])


def resume_command(sweep: Sweep, address: str) -> str:
    """The command that resumes a stopped sweep."""
    return shlex.join(("permafrost", "launch", "--sweep", sweep.source or sweep.name, "--store", address))
