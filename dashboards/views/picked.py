"""The trials that an address picks to be compared: `/compare?trials=id,id`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.labels import freeze_column
from dashboards.views.kit.part import EmptyPartError
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
    frozen = freeze_column(rows["freeze"], rows["n_layers"])
    return [
        ", ".join([name, *(more[key](row[key]) for key in differing if row[key] != "")])
        for name, row in zip(frozen, rows.to_dict("records"), strict=True)
    ]
