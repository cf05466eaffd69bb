"""Puts the watchers of a launch together.

with watched(plan, store, settings, cluster="local", stop=stop, say=say) as watch:
    recorder = Recorder(results, committed=watch.flushed)
    with watch.exporting():        # while Ray is up; without Ray it is left out
        run_sweep(queue, Listeners(recorder, *watch.listeners), ...)
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.execution.events import Listener, last_line
from orchestrator.execution.stop_request import StopRequest
from orchestrator.monitoring.json_log import JsonLog
from orchestrator.monitoring.metrics import Launch, MetricsListener
from orchestrator.monitoring.notify import Notifier, senders_of
from orchestrator.monitoring.progress import Ending, Tally
from orchestrator.storage.address import scrubbed
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.sweeps.notification_spec import WatchSpec
from orchestrator.sweeps.plan import Plan


class Watch:
    """The watchers of one launch.

    Attributes:
        listeners: For the driver, after the recorder: what they tell of is held by then.
    """

    def __init__(self, tally: Tally, metrics: MetricsListener, log: JsonLog | None, stop: StopRequest) -> None:
        self._tally, self._metrics, self._stop = tally, metrics, stop
        self.listeners: tuple[Listener, ...] = (tally, metrics, *([log] if log else []))

    def flushed(self, seconds: float) -> None:
        """The recorder has committed rows in so many seconds."""
        self._metrics.flushed(seconds)

    @contextmanager
    def exporting(self) -> Iterator[None]:
        """Export metrics while the block runs. Ray must be up before it and after it: the last numbers count."""
        from orchestrator.ray_backend.prometheus import RayMeters  # only here: Ray reads its settings when imported

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
        """How the launch ends, now."""
        stop, left = self._stop, self._tally.left
        if isinstance(error, Exception):
            reason = f"{type(error).__name__}: {scrubbed(last_line(str(error)))}"
            return self._tally.ending(reason=reason, interrupted=False)
        if left and (stop.signal == signal.SIGTERM or isinstance(error, SystemExit)):  # the latter while Ray starts
            reason = "asked to leave by SIGTERM; the same command goes on"
            return self._tally.ending(reason=reason, interrupted=False)
        asked = f"{stop.asker} asked to stop" if left and stop.asker else None
        by_person = stop.signal is not None or stop.asker is not None or error is not None
        bound = f"{stop.bound}; the same command goes on" if left and stop.bound else None
        return self._tally.ending(reason=stop.reason or asked or bound, interrupted=by_person or stop.bound is not None)


@contextmanager
def watched(
    plan: Plan, store: Storage, settings: WatchSpec, *, cluster: str, stop: StopRequest, say: Callable[[str], None]
) -> Iterator[Watch]:
    """Watch a launch from here to the end of the block, and tell how it ended, errors included.

    Raises:
        ConfigError: a secret that the settings name is not there; before anything has begun.
    """
    name, address = plan.sweep.name, store.address
    disk = store.folder if isinstance(store, FolderStorage) else None
    tally = Tally(len(plan.ahead))
    metrics = MetricsListener(Launch(name, len(plan.ahead), plan.n_skipped, address, cluster, disk))
    log = JsonLog(Path(settings.log), name, say) if settings.log else None
    notify = settings.notify
    told = notify and Notifier(notify, senders_of(notify), tally, sweep=name, store=address, say=say)
    watch = Watch(tally, metrics, log, stop)
    if log:
        log.launched(planned=len(plan.ahead), skipped=plan.n_skipped, store=address)
    if told:
        told.begin()
    error: BaseException | None = None
    try:
        yield watch
    except BaseException as raised:
        error = raised
        raise
    finally:
        ending = watch.ending(error)
        if log:
            log.over(ending)
        if told:
            told.over(ending)
