"""An observed trial, or a pilot of one: what it computed and what that took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from orchestrator.forecast.cost_inputs import Lengths, Sizes, lengths_of, sizes_of
from orchestrator.forecast.work import Memory, PrefixWork, Work, group_key, shape_key
from trials.errors import PermafrostError
from trials.spec import TrialSpec

PILOT = "pilot"  # the launch of pilots: they were measured just now


@dataclass(frozen=True)
class Observation:
    """What one trial took.

    Attributes:
        spec: The trial.
        work, memory: What it computed and held.
        launch: Those of one launch share how fast the machine was; `PILOT` for pilots.
        train_s, eval_s, setup_s, prefix_s: Seconds, as in its row.
        prefix: The states of frozen layers that it is thought to have computed.
        energy_j: Joules of its training, or None.
        peak_memory_bytes: Its peak.
        ended: Unix time.
        steps: Of a pilot, so many were measured.
    """

    spec: TrialSpec
    work: Work
    memory: Memory
    launch: str
    train_s: float
    eval_s: float
    setup_s: float
    prefix_s: float
    prefix: PrefixWork
    energy_j: float | None
    peak_memory_bytes: int
    ended: float
    steps: int = 0

    @property
    def is_pilot(self) -> bool:
        """Whether only its first steps were run."""
        return self.launch == PILOT

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.train_s + self.eval_s + self.setup_s + self.prefix_s

    @cached_property
    def shape(self) -> str:
        """See `shape_key`."""
        return shape_key(self.spec)

    @cached_property
    def group(self) -> str:
        """See `group_key`."""
        return group_key(self.spec)


class Inputs:
    """Sizes and lengths of trials, read once for all that share model and corpus.

    A trial of the past may name files that are elsewhere by now: where a planned one has the same content, its files
    are read.
    """

    def __init__(self, planned: Iterable[TrialSpec]) -> None:
        self._planned: dict[str, TrialSpec] = {}
        for spec in planned:
            self._planned.setdefault(group_key(spec), spec)
        self._found: dict[str, tuple[Sizes, Lengths] | None] = {}

    def knows(self, spec: TrialSpec) -> bool:
        """Whether a planned trial has the same model and corpus."""
        return group_key(spec) in self._planned

    def of(self, spec: TrialSpec) -> tuple[Sizes, Lengths] | None:
        """What is read of a trial's model and corpus; None where that cannot be."""
        key = group_key(spec)
        if key not in self._found:
            self._found[key] = _read(self._planned.get(key, spec))
        return self._found[key]


def _read(spec: TrialSpec) -> tuple[Sizes, Lengths] | None:
    try:
        return sizes_of(spec.model), lengths_of(spec)
    except (OSError, ValueError, PermafrostError):  # gone since; what they cost can no longer be told from their work
        return None
