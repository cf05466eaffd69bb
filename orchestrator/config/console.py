"""What all commands share: the consoles, common options, and how errors become messages and exit codes."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TransferSpeedColumn
from rich.progress import Progress as RichProgress

from trials.errors import PermafrostError
from trials.sources.cache import Progress

DEFAULT_STORE = "results"

stdout = Console(highlight=False)
stderr = Console(stderr=True, highlight=False)

StoreOption = Annotated[
    str,
    typer.Option("--store", metavar="DIR", help="The results store: a folder, s3://bucket/prefix, gs:// or hdfs://."),
]
ClusterStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="The results store: a folder, s3://bucket/prefix, gs:// or hdfs://.",
        show_default=f"the cluster file's, else {DEFAULT_STORE}",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

ClusterOption = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="WHERE",
        help="`local`: Ray on this machine. `auto`: the Ray cluster of this machine. `inline`: without Ray. "
        "http://HEAD:8265: submit a job to that cluster. Or a file like those in configs/clusters/.",
    ),
]

SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; repeatable.")
]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Download nothing; fail if a file is missing.")]

INTERNAL, INTERRUPTED, TERMINATED = 70, 130, 143

_STOPPED = "stopped; finished trials are in the store. Run the same command to resume."


def say(message: str) -> None:
    """Print a line on stderr, unwrapped and without markup."""
    stderr.print(message, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def reported(*, debug: bool) -> Iterator[None]:
    """Turn an exception of the block into a message on stderr and the public exit code."""
    try:
        yield
    except PermafrostError as error:
        if debug:
            raise
        say(f"error: {error}" if "\n" not in str(error) else f"{str(error).count(chr(10)) + 1} errors:\n{error}")
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt as error:
        say(_STOPPED)
        raise typer.Exit(INTERRUPTED) from error
    except SystemExit as error:
        if error.code != signal.SIGTERM:
            raise
        say(_STOPPED)
        raise typer.Exit(TERMINATED) from error
    except Exception as error:
        if debug or isinstance(error, typer.Exit):
            raise
        say(f"internal error: {type(error).__name__}: {error}. Run it again with --debug and report the traceback.")
        raise typer.Exit(INTERNAL) from error


@contextmanager
def download_progress() -> Iterator[Progress]:
    """Show downloads on stderr while the block runs: a bar per file on a terminal, otherwise a line per file."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    tasks: dict[str, TaskID] = {}
    with RichProgress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bars:

        def progress(name: str, done_bytes: int, total_bytes: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total_bytes)
                if not stderr.is_terminal:
                    say(f"download {name}")
            bars.update(tasks[name], completed=done_bytes, total=total_bytes)

        yield progress


def typed_command() -> str:
    """The command line that started this process, ready to be pasted into a shell."""
    return shlex.join(sys.orig_argv if _runs_a_module() else [_script(), *sys.argv[1:]])


def sibling_command(name: str, *arguments: str) -> str:
    """Another command, called the way this process was: `permafrost NAME ...` or `python -m orchestrator.NAME ...`."""
    program = [sys.orig_argv[0], "-m", f"orchestrator.{name}"] if _runs_a_module() else [_script(), name]
    return shlex.join([*program, *arguments])


def _runs_a_module() -> bool:
    return sys.modules["__main__"].__spec__ is not None


def _script() -> str:
    """The console script: its name alone where the shell finds the same file by it, else its path."""
    script = Path(sys.argv[0])
    return script.name if shutil.which(script.name) == str(script) else str(script)


def run(function: Callable[..., None]) -> None:
    """Run one command as a program of its own: `python -m orchestrator.launch`."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(function)
    app()
