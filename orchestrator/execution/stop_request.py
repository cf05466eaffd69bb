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
from types import FrameType

from orchestrator.storage.storage import Storage
from trials.errors import StoreError

FOLDER, POLL_S = "stops", 2.0


class StopRequest:
    """Once set, running trials end at their next evaluation and no new trial starts.

    Attributes:
        asker: Who asked through the store, or None.
        bound: Which limit of the launch was reached, or None.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.reason: str | None = None
        self.asker: str | None = None
        self.bound: str | None = None

    @property
    def asked(self) -> bool:
        """Whether the sweep has to stop."""
        return any(one is not None for one in (self.signal, self.reason, self.asker, self.bound))

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM, `permafrost stop` or a limit; 1 if the driver gave up."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.asker is None and self.bound is None else 128 + signal.SIGTERM

    @contextmanager
    def on_signals(self, say: Callable[[str], None]) -> Iterator[None]:
        """Handle Ctrl-C and SIGTERM as requests; the second one stops at once, with KeyboardInterrupt."""

        def ask(number: int, _frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.signal = number
            say("Stopping: running trials continue to their next evaluation. Press Ctrl-C again to stop now.")

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def on_requests(
        self, store: Storage, sweep: str, say: Callable[[str], None], *, is_last: Callable[[], bool] = lambda: True
    ) -> Iterator[None]:
        """Obey requests in a store while the block runs, as every driver of the sweep does.

        Older ones were meant for other drivers. They are deleted if `is_last`: no other driver runs the sweep.
        """
        folder, older = store.at(FOLDER).at(sweep), set[str]()
        with contextlib.suppress(StoreError, OSError):
            older = set(folder.files())
        _delete_requests(folder, is_last)

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
            _delete_requests(folder, is_last)


@contextmanager
def leaving_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the block cleanly, with SystemExit and the signal's number, also outside `StopRequest.on_signals`.

    Ray does the same while it starts, when it handles the signal itself. `console.reported` makes it exit code 143.
    """
    asked = False

    def leave(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        raise SystemExit(number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except Exception as error:  # of a library that was cut off in the middle of its import, for instance
        if asked:
            raise SystemExit(signal.SIGTERM) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


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
    store.at(FOLDER).at(sweep).write(f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.txt", asker.encode())


def _delete_requests(folder: Storage, is_last: Callable[[], bool]) -> None:
    with contextlib.suppress(StoreError, OSError):
        names = folder.files()
        for name in names if names and is_last() else ():
            folder.delete(name)
