"""Connect the monitors of a launch: progress, metrics, log, notifications and trackers.

with watched(plan, store, settings, cluster="local", stop=stop, say=say) as watch:
    recorder = Recorder(results, committed=watch.flushed)
    with watch.exporting():        # while Ray is up; not used without Ray
        run_sweep(queue, Listeners(recorder, *watch.listeners), ...)
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.execution.events import Listener, StopRequest, last_line
from orchestrator.monitoring.metrics import Launch, MetricsListener
from orchestrator.monitoring.notify import Notifier, Webhook
from orchestrator.monitoring.progress import Ending, JsonLog, Tally
from orchestrator.session.outcome import trials_of
from orchestrator.storage.address import scrubbed
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.sweeps.notification_spec import WatchSpec
from orchestrator.sweeps.plan import Plan
from orchestrator.trackers.live_tracker import LiveTracker, targets_of


class Watch:
    """The monitors of one launch.

    Attributes:
        listeners: For the driver, after the recorder, so that they report only recorded events.
        over: Reports how the launch ends, with the error if there is one.
    """

    def __init__(
        self,
        tally: Tally,
        metrics: MetricsListener,
        log: JsonLog | None,
        stop: StopRequest,
        trackers: Sequence[LiveTracker],
    ) -> None:
        self._tally, self._metrics, self._stop = tally, metrics, stop
        self.over: Callable[[BaseException | None], None] = lambda error: None
        self.listeners: tuple[Listener, ...] = (tally, metrics, *([log] if log else []), *trackers)

    def flushed(self, seconds: float) -> None:
        """Note that the recorder took `seconds` to commit rows."""
        self._metrics.flushed(seconds)

    def settled(self, state: State) -> None:
        """Count a trial that another driver has ended."""
        self._tally.settled(state)

    @contextmanager
    def exporting(self) -> Iterator[None]:
        """Export metrics while the block runs. Ray must outlive the block, so that the last values are exported."""
        from orchestrator.ray_backend.prometheus import RayMeters  # imported late: Ray reads its settings on import

        error: BaseException | None = None
        with RayMeters() as meters:
            self._metrics.begin(meters)
            try:
                yield
            except BaseException as raised:
                error = raised
                raise
            finally:
                self._metrics.over(self.ending(error))

    def ending(self, error: BaseException | None) -> Ending:
        """How the launch ends, if it ended now."""
        stop, left = self._stop, self._tally.left
        if isinstance(error, Exception):
            reason = f"{type(error).__name__}: {scrubbed(last_line(str(error)))}"
            return self._tally.ending(reason=reason, interrupted=False)
        if left and (stop.signal == signal.SIGTERM or isinstance(error, SystemExit)):  # SystemExit while Ray starts
            reason = "stopped by SIGTERM; run the same command to resume"
            return self._tally.ending(reason=reason, interrupted=False)
        asked = f"{stop.asker} asked to stop" if left and stop.asker else None
        by_person = stop.signal is not None or stop.asker is not None or error is not None
        bound = f"{stop.bound}; run the same command to resume" if left and stop.bound else None
        return self._tally.ending(reason=stop.reason or asked or bound, interrupted=by_person or stop.bound is not None)


@contextmanager
def watched(
    plan: Plan, store: Storage, settings: WatchSpec, *, cluster: str, stop: StopRequest, say: Callable[[str], None]
) -> Iterator[Watch]:
    """Monitor a launch until the end of the block, and report how it ended, errors included.

    Raises:
        ConfigError: A secret that the settings name is missing, or a tracker cannot be used; raised before the launch
            begins.
    """
    name, address = plan.sweep.name, store.address
    disk = store.folder if isinstance(store, FolderStorage) else None
    tally = Tally(len(plan.ahead))
    metrics = MetricsListener(Launch(name, len(plan.ahead), plan.n_skipped, address, cluster, disk))
    log = JsonLog(Path(settings.log), name, say) if settings.log else None
    notify = settings.notify
    notifier = notify and Notifier(notify, Webhook.of(notify.webhook), tally, sweep=name, store=address, say=say)
    results = ResultStore(store)
    trackers = [LiveTracker(target, name, results, say) for target in targets_of(settings)]
    watch = Watch(tally, metrics, log, stop, trackers)
    if log:
        log.launched(planned=len(plan.ahead), skipped=plan.n_skipped, store=address)
    for tracker in trackers:
        tracker.launched(skipped=plan.n_skipped)
    if notifier:
        notifier.begin()

    def over(error: BaseException | None) -> None:
        ending = watch.ending(error)
        if log:
            log.over(ending)
        if notifier:
            notifier.over(ending)
        for tracker in trackers:
            tracker.over(lambda: trials_of(plan, results))

    watch.over = over
    error: BaseException | None = None
    try:
        yield watch
    except BaseException as raised:
        error = raised
        raise
    finally:
        over(error)
