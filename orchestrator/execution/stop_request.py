"""Requests to stop a running sweep: by Ctrl-C, by SIGTERM, by its driver, at a limit, or through its store.

A request in the store is an object `<store>/stops/<sweep>/<when>-<token>.txt`, so anybody who can write to the store
can stop a sweep, wherever its driver runs.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestrator.claims import running_drivers
from orchestrator.config.signals import Signals
from orchestrator.storage.storage import Storage
from trials.errors import StoreError

FOLDER, POLL_S = "stops", 2.0


class StopRequest:
    """Once set, running trials end at their next evaluation and no new trial starts.

    Attributes:
        asker: Who asked through the store, or None.
        bound: Which limit of the launch was reached, or None.
        signals: Handles Ctrl-C, SIGTERM, SIGHUP and SIGUSR1.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.reason: str | None = None
        self.asker: str | None = None
        self.bound: str | None = None
        self.signals = Signals(self._ask)

    @property
    def asked(self) -> bool:
        """Whether the sweep has to stop."""
        return any(cause is not None for cause in (self.signal, self.reason, self.asker, self.bound))

    @property
    def exit_code(self) -> int:
        """128 and a signal's number, as 143; 143 after `permafrost stop` or at a limit; 1 if the driver gave up."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.asker is None and self.bound is None else 128 + signal.SIGTERM

    def settle(self, *, all_ran: bool, left: int, max_trials: int | None) -> None:
        """Settle why trials stopped: no request counts if all ran, and no limit if `left` is 0.

        Args:
            all_ran: Whether the launch ran all that it may.
            left: Trials that did not end.
            max_trials: Its limit of these.
        """
        if all_ran:
            self.signal = self.asker = None
        if not left:
            self.bound = None
        elif not self.asked and max_trials is not None:
            self.bound = f"--max-trials {max_trials} reached"

    def _ask(self, number: int) -> bool:
        if self.asked:
            return False
        self.signal = number
        return True

    @contextmanager
    def on_requests(self, store: Storage, sweep: str, say: Callable[[str], None]) -> Iterator[None]:
        """Obey requests in a store while the block runs, as every driver of the sweep does.

        Older ones were meant for other drivers. They are deleted where no other driver runs the sweep.
        """
        folder, older = store.subfolder(FOLDER).subfolder(sweep), set[str]()
        with contextlib.suppress(StoreError, OSError):
            older = set(folder.files())
        _delete_requests(store, sweep)

        def is_asked() -> bool:
            with contextlib.suppress(StoreError, OSError):  # the storage may answer at the next poll
                for name in folder.files().keys() - older:
                    self.asker = self.asker or folder.read(name).decode(errors="replace")[:200]
            if self.asker is not None:
                say(f"Stopping at the request of {self.asker}: running trials continue to their next evaluation.")
            return self.asker is not None

        try:
            with polling(is_asked, POLL_S, "stop requests"):
                yield
        finally:
            _delete_requests(store, sweep)


@contextmanager
def polling(is_over: Callable[[], bool], every_s: float, name: str) -> Iterator[None]:
    """While the block runs, call `is_over` at this interval in a thread of this name, until it returns True."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(every_s) and not is_over():
            pass

    watcher = threading.Thread(target=poll, name=name, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(2 * every_s)


def ask_to_stop(store: Storage, sweep: str, asker: str) -> None:
    """Ask all drivers of a sweep to stop. Raises StoreError: the storage cannot be written."""
    store.subfolder(FOLDER).subfolder(sweep).write(f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.txt", asker.encode())


def _delete_requests(store: Storage, sweep: str) -> None:
    with contextlib.suppress(StoreError, OSError):
        folder = store.subfolder(FOLDER).subfolder(sweep)
        names = folder.files()
        for name in names if names and len(running_drivers(store, sweep)) < 2 else ():
            folder.delete(name)
