"""An observed trial or pilot: its work and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from orchestrator.forecast.cost_inputs import EncoderSizes, Lengths, lengths_of, sizes_of
from orchestrator.forecast.work import Memory, PrefixWork, Work, group_key, shape_key
from trials.errors import PermafrostError
from trials.spec import TrialSpec

PILOT = "pilot"  # the launch name of pilots, which were measured just now


@dataclass(frozen=True)
class Observation:
    """The cost of one trial.

    Attributes:
        launch: Its launch, as the speed of the machine varies between launches; `PILOT` for pilots.
        prefix_s: Seconds that it spent on the states of `prefix` itself.
        prefix: The states of frozen layers that it presumably computed, without those whose time is in `eval_s`.
        accrued: The columns of `ACCRUED`, over training; None where one was not measured.
        ended: Unix time of its end.
        steps: Measured steps of a pilot.
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
    accrued: Mapping[str, float | None]
    peak_memory_bytes: int
    ended: float
    steps: int = 0

    @property
    def is_pilot(self) -> bool:
        """Whether it is a pilot and not a whole trial."""
        return self.launch == PILOT

    @property
    def seconds(self) -> float:
        """Seconds of the whole trial."""
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
    """Model sizes and sentence lengths of trials, read once per model and corpus.

    The files of a past trial may have moved; if a planned trial has the same content, its files are read instead.
    """

    def __init__(self, planned: Iterable[TrialSpec]) -> None:
        self._planned: dict[str, TrialSpec] = {}
        for spec in planned:
            self._planned.setdefault(group_key(spec), spec)
        self._read: dict[str, tuple[EncoderSizes, Lengths] | None] = {}

    def knows(self, spec: TrialSpec) -> bool:
        """Whether a planned trial has the same model and corpus."""
        return group_key(spec) in self._planned

    def of(self, spec: TrialSpec) -> tuple[EncoderSizes, Lengths] | None:
        """The sizes and lengths of a trial; None if its files cannot be read."""
        key = group_key(spec)
        if key not in self._read:
            self._read[key] = _read(self._planned.get(key, spec))
        return self._read[key]


def _read(spec: TrialSpec) -> tuple[EncoderSizes, Lengths] | None:
    try:
        return sizes_of(spec.model), lengths_of(spec)
    except (OSError, ValueError, PermafrostError):  # the files are gone, so the work of the trial is unknown
        return None
