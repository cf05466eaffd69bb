"""Connect the monitors of a launch: progress, metrics and log.

with Watch(plan, store, settings, cluster="local", stop=stop, say=say) as watch:
    recorder = Recorder(results, committed=watch.metrics.flushed)
    with watch.exporting(meters):        # of a backend that has any
        run_sweep(queue, Listeners(recorder, *watch.listeners), ...)
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from orchestrator.execution.events import Listener, last_line
from orchestrator.execution.stop_request import StopRequest
from orchestrator.monitoring.json_log import JsonLog
from orchestrator.monitoring.metrics import MeteredLaunch, Meters, MetricsListener
from orchestrator.monitoring.progress import Ending, Tally
from orchestrator.storage.address import scrubbed
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.watch_spec import WatchSpec


class Watch:
    """The monitors of one launch, until the end of the block; they report how it ended, errors included.

    Attributes:
        tally, metrics: Those of its listeners that the session tells more than events.
        listeners: For the driver, after the recorder, so that they report only recorded events.
    """

    def __init__(
        self,
        plan: Plan,
        store: Storage,
        settings: WatchSpec,
        *,
        cluster: str,
        stop: StopRequest,
        say: Callable[[str], None],
    ) -> None:
        """The launch begins."""
        name, address, n_ahead = plan.sweep.name, store.address, len(plan.ahead)
        disk = store.folder if isinstance(store, FolderStorage) else None
        self._stop = stop
        self.tally = Tally(n_ahead)
        self.metrics = MetricsListener(MeteredLaunch(name, n_ahead, plan.n_skipped, address, cluster, disk))
        self._log = JsonLog(Path(settings.log), name, say) if settings.log else None
        logs = [self._log] if self._log else []
        self.listeners: tuple[Listener, ...] = (self.tally, self.metrics, *logs)
        if self._log:
            self._log.launched(planned=n_ahead, skipped=plan.n_skipped, store=address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.over(error)

    def over(self, error: BaseException | None) -> None:
        """Report how the launch ends, with the error if there is one."""
        ending = self.ending(error)
        if self._log:
            self._log.over(ending)

    @contextmanager
    def exporting(self, meters: AbstractContextManager[Meters]) -> Iterator[None]:
        """Export metrics while the block runs. What carries them must outlive it, so that the last values go out."""
        with meters as open_meters, ExitStack() as ended:
            self.metrics.begin(open_meters)
            ended.push(lambda kind, error, at: self.metrics.over(self.ending(error)))
            yield

    def ending(self, error: BaseException | None) -> Ending:
        """How the launch ends, if it ended now."""
        stop, left = self._stop, self.tally.left
        if isinstance(error, Exception):
            reason = f"{type(error).__name__}: {scrubbed(last_line(str(error)))}"
            return self.tally.ending(reason=reason, interrupted=False)
        number = error.code if isinstance(error, SystemExit) else stop.signal  # SystemExit while Ray starts
        if left and isinstance(number, int) and number != signal.SIGINT:
            reason = f"stopped by {signal.Signals(number).name}; run the same command to resume"
            return self.tally.ending(reason=reason, interrupted=False)
        asked = f"{stop.asker} asked to stop" if left and stop.asker else None
        by_person = stop.signal is not None or stop.asker is not None or error is not None
        bound = f"{stop.bound}; run the same command to resume" if left and stop.bound else None
        return self.tally.ending(reason=stop.reason or asked or bound, interrupted=by_person or stop.bound is not None)
