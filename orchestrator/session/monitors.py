"""Connect the monitors of a launch: progress, metrics, log and trackers.

with Watch(plan, store, settings, cluster="local", stop=stop, say=say) as watch:
    recorder = Recorder(results, committed=watch.metrics.flushed)
    with watch.exporting(meters):        # of a backend that has any
        run_sweep(queue, Listeners(recorder, *watch.listeners), ...)
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from orchestrator.config.extras import declared
from orchestrator.execution.events import Listener, last_line
from orchestrator.execution.stop_request import StopRequest
from orchestrator.monitoring.json_log import JsonLog
from orchestrator.monitoring.metrics import MeteredLaunch, Meters, MetricsListener
from orchestrator.monitoring.progress import Ending, Tally
from orchestrator.session.outcome import trials_of
from orchestrator.storage.address import scrubbed
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.watch_spec import WatchSpec
from trials.spec import TrialSpec


class Watched(NamedTuple):
    """A launch as an extra sees it whose function `monitors` makes its monitors."""

    settings: WatchSpec
    sweep: str
    results: ResultStore
    say: Callable[[str], None]


class Monitor(Listener):
    """A listener that hears how a launch begins and ends, too."""

    def launched(self, *, skipped: int) -> None:
        """The launch begins; the store has `skipped` of its trials already."""

    def over(self, trials: Callable[[], Sequence[TrialSpec]], ending: Ending) -> None:
        """The launch has ended; `trials` gives all trials of the sweep, for which the store may have to be read."""


def _monitors(launch: Watched) -> Iterator[Monitor]:
    for keys, module in declared("MONITORS").items():
        if any(getattr(launch.settings, key) is not None for key in keys):
            yield from import_module(module).monitors(launch)


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
        """The launch begins.

        Raises:
            ConfigError: A tracker cannot be used.
        """
        name, address, n_ahead = plan.sweep.name, store.address, len(plan.ahead)
        disk = store.folder if isinstance(store, FolderStorage) else None
        self._plan, self._store, self._stop = plan, store, stop
        self.tally = Tally(n_ahead)
        self.metrics = MetricsListener(MeteredLaunch(name, n_ahead, plan.n_skipped, address, cluster, disk))
        self._log = JsonLog(Path(settings.log), name, say) if settings.log else None
        self._monitors = list(_monitors(Watched(settings, name, ResultStore(store), say)))
        logs = [self._log] if self._log else []
        self.listeners: tuple[Listener, ...] = (self.tally, self.metrics, *logs, *self._monitors)
        if self._log:
            self._log.launched(planned=n_ahead, skipped=plan.n_skipped, store=address)
        for monitor in self._monitors:
            monitor.launched(skipped=plan.n_skipped)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.over(error)

    def over(self, error: BaseException | None) -> None:
        """Report how the launch ends, with the error if there is one."""
        ending = self.ending(error)
        if self._log:
            self._log.over(ending)
        for monitor in self._monitors:
            monitor.over(lambda: trials_of(self._plan, ResultStore(self._store)), ending)

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
