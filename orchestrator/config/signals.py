"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 during a launch: what they do depends on how far it is; none cuts off a commit.

SIGHUP comes from a terminal that is closed, SIGUSR1 from Slurm before it ends a job. Both end a launch as SIGTERM does,
but that SIGHUP stays ignored where it was, as `nohup` has it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
TELLER, TOLD_S = "teller", 0.2  # name of a thread; seconds that a handler waits for its line to be written

_ends_with_command = False


def end_with_command() -> None:
    """Say that this process ends with its command, so that no signal changes how the command has ended.

    The handler of a launch stays up to then; while Python ends, signals are ignored.
    """
    global _ends_with_command
    _ends_with_command = True
    for number in handled_numbers():
        atexit.register(signal.signal, number, signal.SIG_IGN)


def handled_numbers() -> list[signal.Signals]:
    """The signals that a launch handles: all, except a SIGHUP that the parent process has set to be ignored."""
    return [n for n in NUMBERS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]


class Signals:
    """The handler of a launch.

    Before the first trial a signal ends the block `handle_signals` at once, with KeyboardInterrupt or SystemExit, which
    `console.errors_as_exit_codes` handles. While trials run it is a request to stop. Once they have ended it changes
    nothing: their rows are committed, and what was found is shown. A second signal ends the block, during the commit
    after it; a third one does not wait for the commit.
    """

    def __init__(self, ask: Callable[[int], bool]) -> None:
        """`ask` takes a request by its number; False if the sweep is being stopped already."""
        self._ask = ask
        self._say: Callable[[str], None] = lambda line: None
        self._is_over: Callable[[], bool] = lambda: False
        self._stage: Literal["before", "running", "committing", "ended"] = "before"
        self._came = self._is_said = False
        self._error: Exception | None = None
        self._due: int | None = None  # what ends the block once the rows are committed
        self._leaving: int | None = None  # what was raised for

    @contextmanager
    def handle_signals(self, say: Callable[[str], None]) -> Iterator[None]:
        """Handle signals in the block, and in a process that ends with its command up to its end."""
        self._say = say
        before = {number: signal.getsignal(number) for number in handled_numbers()}
        self.take_back()
        try:
            yield
            self._say = lambda line: None  # whoever comes now is too late to be told anything
        except Exception as error:  # of a library that was cut off in the middle of its import, for instance
            if self._leaving is not None:
                self._leave(self._leaving, error)
            raise
        finally:
            if not _ends_with_command and threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)

    def on_trials_start(self, is_over: Callable[[], bool]) -> None:
        """Trials run from now on, until `is_over`. Takes the signals back from a library that has taken them."""
        self._is_over, self._stage = is_over, "running"
        self.take_back()
        if self._leaving is not None:  # a library has swallowed what was raised
            self._leave(self._leaving)

    def on_trials_end(self, *, to_commit: bool = True) -> None:
        """No trial runs any more; `protect_commit` follows, or there is nothing to commit."""
        self._stage = "committing" if to_commit else "ended"

    @contextmanager
    def protect_commit(self) -> Iterator[None]:
        """The block commits the last rows. What wanted to interrupt it is raised after it."""
        try:
            yield
        finally:
            self._stage = "ended"
        if self._due is not None:
            self._leave(self._due)

    def interrupt(self, error: Exception) -> None:
        """Have the main thread raise an error, from a thread, unless no trial runs any more."""
        self._error = error
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def take_back(self) -> None:
        """Handle signals again that a library has taken for itself, or has left to their default.

        Nothing is done in another thread than the main one, in which Python allows it alone.
        """
        if threading.current_thread() is threading.main_thread():
            for number in handled_numbers():
                signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if self._error is not None:
            error, self._error = self._error, None
            if self._stage == "running" and not self._is_over():
                self._stage = "committing"
                raise error
            return
        if self._stage == "before":
            self._leave(number)
        first, self._came = not self._came, True
        if self._stage == "running":
            if not self._is_over():
                if self._ask(number):
                    self._tell(
                        "Stopping: running trials continue to their next evaluation. Press Ctrl-C again to stop now."
                    )
                    return
                self._stage = "committing"  # in the blocks that what is raised leaves
                self._leave(number)
            self._stage = "committing"
        if first:
            self._tell("The trials have ended: saving and showing their results. Press Ctrl-C again to leave now.")
        elif self._stage == "committing" and not self._is_said:
            self._is_said = True
            self._due = number if self._leaving is None else None
            self._tell("Saving the last trials first. Press Ctrl-C again to leave without them.")
        else:
            self._leave(number)

    def _tell(self, line: str) -> None:
        """Say a line from a thread: this one may be in the middle of another, where no stream takes a call."""
        thread = threading.Thread(target=self._say, args=(line,), name=TELLER)
        thread.start()
        thread.join(TOLD_S)  # it waits for the other line to be written, which goes on after this

    def _leave(self, number: int, cause: Exception | None = None) -> NoReturn:
        self._leaving, self._due = number, None
        if number != signal.SIGINT:
            raise SystemExit(signal.Signals(number)) from cause
        raise KeyboardInterrupt from cause


def _leave_terminal() -> None:
    """Stop writing to a terminal that is gone: each line would raise an error."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError, AttributeError):
            if os.isatty(stream.fileno()):  # type: ignore[union-attr]
                with Path(os.devnull).open("w") as nothing:
                    os.dup2(nothing.fileno(), stream.fileno())  # type: ignore[union-attr]
