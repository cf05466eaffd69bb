"""Run what a launch has planned, inline or on Ray, with everything that listens."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.config.console import say, stderr
from orchestrator.execution.checkpoint_store import forget
from orchestrator.execution.events import Listener, Listeners
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.execution.trial_source import Source
from orchestrator.lease import Lease
from orchestrator.search.factory import source_of
from orchestrator.session.budget import Bounds, Meter, on_bounds
from orchestrator.session.display import LiveDisplay
from orchestrator.session.monitors import Watch, watched
from orchestrator.session.outcome import trials_of
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.plan import Plan


@dataclass(frozen=True)
class Running:
    """A launch that has the sweep's lease.

    Attributes:
        plan: What is to run.
        cluster: Where.
        results: The store.
        lease: Of the sweep.
        stop: Ends it before its end.
        source: What decides which trials run.
    """

    plan: Plan
    cluster: ClusterSpec
    results: ResultStore
    lease: Lease
    stop: StopRequest
    source: Source
    queue: TrialQueue

    @classmethod
    def of(
        cls,
        plan: Plan,
        cluster: ClusterSpec,
        results: ResultStore,
        lease: Lease,
        stop: StopRequest,
        *,
        most: int | None = None,
    ) -> Running:
        """A launch of at most so many trials of a plan, up to date."""
        source = source_of(plan, results, before_write=lease.check)
        queue = TrialQueue(source, plan.attempts, plan.sweep.limits, most=most)
        return cls(plan, cluster, results, lease, stop, source, queue)

    @property
    def has_work(self) -> bool:
        """Whether anything is to run. A search goes as far as the store knows its trials."""
        return not self.queue.is_exhausted

    def go(self, bounds: Bounds, *, hourly: float, began: float) -> None:
        """Run the trials until they are over or the sweep is stopped.

        Args:
            bounds: Where it stops by itself.
            hourly: The price of one trial for an hour.
            began: When the launch did, by the monotonic clock.
        """
        sweep, meter = self.plan.sweep, Meter(hourly)
        with (
            watched(
                self.plan, self.results.storage, sweep.watch, cluster=self.cluster.address, stop=self.stop, say=say
            ) as watch,
            on_bounds(bounds, meter, self.stop, say, began=began),
            self.stop.on_requests(self.results.storage, sweep.name, say),
        ):
            self._run(watch, meter)
            if self.queue.is_exhausted:  # not stopped, nor at a bound: nobody will go on with those that are paused
                forget(self.results.storage, {spec.trial_id for spec in trials_of(self.plan, self.results)})

    def _run(self, watch: Watch, meter: Meter) -> None:
        recorder = Recorder(self.results, before_commit=self.lease.check, committed=watch.flushed)
        display = LiveDisplay(self.plan, stderr)
        listener = Listeners(recorder, display, meter, *watch.listeners)
        try:
            if self.cluster.address == "inline":
                self._inline(self.queue, listener, display)
            else:
                self._on_ray(self.queue, listener, display, watch)
        finally:
            recorder.close()

    def _inline(self, queue: TrialQueue, listener: Listener, display: LiveDisplay) -> None:
        from orchestrator.execution.inline import run_inline

        sweep = self.plan.sweep
        with self.stop.on_signals(say), display:
            run_inline(
                queue,
                listener,
                resources=sweep.resources,
                predictions=sweep.predictions,
                store=self.results.address,
                checkpoint=sweep.checkpoint.times,
                stop=self.stop,
            )

    def _on_ray(self, queue: TrialQueue, listener: Listener, display: LiveDisplay, watch: Watch) -> None:
        from orchestrator.ray_backend.cluster import local_cluster, own_cluster
        from orchestrator.ray_backend.gpu_packing import slots_for
        from orchestrator.ray_backend.jobs import job_metadata
        from orchestrator.ray_backend.shared_storage_check import unshared_note

        sweep, where = self.plan.sweep, self.cluster
        ray = own_cluster if where.address == "auto" else local_cluster
        metadata = job_metadata(sweep.name, self.results.address)
        with (
            ray(metadata) as found,
            self.stop.on_signals(say),
        ):  # after Ray, which takes SIGTERM for itself when it starts
            from orchestrator.ray_backend.driver import (
                run_sweep,  # Ray reads the cluster's settings when it is imported
            )
            from orchestrator.ray_backend.trainable import WorkerSettings

            slots = slots_for(found, sweep.resources, self.plan.ahead, concurrency=where.concurrency)
            say(f"ray     {slots.described()}; dashboard {found.dashboard} ({found.token_hint})")
            if not sweep.checkpoint.is_off and (note := unshared_note(self.results.storage)):
                say(f"note    {note}")
            self.lease.announce(found.dashboard if found.dashboard.startswith("http") else "")
            settings = WorkerSettings(sweep.predictions, self.results.address, sweep.checkpoint.times, found.node_id)
            with display, watch.exporting():
                run_sweep(queue, listener, slots=slots, settings=settings, stop=self.stop)
