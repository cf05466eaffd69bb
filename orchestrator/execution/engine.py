"""The contract of an engine: it says what happens to attempts at trials, and does what the loop of a launch decides.

    for event in engine.events(preparing):
        match event:
            case Free(slot):
                engine.start(attempt, slot)
            case Evaluated(attempt, record):
                engine.reply(attempt, goes_on=not record.last)

An attempt that was started is followed by `Started`, by `Evaluated` for each of its records, and by `Failed` if it
raised or its worker was lost. One whose last record came, or that was not to go on, has ended with the reply.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import Attempt
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.plan import Plan
from trials.cache.set_up_work import SetUpWork
from trials.errors import MissingError
from trials.plugins.registry import Registry
from trials.record import EpochRecord, State
from trials.spec import TrialSpec


class EngineStartError(MissingError):
    """An engine that does not start here; another one may."""


@dataclass(frozen=True)
class Free:
    """There is room for a trial: one attempt may be started in the slot before the next event."""

    slot: str


@dataclass(frozen=True)
class Started:
    """A worker has taken an attempt."""

    attempt: Attempt


@dataclass(frozen=True)
class Evaluated:
    """An attempt has yielded a record, and waits for the reply."""

    attempt: Attempt
    record: EpochRecord


@dataclass(frozen=True)
class Failed:
    """An attempt has ended without its last record.

    Attributes:
        error: One line, or a traceback.
        relieved: Whether it ran out of memory that it will share with fewer others when it runs again.
        broken: Why no trial can run any more; None if others can.
    """

    attempt: Attempt
    state: State
    error: str
    relieved: bool = False
    broken: str | None = None


@dataclass(frozen=True)
class Idle:
    """Nothing, a tenth of a second long at most: time for what is due now and then."""


Event = Free | Started | Evaluated | Failed | Idle
Preparing = Callable[[TrialSpec, SetUpWork], None]  # hears how far a trial's set-up is, in the middle of one, too


class Engine(ABC):
    """Runs attempts.

    Attributes:
        dashboard: Address of a page that shows what the engine does; empty if there is none.
    """

    dashboard: str = ""

    @abstractmethod
    def events(self, preparing: Preparing) -> Generator[Event, None, None]:
        """Yield events without end. Closing the iterator stops running trials, after a checkpoint if they save any."""

    @abstractmethod
    def start(self, attempt: Attempt, slot: str) -> None:
        """Start an attempt in a slot that is free."""

    @abstractmethod
    def reply(self, attempt: Attempt, *, goes_on: bool) -> None:
        """Have an attempt that was evaluated go on, or end it."""


@dataclass(frozen=True)
class Job:
    """What an engine is made for.

    Attributes:
        store: Address of the store, in which workers save checkpoints and weights.
        most: Trials that run at most; None for no limit.
        say: Prints a message of one or more lines, unwrapped.
        stop: Its signals take the process back from a library that handles them.
        desert: Ends the process from a thread, where the engine never returns, and keeps all that an orderly end would.
    """

    plan: Plan
    cluster: ClusterSpec
    store: str
    most: int | None
    say: Callable[[str], None]
    stop: StopRequest
    desert: Callable[[Exception], None]


MakesEngine = Callable[[Job], AbstractContextManager[Engine]]
"""Makes an engine for a job, which lasts as long as the block.

Raises:
    ConfigError: What it needs is not there.
    EngineStartError: It does not start on this machine.
"""

ENGINES: Registry[MakesEngine] = Registry("engine")
