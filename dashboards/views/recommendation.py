"""The answers that a page query asks for: the same objects that `permafrost answer` prints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd

from dashboards.data.contributions import trials_with_sentences
from dashboards.data.frames import Sweep
from dashboards.data.selection import Selection, whole_sweep
from orchestrator.analysis.answer import Answer, answers
from orchestrator.analysis.decided import NOT_ON_TEST
from orchestrator.analysis.savings import FLOPS
from orchestrator.store import ResultStore

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
