"""Run a planned launch, inline or on Ray, with its listeners."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module

from orchestrator.claims import Membership, running_drivers
from orchestrator.config.console import say, stderr
from orchestrator.execution.checkpoint_store import forget
from orchestrator.execution.events import Listener, Listeners
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.shared_source import SharedSource
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.search.factory import source_of
from orchestrator.session.budget import Bounds, Meter, on_bounds
from orchestrator.session.display import LiveDisplay
from orchestrator.session.monitors import Watch, watched
from orchestrator.session.outcome import trials_of
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.plan import Plan
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Running:
    """A launch that is present in its store.

    Attributes:
        source: Decides which trials run, among drivers.
    """

    plan: Plan
    cluster: ClusterSpec
    results: ResultStore
    membership: Membership
    stop: StopRequest
    source: SharedSource
    queue: TrialQueue
    committed: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        plan: Plan,
        cluster: ClusterSpec,
        results: ResultStore,
        membership: Membership,
        stop: StopRequest,
        *,
        most: int | None = None,
    ) -> Running:
        """A launch of at most `most` trials of a plan that is up to date. Close it, also after an error."""
        # Drivers that start at different trials of a list rarely want the same one; a single one keeps the order.
        start = int(membership.token, 16) / 16**16 if membership.others() else 0.0
        membership.check_store = results.check_there
        decides = source_of(plan, results, before_write=membership.check, start=start)
        source = SharedSource(decides, results, membership, plan.attempts)
        queue = TrialQueue(source, {}, plan.sweep.limits, most=most, again=source.again)
        return cls(plan, cluster, results, membership, stop, source, queue)

    def close(self) -> None:
        """Claim no further trial."""
        self.source.close()

    @property
    def has_work(self) -> bool:
        """Whether any trial is left to run. A search is replayed as far as its trials are stored."""
        return not self.queue.is_exhausted

    def go(self, bounds: Bounds, *, hourly: float, began: float) -> None:
        """Run the trials until all have ended or the sweep is stopped.

        Args:
            hourly: The price of one hour of one trial.
            began: Start of the launch on the monotonic clock.
        """
        sweep, meter = self.plan.sweep, Meter(hourly)
        with (
            watched(
                self.plan, self.results.storage, sweep.watch, cluster=self.cluster.address, stop=self.stop, say=say
            ) as watch,
            on_bounds(bounds, meter, self.stop, say, began=began),
            self.stop.on_requests(self.results.storage, sweep.name, say, is_last=self._is_last),
        ):
            self._run(watch, meter)
            if self.queue.is_exhausted:  # neither stopped nor at a limit: paused trials will never resume
                forget(self.results.storage, {spec.trial_id for spec in trials_of(self.plan, self.results)})

    def _is_last(self) -> bool:
        """Whether no other driver runs the sweep."""
        return len(running_drivers(self.results.storage, self.plan.sweep.name)) < 2

    def _run(self, watch: Watch, meter: Meter) -> None:
        recorder = Recorder(
            self.results,
            before_commit=self.membership.check,
            committed=watch.flushed,
            over=self._over,
            may_compact=self.membership.is_first,
            keeps_weights=self.plan.sweep.keep == "weights",
        )
        display = LiveDisplay(self.plan, stderr)
        listener = Listeners(recorder, display, meter, *watch.listeners)

        def settled(spec: TrialSpec, state: State) -> None:
            display.settled(spec, state)
            watch.settled(state)

        self.source.settled = settled
        display.chances, display.announce = self.source.chances, self.membership.announce
        try:
            try:
                if self.cluster.address == "inline":
                    self._inline(self.queue, listener, display)
                else:
                    self._on_ray(self.queue, listener, display, watch, recorder)
            finally:
                self.stop.ended(all_ran=self.queue.is_over)
        finally:  # also if a signal cuts off what stands above
            with self.stop.signals.committing():
                recorder.flush()
            recorder.close()

    def _over(self, attempts: dict[str, int]) -> None:
        self.committed.update(attempts)
        self.source.committed(attempts)

    def _inline(self, queue: TrialQueue, listener: Listener, display: LiveDisplay) -> None:
        from orchestrator.execution.inline import run_inline

        sweep = self.plan.sweep
        self.stop.signals.running(lambda: queue.is_over)
        with display:
            run_inline(
                queue,
                listener,
                resources=sweep.resources,
                predictions=sweep.predictions,
                store=self.results.address,
                checkpoint=sweep.checkpoint.times,
                keep_weights=sweep.keep == "weights",
                stop=self.stop,
            )

    def _desert(self, recorder: Recorder, watch: Watch, error: Exception) -> None:
        """End the process from a thread, as a call of Ray never returns, and keep all that an orderly end would."""
        try:
            recorder.flush()
            watch.over(error)
            self.membership.leave()
        except Exception as also:
            say(f"error: {also}")
        finally:
            stderr.show_cursor()
            say(f"error: {error}")
            os._exit(1)

    def _on_ray(
        self, queue: TrialQueue, listener: Listener, display: LiveDisplay, watch: Watch, recorder: Recorder
    ) -> None:
        from orchestrator.ray_backend.cluster import local_cluster, own_cluster
        from orchestrator.ray_backend.gpu_packing import slots_for
        from orchestrator.ray_backend.jobs import job_metadata
        from orchestrator.ray_backend.shared_storage_check import unshared_note

        sweep, where = self.plan.sweep, self.cluster
        # Ray starts a worker per core. If each of them runs trials, they may import what these need at once.
        one_each = sweep.resources.cpus == 1 and not sweep.resources.gpus and where.concurrency is None
        each_works = one_each and len(self.plan.ahead) >= (os.cpu_count() or 1)
        ray = own_cluster if where.address == "auto" else partial(local_cluster, preload=each_works)
        with ray(job_metadata(sweep.name, self.results.address)) as cluster:
            self.stop.signals.running(lambda: queue.is_over)
            from orchestrator.ray_backend.driver import run_sweep  # Ray reads the settings of the cluster on import
            from orchestrator.ray_backend.lost_nodes import ending_without_nodes
            from orchestrator.ray_backend.trainable import WorkerSettings

            slots = slots_for(cluster, sweep.resources, self.plan.ahead, concurrency=where.concurrency)
            say(f"ray     {slots.described()}; dashboard {cluster.dashboard} ({cluster.token_hint})")
            if not sweep.checkpoint.is_off and (note := unshared_note(self.results.storage)):
                say(f"note    {note}")
            self.membership.announce(ray=cluster.dashboard if cluster.dashboard.startswith("http") else "")
            settings = WorkerSettings(
                sweep.predictions,
                self.results.address,
                sweep.checkpoint.times,
                cluster.node_id,
                sweep.keep == "weights",
            )
            # What the end of a launch shows takes half a second to import, while this process has nothing else to do.
            threading.Thread(target=import_module, args=("orchestrator.analysis.answer",), daemon=True).start()
            desert = partial(self._desert, recorder, watch)
            with display, watch.exporting(), ending_without_nodes(self.stop.signals.interrupt, desert):
                run_sweep(queue, listener, slots=slots, settings=settings, stop=self.stop)
                self.stop.ended(all_ran=queue.is_over)
