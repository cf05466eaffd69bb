"""The interface between a queue of trials and whatever decides which trials run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from random import Random
from typing import NamedTuple, Protocol

from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State


class Order(NamedTuple):
    """A trial to start or resume; it pauses at the first evaluation at or after the epoch `until`.

    `number` is that of the attempt, where the trial was claimed.
    """

    spec: TrialSpec
    until: float | None = None
    number: int | None = None


class Chances(NamedTuple):
    """What a search is likely to run: the chance of each trial that has not begun, and at most how many of them."""

    of_trials: Sequence[tuple[TrialSpec, float]]
    at_most: int | None


class Verdict(Enum):
    """What happens to a trial after an evaluation: it continues, pauses until it is promoted, or stops."""

    CONTINUE = "continues"
    PAUSE = "paused"
    STOP = "stopped"


def prune_reason(verdict: Verdict, record: EpochRecord) -> str:
    """The text in the row of a pruned trial."""
    return f"{verdict.value} after epoch {record.epoch:g} by the sweep's schedule"


class Source(Protocol):
    """Decides which trials run and for how long. It depends on no driver, store or clock."""

    @property
    def is_over(self) -> bool:
        """Whether no trial will follow, provided that none is running."""
        ...

    def next(self) -> Order | None:
        """The next trial, which counts as running from now on; None if there is none at the moment."""
        ...

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """A running trial has yielded a record; whether it continues, as it does unless a source says otherwise."""
        return Verdict.CONTINUE

    def ended(self, spec: TrialSpec, state: State) -> None:
        """A trial no longer runs: pruned after a verdict to pause or stop, otherwise as its state says."""
        return

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """A trial that was handed out never ran here: another driver has ended it, and its rows are in the store.

        Returns whether that ends it for this source; one that was pruned for another sweep may be handed out again.
        """
        ...

    def settled_elsewhere(self) -> Sequence[tuple[TrialSpec, State]]:
        """Trials that other drivers have ended since this was last asked."""
        return ()

    def chances(self) -> Chances | None:
        """What it is likely to run from now on; None if that is everything, or nobody can tell."""
        return None

    def found(self, columns: int = 100) -> list[str]:
        """Its conclusions so far, for a terminal of so many columns; empty if the table of cells says it all."""
        return []


class Listed(Source):
    """Trials in a fixed order, each run to its end; drivers that share them start at different ones."""

    def __init__(self, specs: Iterable[TrialSpec], *, start: float = 0.0) -> None:
        """`start` is the share of the trials before the first one, from 0 to 1; these come last."""
        trials = list(specs)
        at = int(start * len(trials))
        self._left, self._chance = [*trials[at:], *trials[:at]][::-1], Random(start)  # noqa: S311

    @property
    def is_over(self) -> bool:
        """Whether all were handed out."""
        return not self._left

    def next(self) -> Order | None:
        """The next trial of the list."""
        return Order(self._left.pop()) if self._left else None

    def jump(self) -> None:
        """Go on at any trial that is left: two drivers that met would want the same one again and again."""
        at = self._chance.randrange(len(self._left) or 1)
        self._left = self._left[at:] + self._left[:at]

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """A trial that another sweep's schedule pruned comes again."""
        if state is State.PRUNED:
            self._left.append(spec)
        return state is not State.PRUNED
