"""The contract of a note on a plan: from what is planned to sentences that the user of the sweep should know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup
from trials.plugins.registry import Registry
from trials.settings import DataSpec
from trials.spec import TrialSpec


class Noted(NamedTuple):
    """What is planned.

    Attributes:
        trials: All trials that are known.
        ahead: Those that this launch runs, or as many like them.
    """

    sweep: SweepSpec
    trials: Sequence[TrialSpec]
    ahead: Sequence[TrialSpec]
    lookup: Lookup

    @property
    def corpora(self) -> list[tuple[str, DataSpec]]:
        """Each task with each of its corpora; of folds, those of the first seed."""
        return list(dict.fromkeys((spec.task, spec.data.under_seed(0)) for spec in self.ahead))

    def sentences(self) -> tuple[str, ...]:
        """One for each thing that the user of the sweep should know; none if nothing is left to run.

        Raises:
            DataError, ModelError: A corpus or model cannot be used.
        """
        return tuple(dict.fromkeys(line for note in NOTES.values() for line in note(self)))


Note = Callable[[Noted], Iterable[str]]
NOTES: Registry[Note] = Registry("note on a plan")
