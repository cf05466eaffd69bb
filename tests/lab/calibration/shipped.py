"""The questions of the store that is shipped, FreezeBench: losses that were measured, not drawn."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

import pandas as pd

from orchestrator.analysis.answer import questions
from orchestrator.analysis.decide import decide
from orchestrator.analysis.rows import pair
from orchestrator.api import open_store
from trials.spec import TrialSpec

STORE = Path(__file__).parents[3] / "configs" / "freezebench" / "store"


class Question(NamedTuple):
    """The trials of one answer.

    Attributes:
        trials: As `decide` takes them.
        pairs: Each freeze with the baseline under the same seed, as of `rows.pair`, where neither run collapsed.
        seed_losses: (seeds, freezes) losses; NaN where a pair is missing.
        worth_having: The freezes that are compared and claimed together.
    """

    corpus: str
    encoder: str
    train_size: int
    trials: pd.DataFrame
    pairs: pd.DataFrame
    seed_losses: pd.DataFrame
    worth_having: list[str]

    @classmethod
    def of(cls, trials: pd.DataFrame, worth_having: list[str]) -> Self:
        """From its trials."""
        pairs = pair(trials, "score", ["collapsed", "freeze", "sentences"]).rows
        pairs = pairs[(pairs["collapsed"] != 1) & (pairs["collapsed_base"] != 1)]
        losses = -pairs.pivot(index="seed", columns="freeze", values="difference")
        first = trials.iloc[0]
        name = str(first["corpus"]), str(first["model"]), int(first["train_size"])
        return cls(*name, trials, pairs, losses, worth_having)


@cache
def shipped() -> tuple[Question, ...]:
    """The questions whose baseline has learned its task."""
    store = open_store(str(STORE))
    specs = {i: TrialSpec.model_validate(content) for plan in store.sweeps() for i, content in plan.trials}
    found = []
    for trials in questions(store.evidence([*specs.values()]).frame):
        decided = decide(trials)
        if decided.baseline.has_learned:
            table = decided.table
            found.append(Question.of(trials, table.loc[table["worth_having"].astype(bool), "freeze"].tolist()))
    return tuple(found)
