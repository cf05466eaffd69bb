"""The trials of a plan while they run, as a backend sees them: what hears of them, and how they come to an end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from orchestrator.backends.backend import Work
from orchestrator.claims import Membership
from orchestrator.execution.events import Listener, Listeners
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import Source
from orchestrator.session.bounds import Meter, on_bounds
from orchestrator.session.display import LiveDisplay
from orchestrator.session.outcome import trials_of
from orchestrator.session.so_far import SoFar
from orchestrator.session.terms import Terms


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
