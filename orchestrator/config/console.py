"""What all commands share: the consoles, and how errors become messages and exit codes."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichProgress
from rich.segment import Segment

from orchestrator.config.quantities import size
from trials.errors import PermafrostError, is_out_of_memory, one_line
from trials.escaping import escape_line
from trials.outside.plain_files import progress

DEFAULT_STORE = "results"

Say = Callable[[str], None]
"""Takes a message of one or more lines."""

_IN_ASCII = str.maketrans("■□├┤─●┼┊", "#.[]-o+:")  # strips and intervals, where a stream is not UTF-8


class CellOutput(Protocol):
    """The output of a notebook's cell, see `notebook.NotebookOutput`."""

    def say(self, draw: Callable[[Console], None]) -> None:
        """Add something that stays."""

    def drawing(self, draw: Callable[[Console], None]) -> AbstractContextManager[None]:
        """While the block runs, draw below what was said."""


class SafeConsole(Console):
    """A console for names and text from outside: no markup or emoji codes, and control characters are shown escaped.

    Attributes:
        output: The output of a notebook's cell that takes what is printed; None where there is none.
    """

    output: CellOutput | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, as rich does, or show it in a notebook."""
        if self.output is not None:
            self.output.say(lambda console: console.print(*objects, **options))
        else:
            super().print(*objects, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of something to print; rich passes through here whatever it shows, cells of tables included."""
        for segment in super().render(renderable, options):
            text = segment.text
            if not segment.control and not text.isprintable():
                text = "\n".join(map(escape_line, text.split("\n")))
            # rich draws its boxes in ASCII there by itself
            if not segment.control and not text.isascii() and not self.encoding.startswith("utf"):
                text = text.translate(_IN_ASCII).encode(self.encoding, "backslashreplace").decode(self.encoding)
            yield segment if text is segment.text else Segment(text, segment.style)

    def on_broken_pipe(self) -> None:
        """Go on without messages once stderr is closed; if stdout is closed, rich ends the process."""
        if not self.stderr:
            super().on_broken_pipe()
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())

    def say(self, message: str) -> None:
        """Print a message of one or more lines, unwrapped."""
        self.print(message, soft_wrap=True)

    def output_that_fits(self, draws: Sequence[Callable[[], None]], what: str) -> list[str]:
        """The output of each item as long as it fits on two screens, then a line on how to see everything."""
        room, texts = 2 * self.height - 4, list[str]()  # the rest for the command and the prompt
        for draw in draws:
            with self.capture() as printed:
                draw()
            lines = printed.get().splitlines(keepends=True)
            if texts and len(lines) > room:
                break
            left_out = [f"... and {len(lines) - room:,} more lines\n"] if len(lines) > room else []
            texts.append("".join([*lines[:room], *left_out]))
            room -= len(lines)
        rest = f"({len(texts)} of {len(draws)} {what}; all: {typed_command()} | less)\n"
        return texts if len(texts) == len(draws) else [*texts, rest]

    def print_line(self, text: str) -> None:
        """Print one line, unwrapped."""
        self.print(escape_line(text), soft_wrap=True)


stdout = SafeConsole()
stderr = SafeConsole(stderr=True)

INTERNAL, INTERRUPTED, TERMINATED = 70, 130, 143  # EX_SOFTWARE of sysexits.h; 128 + SIGINT, + SIGTERM

NO_MEMORY = (
    "error: this process got no more memory: that of the machine, or of a limit (`ulimit -v`, a container's), is used "
    "up. Finished trials are in the store. Raise the limit, or end other programs, and run the same command again."
)
# What a file of the caller may be that no code of ours looked at first, and the exit code.
_OF_FILES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT), 3),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR), 2),
}
_STOPPED = "stopped; finished trials are in the store. Run the same command to resume."


def command_group(about: str) -> typer.Typer:
    """A group of commands, which shows its help where none is named."""
    group = typer.Typer(help=about, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    group.callback()(lambda: None)  # else a group of one command would be that command
    return group


def say(message: str) -> None:
    """Print a message of one or more lines on stderr, unwrapped."""
    stderr.say(message)


class Debugging:
    """Whether the command of this process was given `--debug`."""

    is_on = False


debugging = Debugging()


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turn an exception of the block into a message on stderr and the public exit code; `--debug` shows it."""
    try:
        yield
    except KeyboardInterrupt as error:
        say(_STOPPED)
        raise typer.Exit(INTERRUPTED) from error
    except SystemExit as error:
        if not isinstance(error.code, signal.Signals):
            raise
        say(_STOPPED)
        raise typer.Exit(128 + error.code) from error
    except BrokenPipeError as error:  # who reads what was asked for, as `head`, has read enough
        stdout.on_broken_pipe()
        raise typer.Exit(1) from error
    except Exception as error:
        if debugging.is_on or isinstance(error, typer.Exit):
            raise
        message, code = _ending(error)
        say(message)
        raise typer.Exit(code) from error


def _ending(error: Exception) -> tuple[str, int]:
    """The message for an error that ends a command, and the exit code."""
    if is_out_of_memory(error):
        return NO_MEMORY, 1
    if isinstance(error, PermafrostError):
        return _with_count(str(error)), error.exit_code
    if isinstance(error, OSError) and error.errno in _OF_FILES and error.filename is not None:
        return f"error: {one_line(str(error.filename))}: {error.strerror}.", _OF_FILES[error.errno]
    what = f"{type(error).__name__}: {one_line(str(error))}"
    return f"internal error: {what}. Run it again with --debug and report the traceback.", INTERNAL


def _with_count(message: str) -> str:
    """An error message, with the number of its problems if it has several: one of several lines of a file is one."""
    problems = _combine(message.split("\n"))
    message = "\n".join(problems)
    if len(problems) == 1:
        return f"error: {message}"
    return f"{'many' if ' ... and ' in f' {problems[-1]}' else len(problems)} errors:\n{message}"


_AT_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+): (?P<what>.+)")
_MORE = re.compile(r"\.\.\. and (\d+) more broken lines\.")  # where not all are listed
_MOST_NAMED = 5  # lines of a file


def _combine(problems: Sequence[str]) -> list[str]:
    """The problems, in which those with the same text in one file are combined.

    `x.csv:2: a row has 5 columns, the header has 2. Fix this row. Likewise lines 3, 4, 5, 6, 7 and 74 more.`
    """
    causes: dict[tuple[str, str], list[str]] = {}
    more = next((int(found[1]) for problem in problems if (found := _MORE.fullmatch(problem))), 0)
    for problem in problems:
        if place := _AT_LINE.fullmatch(problem):
            causes.setdefault((place["file"], place["what"]), []).append(place["line"])
        elif not (more and len(causes) == 1 and _MORE.fullmatch(problem)):
            causes[problem, ""] = []
    unlisted = more if len(causes) == 1 else 0
    return [f"{file}:{lines[0]}: {what}{_further_lines(lines[1:], unlisted)}" if lines else file
            for (file, what), lines in causes.items()]  # fmt: skip


def _further_lines(lines: Sequence[str], unlisted: int) -> str:
    """` Likewise lines 3, 4 and 9 more.`; empty if there is no further line."""
    named, others = ", ".join(lines[:_MOST_NAMED]), max(len(lines) - _MOST_NAMED, 0) + unlisted
    return (
        f" Likewise line{'s' * (len(lines) + unlisted > 1)} {named}{f' and {others} more' if others else ''}."
        if lines
        else ""
    )


@contextmanager
def download_progress(console: SafeConsole, fetched: Callable[[str], None] = lambda name: None) -> Iterator[None]:
    """Show downloads, and large files whose digest is taken, while the block runs: a bar per file on a terminal,
    otherwise a line per file with its size, where the server says it; `fetched` hears the name of each download.
    """
    columns = [DownloadColumn(), TransferSpeedColumn()]
    with step_progress(console, columns, lambda name, total: name + (f" ({size(total)})" if total else "")) as show:

        def hear(verb: str, name: str, done: int, total: int | None) -> None:
            if verb == "download":
                fetched(name)
            show(f"{verb} {name}", done, total)

        before = progress.set(hear)
        try:
            yield
        finally:
            progress.reset(before)


@contextmanager
def step_progress(
    console: SafeConsole,
    columns: Sequence[ProgressColumn] = (),
    line: Callable[[str, int | None], str] = lambda name, total: f"{name}: {total}",
) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show how much is done while the block runs: a bar for each name on a terminal, otherwise a line for each."""
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), *(columns or [MofNCompleteColumn()])]
    tasks: dict[str, TaskID] = {}
    with RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
                if not console.is_terminal:
                    console.say(line(name, total))
            bars.update(tasks[name], completed=done, total=total)

        yield show


def typed_command() -> str:
    """The command line that started this process, ready to be pasted into a shell."""
    return shlex.join(sys.orig_argv if _runs_a_module() else [_script(), *sys.argv[1:]])


def sibling_command(name: str, *arguments: str) -> str:
    """Another command of the console script, also where this process is `python -m orchestrator.launch`: that would
    not find our packages in a folder with an `orchestrator.py`. Where nothing is installed, a module of that script.
    """
    program = [_script()]
    if _runs_a_module():
        python = sys.orig_argv[0]
        script = str(Path(python).with_name("permafrost"))
        program = [script] if shutil.which(script) else [python, "-m", "dashboards.cli"]
    return shlex.join([*program, name, *arguments])


def _runs_a_module() -> bool:
    return sys.modules["__main__"].__spec__ is not None


def _script() -> str:
    """The console script: its name alone where the shell finds the same file by it, else its path."""
    script = Path(sys.argv[0])
    return script.name if shutil.which(script.name) == str(script) else str(script)
