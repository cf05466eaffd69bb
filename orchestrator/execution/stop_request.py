"""Asking a running sweep to stop: by Ctrl-C, by SIGTERM, by its driver, at a bound, or through its store.

A request in the store is an object `<store>/stops/<sweep>/<when>-<token>.txt`, so that anybody who can write there can
stop a sweep wherever its driver runs.
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

FOLDER, LOOK_S = "stops", 2.0


class StopRequest:
    """Once asked, running trials end at their next evaluation and no new one starts.

    Attributes:
        signal: The signal that asked, or None.
        reason: Why the sweep itself asked, or None.
        asker: Who asked through the store, or None.
        bound: Which bound of the launch was reached, or None.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.reason: str | None = None
        self.asker: str | None = None
        self.bound: str | None = None

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return any(one is not None for one in (self.signal, self.reason, self.asker, self.bound))

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM, `permafrost stop` or a bound; 1 where the sweep gave up."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.asker is None and self.bound is None else 128 + signal.SIGTERM

    @contextmanager
    def on_signals(self, say: Callable[[str], None]) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM ask; the second one stops at once, by KeyboardInterrupt."""

        def ask(number: int, _frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.signal = number
            say("Stopping: running trials go on to their next evaluation. Ctrl-C again stops now.")

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def on_requests(self, store: Storage, sweep: str, say: Callable[[str], None]) -> Iterator[None]:
        """Let requests in a store ask while the block runs. Those that were there before it meant another driver."""
        folder = store.at(FOLDER).at(sweep)
        _take_away(folder)

        def is_asked() -> bool:
            with contextlib.suppress(StoreError, OSError):  # the next look may find the place answering
                for name in folder.files():
                    self.asker = self.asker or folder.read(name).decode(errors="replace")[:200]
            if self.asker is not None:
                say(f"Stopping, as {self.asker} asked: running trials go on to their next evaluation.")
            return self.asker is not None

        try:
            with looking(is_asked, LOOK_S, "stop requests"):
                yield
        finally:
            _take_away(folder)


@contextmanager
def leaving_on_sigterm() -> Iterator[None]:
    """Outside of `StopRequest.on_signals`, too, SIGTERM ends the block in order: by SystemExit with its number.

    That is what Ray does with it while it starts, where it takes the signal for itself. `command.reported` knows it.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def looking(is_over: Callable[[], bool], every_s: float, name: str) -> Iterator[None]:
    """While the block runs ask every so many seconds, in a thread of this name, until the answer is yes."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(every_s) and not is_over():
            pass

    watcher = threading.Thread(target=look, name=name, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(2 * every_s)


def ask_to_stop(store: Storage, sweep: str, asker: str) -> None:
    """Ask whoever runs a sweep in a store to stop it. Raises StoreError: the place cannot be written."""
    store.at(FOLDER).at(sweep).write(f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.txt", asker.encode())


def _take_away(folder: Storage) -> None:
    with contextlib.suppress(StoreError, OSError):
        for name in folder.files():
            folder.delete(name)
