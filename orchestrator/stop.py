"""Asking a running sweep to stop: by Ctrl-C, by SIGTERM, or by whoever holds the request."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Once asked, running trials end at their next evaluation and no new one starts.

    Attributes:
        signal: The signal that asked, or None.
        reason: Why the sweep itself asked, or None.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.reason: str | None = None

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return self.signal is not None or self.reason is not None

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM: interrupted, and resumable. 1 where the sweep gave up."""
        return 1 if self.signal is None else 128 + self.signal

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
