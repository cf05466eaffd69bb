"""The trials of one plan, run by a launch that is present in their store: on Ray or inline, with its listeners."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from importlib import import_module

from orchestrator.claims import Membership, running_drivers
from orchestrator.config.console import SafeConsole
from orchestrator.execution.events import Listener, Listeners
from orchestrator.execution.recorder import Recorder, forget
from orchestrator.execution.shared_source import SharedSource
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue
from orchestrator.search.factory import source_of
from orchestrator.session.bounds import Bounds, Meter, on_bounds
from orchestrator.session.display import LiveDisplay
from orchestrator.session.monitors import Watch
from orchestrator.session.outcome import trials_of
from orchestrator.session.so_far import SoFar
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec, cores_here, gpus_here, seen_gpus
from orchestrator.sweeps.plan import Plan
from trials.hardware.machine import hidden_gpus


class SweepRun:
    """The run of a plan that is up to date. Close it, also after an error.

    Attributes:
        source: Decides which trials run, among drivers.
        queue: Hands out trials of the source.
    """

    def __init__(
        self,
        plan: Plan,
        cluster: ClusterSpec,
        results: ResultStore,
        bounds: Bounds,
        membership: Membership,
        stop: StopRequest,
        began: float,
        console: SafeConsole,
        committed: set[str],
    ) -> None:
        """`began` is the start of the launch on the monotonic clock; `committed` gets the trials with rows."""
        self.plan, self.cluster, self.results, self.stop = plan, cluster, results, stop
        self._bounds, self._membership, self._began, self._committed = bounds, membership, began, committed
        self._console, self._say = console, console.say
        # Drivers that start at different trials of a list rarely want the same one; a single one keeps the order.
        start = int(membership.token, 16) / 16**16 if membership.others() else 0.0
        decides = source_of(plan, results, before_write=membership.check, start=start, time_left=bounds.clock(began))
        self.source = SharedSource(decides, results, membership, plan.attempts)
        self.queue = TrialQueue(self.source, plan.sweep.limits, most=bounds.trials or None, again=self.source.again)

    @property
    def has_work(self) -> bool:
        """Whether any trial is left to run. A search is replayed as far as its trials are stored."""
        return not self.queue.is_exhausted

    def close(self) -> None:
        """Claim no further trial."""
        self.source.close()

    def run(self) -> None:
        """Run the trials, and commit their rows, until all have ended or the sweep is stopped."""
        if not self.has_work:
            what = "every trial of this sweep is" if self.plan.runs_all else "all trials that this sweep needs are"
            self._say(f"nothing to do: {what} complete in the store.")
            self.stop.signals.ended(to_commit=False)
            return
        for driver in running_drivers(self.results.storage):
            if driver.token != self._membership.token:
                self._say(f"with    {driver}")
        sweep, store = self.plan.sweep, self.results.storage
        with (
            Watch(self.plan, store, sweep.watch, cluster=self.cluster.address, stop=self.stop, say=self._say) as watch,
            self.stop.on_requests(store, sweep.name, self._say, is_last=self._is_last),
        ):
            recorder = Recorder(
                self.results,
                before_commit=self._membership.check,
                committed=watch.metrics.flushed,
                over=self._over,
                may_compact=self._membership.is_first,
                keeps_weights=sweep.keep == "weights",
            )
            try:
                try:
                    if self.cluster.address == "inline":
                        self._inline(recorder, watch)
                    else:
                        self._on_ray(recorder, watch)
                finally:
                    self.stop.ended(all_ran=self.queue.is_over)
            finally:  # also if a signal cuts off what stands above
                self._commit(recorder)
                recorder.close()
            if self.queue.is_exhausted:  # neither stopped nor at a limit: paused trials will never resume
                forget(store, {spec.trial_id for spec in trials_of(self.plan, self.results)})

    def _is_last(self) -> bool:
        """Whether no other driver runs the sweep."""
        return len(running_drivers(self.results.storage, self.plan.sweep.name)) < 2

    @contextmanager
    def _heard(self, recorder: Recorder, watch: Watch, hourly: float) -> Iterator[Listener]:
        """What hears of the trials, each of which costs so much an hour, while they run: up to the limits."""
        specs = partial(trials_of, self.plan, self.results)
        display = LiveDisplay(
            self.plan,
            self._console,
            chances=self.source.chances,
            announce=self._membership.announce,
            so_far=SoFar(self.results, specs, self.plan.sweep.decision_plan).lines,
        )
        meter = Meter(hourly)
        with on_bounds(self._bounds, meter, self.stop, self._say, began=self._began), display:
            yield Listeners(recorder, display, meter, *watch.listeners)

    def _commit(self, recorder: Recorder) -> None:
        with self.stop.signals.committing():
            recorder.flush()

    def _over(self, attempts: dict[str, int]) -> None:
        self._committed.update(attempts)
        self.source.committed(attempts)

    def _inline(self, recorder: Recorder, watch: Watch) -> None:
        from orchestrator.execution.inline import TrialSettings, run_inline

        sweep, resources = self.plan.sweep, self.plan.sweep.resources
        seen = seen_gpus(self.cluster) if resources.gpus else hidden_gpus()
        settings = TrialSettings.of(sweep, self.results.address)
        self.stop.signals.running(lambda: self.queue.is_over)
        with seen, self._heard(recorder, watch, self.cluster.hourly(resources)) as listener:
            run_inline(self.queue, listener, resources=resources, settings=settings, stop=self.stop)

    def _desert(self, recorder: Recorder, watch: Watch, error: Exception) -> None:
        """End the process from a thread, as a call of Ray never returns, and keep all that an orderly end would."""
        try:
            recorder.flush()
            watch.over(error)
            self._membership.leave()
        except Exception as also:
            self._say(f"error: {also}")
        finally:
            try:
                self._console.show_cursor()
                self._say(f"error: {error}")
            finally:
                os._exit(1)

    def _on_ray(self, recorder: Recorder, watch: Watch) -> None:
        from orchestrator.ray_backend.cluster import ending_without_nodes, local_cluster, own_cluster
        from orchestrator.ray_backend.gpu_packing import slots_for
        from orchestrator.ray_backend.jobs import job_metadata
        from orchestrator.ray_backend.shared_folder import unshared_note
        from orchestrator.ray_backend.staged_plugins import stage_plugins

        sweep, where, plugins = self.plan.sweep, self.cluster, stage_plugins()
        # Ray starts a worker per core. If each of them runs trials, they may import what these need at once.
        cores, uses_gpus = cores_here(where), bool(sweep.resources.gpus)
        one_each = sweep.resources.cpus == 1 and not uses_gpus and where.concurrency is None
        each_works = one_each and len(self.plan.ahead) >= cores
        gpus = gpus_here(where) if uses_gpus and where.is_here else ()
        local = partial(local_cluster, preload=each_works, cpus=cores, gpus=len(gpus))
        ray = own_cluster if where.address == "auto" else local
        seen = seen_gpus(where) if gpus else nullcontext()
        with seen, ray(job_metadata(sweep.name, self.results.address)) as cluster, ExitStack() as watching:
            self.stop.signals.running(lambda: self.queue.is_over)
            from orchestrator.ray_backend.driver import run_sweep  # Ray reads the settings of the cluster on import
            from orchestrator.ray_backend.ray_internals import once_disconnected
            from orchestrator.ray_backend.trainable import WorkerSettings

            once_disconnected(self.stop.signals.take_back)
            desert = partial(self._desert, recorder, watch)
            watching.enter_context(ending_without_nodes(self.stop.signals.interrupt, desert))
            slots = slots_for(
                cluster,
                sweep.resources,
                self.plan.ahead,
                concurrency=where.concurrency,
                here=gpus,
                most=self._bounds.trials,
                say=self._say,
            )
            shares = slots.shares.items()
            hourly = max(where.prices.hourly(share.cpus, share.gpus, kind) for kind, share in shares)
            self._say(f"ray     {slots.described()}; dashboard {cluster.dashboard} ({cluster.token_hint})")
            if not sweep.checkpoint.is_off and (note := unshared_note(self.results.storage)):
                self._say(f"note    {note}")
            self._membership.announce(ray=cluster.dashboard if cluster.dashboard.startswith("http") else "")
            settings = WorkerSettings.of(sweep, self.results.address, origin=cluster.node_id, plugins=plugins)
            # What the end of a launch shows takes half a second to import, while this process has nothing else to do.
            threading.Thread(target=import_module, args=("orchestrator.analysis.answer",), daemon=True).start()
            with self._heard(recorder, watch, hourly) as listener, watch.exporting():
                run_sweep(self.queue, listener, slots=slots, settings=settings, stop=self.stop)
                self.stop.ended(all_ran=self.queue.is_over)
            self._commit(recorder)  # before Ray is left, which resets the handlers of signals
