"""The decisions of a search, as whoever makes them needs them: what others decided comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from orchestrator.store.contents import SweepPlan
from orchestrator.store.decisions import Choice, DecisionLog
from trials.spec import TrialSpec


class Decisions(Protocol):
    """A sequence of decisions, of which one driver follows each once."""

    def following(self, *, look: bool = False) -> Choice | None:
        """The next decision that was made before, or by another driver; with `look` it is looked for."""
        ...

    def make(self, choice: Choice, specs: Sequence[TrialSpec] = ()) -> Choice:
        """Decide; this choice, or one of another driver, which has to be followed first.

        Args:
            choice: The decision.
            specs: The trials of a suggested cell.
        """
        ...


class OwnDecisions:
    """Those of a search that nobody shares and nothing records."""

    def following(self, *, look: bool = False) -> None:
        """There are no others."""

    def make(self, choice: Choice, specs: Sequence[TrialSpec] = ()) -> Choice:
        """Return this choice."""
        return choice


class SharedDecisions:
    """Those of a store, which are made once, whichever driver makes them."""

    def __init__(self, log: DecisionLog, plan_of: Callable[[Sequence[TrialSpec]], SweepPlan]) -> None:
        self._log, self._plan_of = log, plan_of

    def following(self, *, look: bool = False) -> Choice | None:
        """The next one of the store. Raises StoreError."""
        return self._log.following(look=look)

    def make(self, choice: Choice, specs: Sequence[TrialSpec] = ()) -> Choice:
        """Decide in the store. Raises StoreError."""
        return self._log.make(choice, self._plan_of(specs))
