"""One launch, read from top to bottom: plan, join, loop, end. The commands and `orchestrator.api` run trials by it.

launch = Launch.begin(find_cluster("local"), "results", stderr, max_hours=8)
with launch.lookup(offline=False) as lookup:
    plan = launch.plan(sweep, document, lookup)
with launch.run(plan) as ended:
    ...  # shows what came of it
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from orchestrator.claims import Membership, drive, running_drivers
from orchestrator.config.console import DEFAULT_STORE, SafeConsole, download_progress
from orchestrator.config.quantities import HOUR
from orchestrator.config.yaml_document import Document
from orchestrator.engines import started_engine
from orchestrator.execution.engine import Engine, Evaluated, Failed, Free, Job, Started
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import End, SharedTrials, TrialQueue
from orchestrator.search.sources import source_of
from orchestrator.session.display import LiveDisplay
from orchestrator.session.outcome import Ended, lost_store, outcome_of
from orchestrator.store import ResultStore, open_store
from orchestrator.store.stored_tensors import forget
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.plan import Plan, make_plan
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup
from trials.errors import ConfigError, StoreError


@dataclass
class Reserve:
    """The last seconds of a launch's time, in which no further evaluation fits: the slowest one so far, and its end."""

    seconds: float = 3.0  # from the last evaluation to the prompt: Ray ends, answers are computed; idle, 2 to 3 s

    def evaluated(self, seconds: float) -> None:
        """Count an evaluation, with the steps before it."""
        self.seconds = max(self.seconds, Reserve.seconds + seconds)


@dataclass(frozen=True)
class Launch:
    """A launch: where the sweeps of one call run, with what limits, and which store holds their rows.

    At a limit running trials stop after their next evaluation, which should end within the time. The same command
    resumes, and counts from zero.

    Attributes:
        console: The console that its messages go to.
        max_hours: Wall time from its start; None for no limit.
        max_trials: The most trials that it runs; None for no limit.
        began: Its start, in seconds of the monotonic clock; its time is counted from there.
        reserve: What its trials leave of its time.
    """

    where: ClusterSpec
    results: ResultStore
    console: SafeConsole
    max_hours: float | None = None
    max_trials: int | None = None
    began: float = field(default_factory=time.monotonic)
    reserve: Reserve = field(default_factory=Reserve)

    def __post_init__(self) -> None:
        for name, limit in (("--max-hours", self.max_hours), ("--max-trials", self.max_trials)):
            if limit is not None and not 0 < limit < math.inf:
                raise ConfigError(f"{name} {limit:g}: must be {'above 0' if limit <= 0 else 'a finite number'}.")

    @classmethod
    def begin(cls, where: ClusterSpec, store: str | None, console: SafeConsole, **limits: Any) -> Launch:
        """Begin a launch in the named store, or else the one in the cluster's file. Nothing is created or written yet.

        Args:
            limits: `max_hours` and `max_trials`.

        Raises:
            ConfigError: A limit is not positive.
            StoreError: The store cannot be read.
        """
        began = time.monotonic()
        results = open_store(store or where.store or DEFAULT_STORE, must_exist=False)
        return cls(where, results, console, **limits, began=began)

    def say(self, message: str) -> None:
        """Print a message of one or more lines, unwrapped."""
        self.console.say(message)

    @property
    def elapsed_s(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.began

    @property
    def time_left(self) -> float:
        """Seconds in which an evaluation may still begin, by `max_hours`; infinite without."""
        return math.inf if self.max_hours is None else self.max_hours * HOUR - self.reserve.seconds - self.elapsed_s

    def reached_limit(self) -> str | None:
        """The limit of time, as its option was given, if no further evaluation fits; else None."""
        return f"--max-hours {self.max_hours:g}" if self.time_left <= 0 else None

    @contextmanager
    def lookup(self, *, offline: bool, fetched: Callable[[str], None] = lambda name: None) -> Iterator[Lookup]:
        """Looks up corpora and models, and shows downloads; `fetched` is called with the name of each file."""
        with download_progress(self.console, fetched):
            yield Lookup(offline=offline)

    def plan(self, sweep: SweepSpec, document: Document, lookup: Lookup) -> Plan:
        """The trials of a sweep that the store lacks.

        Raises:
            ConfigError: All errors of the sweep, each with its key in the document.
            StoreError: The store cannot be read.
        """
        return make_plan(self.where.fitted_sweep(sweep), document, self.results, lookup)

    @contextmanager
    def run(self, plan: Plan) -> Iterator[Ended]:
        """Run the rest of a plan, to its end or a limit, and then the block, which a first signal does not interrupt.

        Raises:
            ConfigError: This machine lacks what a trial needs.
            BusyStoreError: Another driver runs the search, or works on a store that cannot hold claims.
            StoreError: The store cannot be read or written.
        """
        results, stop, committed = self.results, StopRequest(), set[str]()
        self.where.check_room_here(plan.sweep.resources)
        results.create()
        with stop.signals.handle_signals(self.say):
            try:
                with drive(
                    results.storage,
                    plan.sweep.name,
                    is_search=plan.is_search,
                    say=self.say,
                    check_store=results.check_exists,
                ) as membership:
                    results.add_plan(plan.stored_plan())
                    plan = plan.without_completed(results)  # other drivers may have run trials until now
                    trials = self._run_left(plan, membership, stop, committed)
            except (StoreError, OSError) as error:
                if results.is_gone:
                    raise lost_store(results, plan.n_skipped + len(committed)) from error
                raise
            ends, found = trials.ends(plan.to_run), tuple(trials.answer_lines(self.console.width))
            outcome = outcome_of(plan, results.address, self.elapsed_s, ends)
            ended = Ended(plan, outcome, stop, found, ends)
            left = 0 if trials.is_exhausted else ended.n_left
            stop.settle(all_ran=trials.is_over, left=left, max_trials=self.max_trials)
            yield ended

    def _run_left(self, plan: Plan, membership: Membership, stop: StopRequest, committed: set[str]) -> TrialQueue:
        """Run the trials of a plan that is up to date, and commit their rows, whose trials `committed` gets."""
        results, storage = self.results, self.results.storage
        # Drivers that start at different trials of a list rarely want the same one; a single one keeps the order.
        first = int(membership.token, 16) / 16**16 if membership.others() else 0.0
        time_left = None if self.max_hours is None else lambda: self.time_left
        source = source_of(plan, results, check=membership.check, time_left=time_left, start=first)
        shared = SharedTrials(storage, membership, plan.attempts, results.lost_attempts())
        trials = TrialQueue(source, plan.sweep.limits, shared, most=self.max_trials)
        if trials.is_exhausted:  # a search is replayed as far as its trials are stored
            what = "every trial of this sweep is" if plan.runs_all else "all trials that this sweep needs are"
            self.say(f"stored  {what} complete in the store; none runs.")
            stop.signals.on_trials_end(to_commit=False)
            return trials
        for driver in running_drivers(storage):
            if driver.token != membership.token:
                self.say(f"with    {driver}")

        def is_over(attempts: dict[str, int]) -> None:
            committed.update(attempts)
            shared.forget(attempts)

        recorder = Recorder(results, membership.check, over=is_over, may_compact=membership.is_first)
        display = LiveDisplay(plan, self.console, chances=trials.chances, announce=membership.announce, results=results)
        desert = partial(self._desert, recorder, membership)
        job = Job(plan, self.where, results.address, self.max_trials, self.say, stop, desert)
        requests = stop.on_requests(storage, plan.sweep.name, self.say)
        try:
            try:
                with requests, started_engine(job) as engine:
                    membership.announce(ray=engine.dashboard)
                    stop.signals.on_trials_start(lambda: trials.is_over)
                    with display:
                        limit, reserve = self.reached_limit, self.reserve
                        TrialLoop(engine, trials, stop, recorder, display, limit, self.say, reserve).run()
                    stop.signals.on_trials_end()
                    with stop.signals.protect_commit():  # before an engine is left that resets the handlers of signals
                        recorder.flush()
            finally:
                stop.signals.on_trials_end()
        finally:  # also if a signal cuts off what stands above
            with stop.signals.protect_commit():
                recorder.flush()
            recorder.close()
        if trials.is_exhausted:  # a worker may have saved a trial that was stopped after its row was written
            ended = {end.spec.trial_id for end in trials.ends(plan.to_run)}
            forget(storage, ended.union(spec.trial_id for spec in plan.trials))
        return trials

    def _desert(self, recorder: Recorder, membership: Membership, error: Exception) -> None:
        """End the process, in which an engine never returns."""
        try:
            recorder.flush()
            membership.leave()
        except Exception as also:
            self.say(f"error: {also}")
        finally:
            try:
                self.console.show_cursor()
                self.say(f"error: {error}")
            finally:
                os._exit(1)


@dataclass(frozen=True)
class TrialLoop:
    """The loop of a launch. It ends when all trials have, or after a stop once running trials have been evaluated.

    Attributes:
        reached_limit: The option that gave the limit of the launch that is reached; None while there is none.
        running: The trials that the engine runs, by id.
    """

    engine: Engine
    trials: TrialQueue
    stop: StopRequest
    recorder: Recorder
    display: LiveDisplay
    reached_limit: Callable[[], str | None]
    say: Callable[[str], None]
    reserve: Reserve = field(default_factory=Reserve)
    running: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Run it. Raises StoreError: rows cannot be committed, or others counted this driver as ended."""
        with closing(self.engine.events(self.display.preparing)) as events:
            for event in events:
                self._mind_limits()
                match event:
                    case Free(slot):
                        self._fill(slot)
                    case Started(attempt):
                        for each in (self.recorder, self.display):
                            each.started(attempt.spec, attempt.number)
                    case Evaluated():
                        self._evaluated(event)
                    case Failed(attempt, state, error):
                        self.stop.reason = self.stop.reason or event.broken
                        self._end(End(attempt.spec, state, error), relieved=event.relieved)
                self.recorder.tick()
                if self.trials.is_over or (self.stop.asked and not self.running):
                    return

    def _mind_limits(self) -> None:
        if not self.stop.asked and (limit := self.reached_limit()) is not None:
            self.stop.bound = f"{limit} reached"
            self.say(f"Stopping, to keep to {limit}: running trials continue to their next evaluation.")

    def _fill(self, slot: str) -> None:
        attempt = None if self.stop.asked else self.trials.take()
        for end in self.trials.new_ends_elsewhere():
            self.display.ended(end)
        if attempt is not None:
            self.running.add(attempt.spec.trial_id)
            self.engine.start(attempt, slot)

    def _evaluated(self, event: Evaluated) -> None:
        spec, record = event.attempt.spec, event.record
        end = self.trials.evaluated(spec, record)
        self.reserve.evaluated(record.train_s + record.eval_s)
        self.recorder.evaluated(spec, record)
        self.display.evaluated(spec, record)
        if end is not None:
            self._end(end)
        elif self.stop.asked:
            self.running.discard(spec.trial_id)  # its next attempt resumes it, in another launch
        self.engine.reply(event.attempt, goes_on=spec.trial_id in self.running)

    def _end(self, end: End, *, relieved: bool = False) -> None:
        self.running.discard(end.spec.trial_id)
        if self.trials.ended(end, relieved=relieved) is None:
            self.recorder.ended(end)
            self.display.ended(end)
        else:
            self.recorder.retried(end)
            self.display.retried(end)
        self.stop.reason = self.stop.reason or self.trials.broken
