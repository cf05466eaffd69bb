"""The time left of a sweep and of a trial, estimated from trials of a launch, or from the rows of its store."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from orchestrator.claims.claims import RunningDriver, began_at, likely_shares
from orchestrator.config.quantities import time_left as time_left_text
from orchestrator.execution.trial_queue import Chances
from orchestrator.store import ResultStore
from orchestrator.store.parts import Follower
from orchestrator.store.plans import SweepPlan, stored_spec
from trials.prefix.work import epoch_passes, shape_key
from trials.record import EpochRecord, State, paid_prefix_s
from trials.spec import TrialSpec

LEAST_SHARE = 0.01  # share of all work that must be done before the time left is estimated
# columns of the tables `trials` and `epochs` that are read
TRIAL_COLUMNS = ("trial_id", "state", "time", "last_epoch", "setup_s", "prefix_s", "prefix_paid_s", "train_s", "eval_s")
_SUMS = [("epoch", "max"), ("train_s", "sum"), ("eval_s", "sum"), ("time", "max")]
Kind = tuple[str, int, float]  # what decides the seconds of an epoch: shape, training size, epochs per evaluation


@dataclass
class _Running:
    """A running trial: its newest evaluation, or its start, at `at_s`, and the seconds spent until then."""

    spec: TrialSpec
    at_s: float
    epoch: float = 0.0
    whole_s: float = 0.0
    epochs_s: float = 0.0  # without set-up

    def left_s(self, now_s: float, epoch_s: float) -> float:
        """Seconds to its end at `epoch_s` for an epoch. An evaluation that has not come yet is not over."""
        since = min(max(now_s - self.at_s, 0.0), self.spec.eval_every * epoch_s)
        return max((self.spec.optim.epochs - self.epoch) * epoch_s - since, 0.0)


class Pace:
    """Work done and left: in seconds if a trial of the kind has been timed, else in proportion to `epoch_passes`.

    Trials that were not planned, but suggested by a search, replace some of the planned ones. Times of events (`at_s`,
    `now_s`) are seconds since the launch began.

    Attributes:
        likely, most: Shares of the work of trials not begun that are likely to run (None: unknown), and that may.
    """

    def __init__(self, specs: Iterable[TrialSpec]) -> None:
        self.likely: float | None = 1.0
        self.most = 1.0
        self._kinds: dict[str, Kind] = {}
        self._passes: dict[Kind, float] = {}  # of an epoch
        self._planned: dict[Kind, float] = defaultdict(float)  # epochs
        for spec in specs:
            self._planned[self._kind(spec)] += spec.optim.epochs
        self._ended: dict[Kind, float] = defaultdict(float)  # planned epochs of ended trials
        self._timed: dict[Kind, tuple[float, float]] = {}  # epochs of completed trials, and their seconds
        self._running: dict[str, _Running] = {}
        self._at_once = 0  # trials that ran after the last start
        self._spent_s = 0.0  # by trials that no longer run

    def weigh(self, chances: Chances) -> None:
        """Set `likely` and `most` by a search."""
        epoch_s = self._epoch_s()
        works = [(chance, spec.optim.epochs * epoch_s(self._kind(spec))) for spec, chance in chances.of_trials]
        if all_work := sum(work for _, work in works):
            self.likely = sum(chance * work for chance, work in works) / all_work
            self.most = 1.0 if chances.at_most is None else min(chances.at_most / len(works), 1.0)

    def add_start(self, spec: TrialSpec, at_s: float) -> None:
        """A worker has begun an attempt."""
        self._running[spec.trial_id] = _Running(spec, at_s)
        self._at_once = len(self._running)

    def add_evaluation(self, spec: TrialSpec, record: EpochRecord, at_s: float) -> None:
        """Time a running trial."""
        trial = self._running.setdefault(spec.trial_id, _Running(spec, at_s))
        trial.at_s, trial.epoch = at_s, record.epoch
        trial.whole_s += record.spent_s
        trial.epochs_s += record.train_s + record.eval_s

    def forget(self, spec: TrialSpec) -> None:
        """An attempt is over, and another will follow."""
        trial = self._running.pop(spec.trial_id, None)
        self._spent_s += trial.whole_s if trial else 0.0

    def add_end(self, spec: TrialSpec, *, is_complete: bool) -> None:
        """A trial has ended. A complete one times its kind."""
        kind, trial = self._kind(spec), self._running.pop(spec.trial_id, None)
        self._ended[kind] += spec.optim.epochs
        if trial is None:
            return
        self._spent_s += trial.whole_s
        if is_complete and trial.epoch > 0:
            epochs, seconds = self._timed.get(kind, (0.0, 0.0))
            self._timed[kind] = (epochs + trial.epoch, seconds + trial.whole_s)

    def add_stored(self, spec: TrialSpec, epochs: float, seconds: float, *, is_complete: bool) -> None:
        """Add an ended trial from its row in the store; `seconds` include set-up and evaluation."""
        self._running[spec.trial_id] = _Running(spec, 0.0, epochs, seconds, seconds)
        self.add_end(spec, is_complete=is_complete)

    def add_running(self, spec: TrialSpec, epochs: float, seconds: float, at_s: float) -> None:
        """Add a running trial from its rows in the store: epochs so far, their seconds, the time of the newest row."""
        self._running[spec.trial_id] = _Running(spec, at_s, epochs, seconds, seconds)

    def seconds_left(self, spec: TrialSpec, now_s: float) -> float | None:
        """Seconds left of a running trial, by the pace of its own epochs; None before its first evaluation."""
        trial = self._running.get(spec.trial_id)
        return trial.left_s(now_s, trial.epochs_s / trial.epoch) if trial and trial.epoch > 0 else None

    def time_left(self, now_s: float) -> str:
        """The time to the end as every surface shows it: what is likely and, of a search, the most it may be."""
        likely = None if self.likely is None else self.seconds_to_end(now_s, share=self.likely)
        return time_left_text(likely, self.seconds_to_end(now_s, share=self.most))

    def seconds_to_end(self, now_s: float, *, share: float = 1.0) -> float | None:
        """Expected seconds to the end, if `share` of the work that has not begun is run; None while too little is done.

        That is the time left of the trial that runs longest, or, if it is larger, the seconds of all work left over the
        number of trials that run at once: those after the last start, or, in a store, which knows no starts, those with
        rows or the mean number so far. So the last trials, which leave workers idle, are not predicted by the mean.
        """
        epoch_s, running = self._epoch_s(), list(self._running.values())
        if not (self._timed or any(trial.epoch > 0 for trial in running)) or self.share_done() < LEAST_SHARE:
            return None
        lefts = [
            trial.left_s(now_s, trial.epochs_s / trial.epoch if trial.epoch > 0 else epoch_s(self._kind(trial.spec)))
            for trial in running
        ]
        begun = sum(trial.spec.optim.epochs * epoch_s(self._kind(trial.spec)) for trial in running)
        waiting = share * max(self._work(epoch_s) - self._work_ended(epoch_s) - begun, 0.0)
        mean = (self._spent_s + sum(trial.whole_s for trial in running)) / now_s if now_s > 0 else 0.0
        at_once = max(len(running), self._at_once or mean)
        return max((waiting + sum(lefts)) / at_once, *lefts, 0.0) if at_once else None

    def share_done(self) -> float:
        """The share of all work that is done, 0 to 1."""
        epoch_s = self._epoch_s()
        work = self._work(epoch_s)
        running = sum(trial.epoch * epoch_s(self._kind(trial.spec)) for trial in list(self._running.values()))
        return min((self._work_ended(epoch_s) + running) / work, 1.0) if work else 1.0

    def _work(self, epoch_s: Callable[[Kind], float]) -> float:
        """All planned work."""
        return sum(epochs * epoch_s(kind) for kind, epochs in list(self._planned.items()))

    def _work_ended(self, epoch_s: Callable[[Kind], float]) -> float:
        return sum(epochs * epoch_s(kind) for kind, epochs in list(self._ended.items()))

    def _kind(self, spec: TrialSpec) -> Kind:
        if spec.trial_id not in self._kinds:
            kind = self._kinds[spec.trial_id] = (shape_key(spec), spec.train_size, spec.eval_every)
            self._passes.setdefault(kind, epoch_passes(spec))
        return self._kinds[spec.trial_id]

    def _epoch_s(self) -> Callable[[Kind], float]:
        """Seconds of an epoch by kind: of completed trials, set-up included; else of running ones; for a kind without
        either by the mean time of a pass through a layer. Passes, if nothing is timed.
        """
        timed: dict[Kind, tuple[float, float]] = {}
        for trial in list(self._running.values()):  # the display draws in a thread of its own
            if trial.epoch > 0:
                epochs, seconds = timed.get(kind := self._kind(trial.spec), (0.0, 0.0))
                timed[kind] = (epochs + trial.epoch, seconds + trial.epochs_s)
        timed |= self._timed
        passes = sum(epochs * self._passes[kind] for kind, (epochs, _) in timed.items())
        a_pass = sum(seconds for _, seconds in timed.values()) / passes if passes else 1.0
        return lambda kind: timed[kind][1] / timed[kind][0] if kind in timed else self._passes[kind] * a_pass


class RunningTrial(NamedTuple):
    """A trial that has evaluations but has not ended.

    Attributes:
        epochs: Epochs at its newest evaluation.
        seconds: Their seconds of training and evaluation.
        time_s: Unix time of that evaluation.
    """

    spec: TrialSpec
    epochs: float
    seconds: float
    time_s: float


def time_left(
    since: float,
    shares: tuple[float | None, float],
    planned: Iterable[TrialSpec],
    ended: Iterable[tuple[TrialSpec, Mapping[str, Any]]],
    running: Iterable[RunningTrial],
) -> str:
    """The time left of a sweep that runs (`Pace.time_left`).

    Args:
        since: Unix time at which its first driver started.
        shares: `Pace.likely` and `Pace.most`.
        planned: The trials that had not ended by then.
        ended: Those of them that have, with their rows of `TRIAL_COLUMNS`.
        running: Those that run.
    """
    pace = Pace(planned)
    pace.likely, pace.most = shares
    for spec, row in ended:
        seconds = paid_prefix_s(row) + sum(row[name] or 0.0 for name in ("setup_s", "train_s", "eval_s"))
        pace.add_stored(spec, row["last_epoch"] or 0.0, seconds, is_complete=row["state"] == State.COMPLETED)
    for trial in running:
        pace.add_running(trial.spec, trial.epochs, trial.seconds, trial.time_s - since)
    return pace.time_left(time.time() - since)


def stored_time_left(
    store: ResultStore, plan: SweepPlan, trials: Iterable[Mapping[str, Any]], drivers: Sequence[RunningDriver]
) -> str | None:
    """The time left of a stored sweep by its `drivers`; None if none runs it. Raises StoreError.

    Args:
        trials: Rows of `TRIAL_COLUMNS` of all ended trials of the store.
    """
    since = began_at(drivers)
    if since is None:
        return None
    rows = {row["trial_id"]: row for row in trials}
    before = {trial_id for trial_id, row in rows.items() if row["time"].timestamp() < since}
    specs = {trial_id: stored_spec(spec, trial_id) for trial_id, spec in plan.trials if trial_id not in before}
    ended = [(spec, rows[trial_id]) for trial_id, spec in specs.items() if trial_id in rows]
    waiting = {trial_id: spec for trial_id, spec in specs.items() if trial_id not in rows}
    return time_left(since, likely_shares(drivers), specs.values(), ended, _running_trials(store, waiting))


def _running_trials(store: ResultStore, waiting: Mapping[str, TrialSpec]) -> list[RunningTrial]:
    """The trials that run, by the evaluations of each one's newest attempt."""
    columns = ("trial_id", "attempt", *(name for name, _ in _SUMS))
    parts = Follower(store.storage, "epochs", columns).poll().rows
    if not parts:
        return []
    sums = pa.concat_tables(parts).group_by(["trial_id", "attempt"]).aggregate(_SUMS)
    newest = {row["trial_id"]: row for row in sums.sort_by("attempt").to_pylist() if row["trial_id"] in waiting}
    return [
        RunningTrial(waiting[i], row["epoch_max"], row["train_s_sum"] + row["eval_s_sum"], row["time_max"].timestamp())
        for i, row in newest.items()
        if row["epoch_max"] is not None
    ]
