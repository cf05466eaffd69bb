"""The rule that every input is held to: it works, or it is refused with a message; nothing else, and soon."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import typer

from trials.errors import PermafrostError

MOST_LINES, LONGEST_LINE = 60, 3_000  # of a message; beyond it nobody finds the mistake
_FILE_ERRORS = (2, 3, 5)  # exit codes of a wrong setting, of a broken file, and of a trial whose row a file has no more


class Verdict(NamedTuple):
    """What came of an input.

    Attributes:
        word: `works`, `refused` with a message as it should be, or `finding`: anything else.
        text: The message, or what is wrong.
    """

    word: Literal["works", "refused", "finding"]
    text: str = ""


class _TooLongError(BaseException):
    """Not an `Exception`, so that nothing that is tested catches it."""


def judged(action: Callable[[], object], *, limit_s: float) -> Verdict:
    """Run an action, for so many seconds of this process's time, and judge how it ended."""
    started = time.process_time()
    try:
        with _limited(limit_s):
            action()
    except _TooLongError:
        return Verdict("finding", f"hangs: still at it after {limit_s:g} s")
    except PermafrostError as error:
        wrong = _fault(str(error)) or ("" if error.exit_code in _FILE_ERRORS else f"exit code {error.exit_code}")
        verdict = Verdict("finding", f"{wrong}: {str(error)[:300]!r}") if wrong else Verdict("refused", str(error))
    except typer.Exit as error:
        verdict = Verdict("works") if error.exit_code == 0 else Verdict("finding", f"exit code {error.exit_code}")
    except Exception as error:
        return Verdict("finding", f"raises {type(error).__name__}: {str(error)[:300]}")
    else:
        verdict = Verdict("works")
    if (took := time.process_time() - started) > limit_s:  # in one call of a library, which no signal interrupts
        return Verdict("finding", f"hangs: {took:.1f} s")
    return verdict


def _fault(message: str) -> str | None:
    """What is wrong with an error's message."""
    if not message.strip():
        return "the message is empty"
    if any(line.startswith("Traceback") for line in message.split("\n")):
        return "the message holds a traceback"
    lines = message.split("\n")
    if len(lines) > MOST_LINES or max(map(len, lines)) > LONGEST_LINE:
        return f"the message has {len(lines)} lines and {len(message)} characters"
    if not all(map(str.isprintable, lines)):
        return "the message cannot be shown as it is"
    return None


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise in the block after so much of the process's time, which a busy machine does not lengthen."""

    def stop(number: int, frame: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder, to see that reading changed nothing."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
