"""The trials of one plan, run by a launch that is present in their store, and that work as a backend sees it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from orchestrator.backends import BACKENDS
from orchestrator.backends.backend import Work
from orchestrator.claims import Membership, running_drivers
from orchestrator.execution.events import Listener, Listeners
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.shared_trials import SharedTrials
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Source, TrialQueue
from orchestrator.search.sources import source_of
from orchestrator.session.bounds import Meter, on_bounds
from orchestrator.session.display import LiveDisplay
from orchestrator.session.outcome import trials_of
from orchestrator.session.so_far import SoFar
from orchestrator.session.terms import Terms
from orchestrator.store.stored_tensors import forget
from orchestrator.sweeps.plan import Plan


@dataclass(frozen=True)
class LaunchWork(Work):
    """The work of a backend."""

    source: Source
    membership: Membership
    recorder: Recorder
    terms: Terms

    def say(self, message: str) -> None:
        """Print a message."""
        self.terms.say(message)

    @contextmanager
    def heard(self, hourly: float) -> Iterator[Listener]:
        """What hears of the trials, each of which costs so much an hour, while they run: up to the limits."""
        specs = partial(trials_of, self.plan, self.results)
        display = LiveDisplay(
            self.plan,
            self.terms.console,
            chances=self.source.chances,
            announce=self.membership.announce,
            so_far=SoFar(self.results, specs, self.plan.sweep.decision_plan).lines,
        )
        meter = Meter(hourly)
        limits = on_bounds(self.terms.bounds, meter, self.stop, self.say, began=self.terms.began)
        with limits, display:
            yield Listeners(self.recorder, display, meter)

    def announce(self, dashboard: str) -> None:
        """Say it in this driver's file."""
        self.membership.announce(ray=dashboard)

    def commit(self) -> None:
        """Write rows."""
        with self.stop.signals.committing():
            self.recorder.flush()

    def desert(self, error: Exception) -> None:
        """End the process."""
        try:
            self.recorder.flush()
            self.membership.leave()
        except Exception as also:
            self.say(f"error: {also}")
        finally:
            try:
                self.terms.console.show_cursor()
                self.say(f"error: {error}")
            finally:
                os._exit(1)


class SweepRun:
    """The run of a plan that is up to date.

    Attributes:
        source: Decides which trials run.
        queue: Hands out trials of the source.
    """

    def __init__(
        self, terms: Terms, plan: Plan, membership: Membership, stop: StopRequest, committed: set[str]
    ) -> None:
        """`committed` gets the trials with rows."""
        self._terms, self._plan, self._membership, self._stop = terms, plan, membership, stop
        self._committed, results, bounds = committed, terms.results, terms.bounds
        # Drivers that start at different trials of a list rarely want the same one; a single one keeps the order.
        start = int(membership.token, 16) / 16**16 if membership.others() else 0.0
        clock = bounds.clock(terms.began)
        self.source = source_of(plan, results, check=membership.check, time_left=clock, start=start)
        self._shared = SharedTrials(results.storage, membership, plan.attempts, results.lost_attempts())
        self.queue = TrialQueue(self.source, plan.sweep.limits, most=bounds.trials or None, shared=self._shared)

    @property
    def has_work(self) -> bool:
        """Whether any trial is left to run. A search is replayed as far as its trials are stored."""
        return not self.queue.is_exhausted

    def run(self) -> None:
        """Run the trials, and commit their rows, until all have ended or the sweep is stopped."""
        plan, results, where = self._plan, self._terms.results, self._terms.where
        if not self.has_work:
            what = "every trial of this sweep is" if plan.runs_all else "all trials that this sweep needs are"
            self._terms.say(f"nothing to do: {what} complete in the store.")
            self._stop.signals.ended(to_commit=False)
            return
        for driver in running_drivers(results.storage):
            if driver.token != self._membership.token:
                self._terms.say(f"with    {driver}")
        sweep, store, say = plan.sweep, results.storage, self._terms.say
        with self._stop.on_requests(store, sweep.name, say, is_last=self._is_last):
            recorder = Recorder(
                results,
                before_commit=self._membership.check,
                over=self._over,
                may_compact=self._membership.is_first,
            )
            work = LaunchWork(
                plan=plan,
                cluster=where,
                results=results,
                queue=self.queue,
                stop=self._stop,
                most=self._terms.bounds.trials,
                source=self.source,
                membership=self._membership,
                recorder=recorder,
                terms=self._terms,
            )
            try:
                try:
                    BACKENDS[where.backend](work)
                finally:
                    self._stop.ended(all_ran=self.queue.is_over)
            finally:  # also if a signal cuts off what stands above
                work.commit()
                recorder.close()
            if self.queue.is_exhausted:  # a worker may have saved a trial that was stopped after its row was written
                forget(store, {spec.trial_id for spec in trials_of(plan, results)})

    def _is_last(self) -> bool:
        """Whether no other driver runs the sweep."""
        return len(running_drivers(self._terms.results.storage, self._plan.sweep.name)) < 2

    def _over(self, attempts: dict[str, int]) -> None:
        self._committed.update(attempts)
        self._shared.forget(attempts)
