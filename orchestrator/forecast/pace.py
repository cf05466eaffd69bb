"""The time left of a sweep and of a trial, estimated from ended trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from orchestrator.forecast.work import shape_key
from trials.record import EpochRecord
from trials.spec import TrialSpec

LEAST_SHARE = 0.01  # of all work: no estimate of the time left before this share is done
Kind = tuple[str, int, float]  # what decides the seconds of an epoch: shape, training size, epochs per evaluation


class Pace:
    """Work done and left: in seconds if a trial of the kind has ended, else in proportion to sentences.

    Sentences alone predict little, because a frozen encoder with cached states takes a small part of the time of a
    trained one. Trials that were not planned, but suggested by a search, replace some of the planned ones.
    """

    def __init__(self, specs: Iterable[TrialSpec]) -> None:
        self._kinds: dict[str, Kind] = {}
        self._planned: dict[Kind, float] = defaultdict(float)  # epochs
        for spec in specs:
            self._planned[self._kind(spec)] += spec.optim.epochs
        self._ended: dict[Kind, float] = defaultdict(float)  # planned epochs of ended trials
        self._timed: dict[Kind, tuple[float, float]] = {}  # timed epochs, and their seconds
        self._seconds: dict[
            str, tuple[float, float, float]
        ] = {}  # running trial -> epoch, seconds, seconds without set-up

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> None:
        """Time a running trial."""
        self._kind(spec)
        _, whole, own = self._seconds.get(spec.trial_id, (0.0, 0.0, 0.0))
        epochs_s = record.train_s + record.eval_s
        self._seconds[spec.trial_id] = (
            record.epoch, whole + record.setup_s + record.prefix_s + epochs_s, own + epochs_s,
        )  # fmt: skip

    def forget(self, spec: TrialSpec) -> None:
        """An attempt is over, and another will follow."""
        self._seconds.pop(spec.trial_id, None)

    def ended(self, spec: TrialSpec, *, is_complete: bool) -> None:
        """A trial has ended. A complete one times its kind."""
        kind = self._kind(spec)
        epoch, whole, _ = self._seconds.pop(spec.trial_id, (0.0, 0.0, 0.0))
        self._ended[kind] += spec.optim.epochs
        if is_complete and epoch > 0:
            epochs, seconds = self._timed.get(kind, (0.0, 0.0))
            self._timed[kind] = (epochs + epoch, seconds + whole)

    def seconds_left(self, spec: TrialSpec) -> float | None:
        """Seconds left of a running trial, by the pace of its own epochs; None before its first evaluation."""
        epoch, _, own = self._seconds.get(spec.trial_id, (0.0, 0.0, 0.0))
        return max(spec.optim.epochs - epoch, 0.0) * own / epoch if epoch > 0 else None

    def seconds_to_end(self, elapsed_s: float) -> float | None:
        """Expected seconds to the end of all trials, given those since the launch began; None while too little is done.

        Work runs at the rate of the launch so far, whatever its number of workers.
        """
        share = self.share_done()
        return elapsed_s * (1 - share) / share if share >= LEAST_SHARE else None

    def add_ended(self, spec: TrialSpec, epochs: float, seconds: float, *, is_complete: bool) -> None:
        """Add an ended trial from its row in the store; `seconds` include set-up and evaluation."""
        self._seconds[spec.trial_id] = (epochs, seconds, seconds)
        self.ended(spec, is_complete=is_complete)

    def share_done(self) -> float:
        """The share of all work that is done, 0 to 1."""
        work = self._work()
        return min(self._work_done() / work, 1.0) if work else 1.0

    def _work(self) -> float:
        """All planned work, in the unit of `_work_done`."""
        return sum(epochs * self._an_epoch(kind) for kind, epochs in list(self._planned.items()))

    def _work_done(self) -> float:
        """The work of ended trials and of the past epochs of running ones."""
        over = sum(epochs * self._an_epoch(kind) for kind, epochs in list(self._ended.items()))
        running = (epoch * self._an_epoch(self._kinds[i]) for i, (epoch, *_) in list(self._seconds.items()))
        return over + sum(running)

    def _kind(self, spec: TrialSpec) -> Kind:
        if spec.trial_id not in self._kinds:
            self._kinds[spec.trial_id] = (shape_key(spec), spec.train_size, spec.eval_every)
        return self._kinds[spec.trial_id]

    def _an_epoch(self, kind: Kind) -> float:
        """Seconds of an epoch, set-up included; for a kind without ended trials, by the average time per sentence."""
        timed = self._timed.copy()  # the display draws in a thread of its own
        if kind in timed:
            return timed[kind][1] / timed[kind][0]
        sentences = sum(epochs * size for (_, size, _), (epochs, _) in timed.items())
        return kind[1] * sum(seconds for _, seconds in timed.values()) / sentences if sentences else float(kind[1])
