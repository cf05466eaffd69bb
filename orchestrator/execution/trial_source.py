"""What a queue of trials asks for the next one, and tells of those that run."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from orchestrator.store.schema import State
from trials.record import EpochRecord
from trials.spec import TrialSpec


class Order(NamedTuple):
    """A trial to begin or to go on with; it pauses at the first evaluation at or after the epoch `until`."""

    spec: TrialSpec
    until: float | None = None


class Verdict(Enum):
    """What becomes of a trial at an evaluation: it goes on, waits to be promoted, or is over."""

    GO_ON = "goes on"
    PAUSE = "paused"
    STOP = "stopped"


def told_of(verdict: Verdict, record: EpochRecord) -> str:
    """What a pruned trial's row says."""
    return f"{verdict.value} after epoch {record.epoch:g} by the sweep's schedule"


class Source(Protocol):
    """Decides which trials run and how far. It knows no driver, no store and no clock."""

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more, if nothing runs."""
        ...

    def next(self) -> Order | None:
        """The next one, which runs from now on; None if there is none at this moment."""
        ...

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """A running trial has yielded a record."""
        ...

    def ended(self, spec: TrialSpec, state: State) -> None:
        """A trial runs no more: pruned after any verdict but to go on, else as its state says."""
        ...

    def found(self) -> list[str]:
        """What it found so far, a line each; nothing where the cells say it all."""
        ...


class Listed:
    """Trials in a fixed order, each to its end."""

    def __init__(self, specs: Iterable[TrialSpec]) -> None:
        self._left = list(specs)[::-1]

    @property
    def is_over(self) -> bool:
        """Whether all were given."""
        return not self._left

    def next(self) -> Order | None:
        """The next of the list."""
        return Order(self._left.pop()) if self._left else None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """All go on."""
        return Verdict.GO_ON

    def ended(self, spec: TrialSpec, state: State) -> None:
        """Nothing to learn."""

    def found(self) -> list[str]:
        """Nothing that the cells do not say."""
        return []


class _Around:
    """Another source, with something between it and the queue."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """As the source says."""
        return self._source.evaluated(spec, record)

    def ended(self, spec: TrialSpec, state: State) -> None:
        """The source hears of it."""
        self._source.ended(spec, state)

    def found(self) -> list[str]:
        """As the source says."""
        return self._source.found()


class Waiting(_Around):
    """Another source, of which one can ask whether anything will come before it is taken."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._first = source.next()

    @property
    def is_over(self) -> bool:
        """As the source says, once its first trial is taken."""
        return self._first is None and self._source.is_over

    def next(self) -> Order | None:
        """The first one, then what the source gives."""
        order, self._first = self._first or self._source.next(), None
        return order


class AtMost(_Around):
    """Another source's first `n` trials. One that is promoted is not counted again."""

    def __init__(self, source: Source, n: int) -> None:
        super().__init__(source)
        self._n, self._begun = n, set[str]()
        self._held: Order | None = None

    @property
    def is_over(self) -> bool:
        """Whether the source is, or the last has begun and would be followed by a fresh one."""
        return self._held is not None or self._source.is_over

    def next(self) -> Order | None:
        """What the source gives, until that is one too many."""
        order = None if self._held else self._source.next()
        if order is not None and order.spec.trial_id not in self._begun and len(self._begun) >= self._n:
            self._held, order = order, None
        if order is not None:
            self._begun.add(order.spec.trial_id)
        return order
