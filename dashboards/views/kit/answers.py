"""The answers that a page query asks for: the same objects that `permafrost answer` prints, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pandas as pd

from dashboards.data.frames import Sweep
from dashboards.data.selection import Selection, of_page
from dashboards.views.kit.cells import hundredths, loss_columns
from dashboards.views.kit.drawing import freeze_column
from dashboards.views.kit.part import EmptyPartError
from orchestrator.analysis.answer import Answer, answers
from orchestrator.analysis.decided import NOT_ON_TEST
from orchestrator.analysis.savings import FLOPS
from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore

MOST_ANSWERS = 12  # on a page


class PageAnswers(NamedTuple):
    """The answers of a page.

    Attributes:
        answers: The largest train size of each corpus and model first.
        n: How many there are; with more than are wanted, those of the largest train sizes are computed.
        trials: What they were made from.
    """

    answers: list[Answer]
    n: int
    trials: pd.DataFrame


# Of a store, until a trial of the sweep ends: they take 75 ms each, and the first page that people come back to shows
# them all.
_known: WeakKeyDictionary[ResultStore, dict[tuple[Any, ...], PageAnswers]] = WeakKeyDictionary()
_MOST_KNOWN = 64


def answers_of_page(selection: Selection, most: int = MOST_ANSWERS) -> PageAnswers:
    """What to freeze for each corpus, model and train size of the sweep that the address does not exclude.

    Raises:
        EmptyPartError: The test split is selected, which chooses nothing, or a setting has two trials of one seed.
        StoreError: The storage does not answer.
    """
    assert selection.sweep is not None
    if selection.query.split == "test":
        raise EmptyPartError(f"No answer: {NOT_ON_TEST}.")
    known, key = _known.setdefault(selection.snapshot.store, {}), _key(selection, most)
    found = known.get(key)
    if found is None:
        try:
            found = _found(selection, most)
        except ValueError as error:
            raise EmptyPartError(f"No answer: {error}.") from error
        while len(known) >= _MOST_KNOWN:
            known.pop(next(iter(known)))
        known[key] = found
    return found


def _key(selection: Selection, most: int) -> tuple[Any, ...]:
    assert selection.sweep is not None
    query, asked = selection.query, selection.asked
    where = asked.corpus, asked.model, asked.setup, asked.size
    return selection.sweep.name, _ended(selection.sweep), selection.plan, query.budget, where, most


def _ended(sweep: Sweep) -> int:
    """A digest of the trials of a sweep and how they ended."""
    rows = sweep.trials[["t", "attempt", "state", "score", "time"]]
    return int(pd.util.hash_pandas_object(rows, index=False).sum())


def _found(selection: Selection, most: int) -> PageAnswers:
    keys = ["task", "corpus", "model", "train_size"]
    page = of_page(selection)
    trials = page.trials
    questions = trials.loc[trials["cell"] != trials["baseline"], keys].drop_duplicates()
    if len(questions) > most:
        largest = questions.sort_values("train_size", ascending=False, kind="stable").head(most)
        trials = trials.merge(largest, on=keys)
    query, specs = selection.query, selection.snapshot.specs
    cost = None if query.cost == FLOPS else query.cost  # FLOPs where a corpus has them, else parameters
    budget = {} if query.budget is None else {query.cost: query.budget}
    frame = replace(page, trials=trials).with_sentences
    found = answers(frame, specs, replace(selection.plan, cost=cost), budget=budget)
    return PageAnswers(found, len(questions), trials)


def settings_of(answer: Answer) -> pd.DataFrame:
    """The settings of an answer, losses as shares and positive where a setting is worse.

    Columns: `cell`, `freeze`, `n_pairs`, `n_sentences`, `loss`, `low`, `high`, `verdict` (or why there is none),
    `qualifies`, `saved`, `further_seeds`, `collapses`, as of `decided.Decided.table`.
    """
    table = answer.decided_by.table
    why = table["why_none"].where(table["why_none"] != "", table["barred"])
    return table.assign(verdict=why.where(why != "", table["verdict"]))[
        ["cell", "freeze", "n_pairs", "n_sentences", "loss", "low", "high", "verdict", "qualifies", "saved",
         "further_seeds", "collapses"]
    ]  # fmt: skip


def settings_table(found: Sequence[Answer], cost: str) -> pd.DataFrame:
    """One row per setting of some answers; `cost` in words."""
    tables = [_settings(answer, cost) for answer in found]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _settings(answer: Answer, cost: str) -> pd.DataFrame:
    t = settings_of(answer)
    layers = pd.Series(answer.n_layers, index=t.index)
    return pd.DataFrame(
        {
            "corpus": answer.corpus,
            "model": answer.model,
            "train size (sentences)": answer.train_size,
            "frozen": freeze_column(t["freeze"], layers),
            "pairs": t["n_pairs"],
            **loss_columns(t),
            "dev sentences": t["n_sentences"].astype(object).where(t["n_sentences"].notna(), None),
            "passes": t["qualifies"],
            "verdict": t["verdict"],
            "collapses": t["collapses"],
            **hundredths(t, saved=f"{cost} saved (%)"),
            "further seeds": t["further_seeds"].astype(object).where(t["further_seeds"].notna(), None),
        }
    )


def answers_table(found: Sequence[Answer]) -> pd.DataFrame:
    """One row per answer."""
    layers = pd.Series([answer.n_layers for answer in found], dtype=object)

    def names(which: str) -> pd.Series:
        return freeze_column(pd.Series([getattr(answer, which) for answer in found], dtype=object), layers)

    return pd.DataFrame(
        {
            "corpus": [answer.corpus for answer in found],
            "model": [answer.model for answer in found],
            "train size (sentences)": [answer.train_size for answer in found],
            "freeze": names("freeze"),
            "loss (points)": pd.Series([answer.loss for answer in found], dtype="float64"),
            "from (points)": pd.Series([answer.low for answer in found], dtype="float64"),
            "to (points)": pd.Series([answer.high for answer in found], dtype="float64"),
            "FLOPs saved (%)": _percent([answer.saved_flops for answer in found]),
            "time saved (%)": _percent([answer.saved_time for answer in found]),
            "seeds": [answer.n_seeds for answer in found],
            "further seeds": pd.Series([answer.further_seeds for answer in found], dtype=object),
            "next best": names("runner_up"),
            "answer": [answer.sentence for answer in found],
            "YAML snippet": [answer.yaml for answer in found],
        }
    )


def _percent(shares: Sequence[float | None]) -> pd.Series:
    return 100 * pd.Series(list(shares), dtype="float64")


def left_out(found: PageAnswers) -> str:
    """How many answers are not computed; empty if none."""
    if found.n <= len(found.answers):
        return ""
    return f"{len(found.answers)} of {counted(found.n, 'answer')}: those of the largest train sizes."
