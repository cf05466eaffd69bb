"""What all commands share: the consoles, common options, and how errors become messages and exit codes."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from rich.table import Table

from orchestrator.config.quantities import size
from trials.errors import PermafrostError, is_out_of_memory, one_line
from trials.escaping.untrusted_text import composed, escaped
from trials.sources.cache import Progress

if TYPE_CHECKING:
    from orchestrator.config.notebook_output import NotebookOutput

DEFAULT_STORE = "results"


class SafeConsole(Console):
    """A console for names and text from outside: no markup or emoji codes, and control characters are shown escaped.

    Attributes:
        output: The output of a notebook's cell that takes what is printed; None where there is none.
    """

    output: NotebookOutput | None = None

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
            is_safe = segment.control or segment.text.isprintable()
            yield segment if is_safe else Segment("\n".join(map(escaped, segment.text.split("\n"))), segment.style)

    def print_line(self, text: str) -> None:
        """Print one line, unwrapped."""
        self.print(escaped(text), soft_wrap=True)


stdout = SafeConsole()
stderr = SafeConsole(stderr=True)

StoreOption = Annotated[
    str,
    typer.Option(
        "--store", metavar="DIR", help="The results store: a folder, s3://bucket/prefix or gs://bucket/prefix."
    ),
]
ClusterStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="The results store: a folder, s3://bucket/prefix or gs://bucket/prefix.",
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

CpusOption = Annotated[
    int | None,
    typer.Option(
        "--cpus", metavar="N", min=1, max=4_096, help="Cores of this machine to use.", show_default="all it may use"
    ),
]
GpusOption = Annotated[
    int | None,
    typer.Option(
        "--gpus", metavar="N", min=0, max=64, help="GPUs of this machine to use; 0 hides them.", show_default="all"
    ),
]

SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; repeatable.")
]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Download nothing; fail if a file is missing.")]

PilotOption = Annotated[
    bool,
    typer.Option(
        "--pilot", help="Time a few dozen steps of each kind of trial that the store lacks, for the forecast."
    ),
]

StoredSweepOption = Annotated[
    str | None,
    typer.Option("--sweep", metavar="NAME", parser=composed, help="A sweep of the store.", show_default="the newest"),
]
TaskOption = Annotated[str | None, typer.Option("--task", help="The task.", show_default="by what the files hold")]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        help="distilbert-base-multilingual-cased or another of the hub (OWNER/NAME@REVISION), a folder, or `starter`.",
    ),
]
# What somebody says about their data: of `data check`, `choose` and `init`; sweep files have keys of these names.
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", help="columns, conllu, tsv, csv, jsonl or parquet.", show_default="by what the files hold"
    ),
]
WordsOption = Annotated[
    str | None, typer.Option("--words", metavar="COLUMN", help="The column of words: position from 0, or name.")
]
TagsOption = Annotated[
    str | None, typer.Option("--tags", metavar="COLUMN", help="The column of their tags; in CoNLL-U upos or xpos.")
]
TextOption = Annotated[
    str | None, typer.Option("--text", metavar="COLUMN", help="A table's column of texts: name, or position from 0.")
]
PairOption = Annotated[
    str | None, typer.Option("--pair", metavar="COLUMN", help="The column of each pair's second text; `none` for none.")
]
LabelOption = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="A table's column of labels.")]
DocumentOption = Annotated[
    str | None,
    typer.Option(
        "--document",
        metavar="COLUMN",
        help="A table's column that names what a row is a part of: an article, a thread; `none` for none.",
        show_default="one called doc_id, document or the like",
    ),
]
SchemeOption = Annotated[
    str | None,
    typer.Option(
        "--scheme", help="How span tags are written: iob1, iob2, bioes or io.", show_default="by what the files hold"
    ),
]
TrainOption = Annotated[
    list[str] | None,
    typer.Option("--train", metavar="FILE", help="The file of the train split; repeat it for several. Also in DATA."),
]
DevOption = Annotated[list[str] | None, typer.Option("--dev", metavar="FILE", help="Likewise, of the dev split.")]
TestOption = Annotated[list[str] | None, typer.Option("--test", metavar="FILE", help="Likewise, of the test split.")]

SweepOption = Annotated[
    Path, typer.Option(metavar="FILE", help="The YAML file of the sweep.", show_default="starter.yaml")
]

INTERNAL, INTERRUPTED, TERMINATED = 70, 130, 143

_NO_MEMORY = (
    "error: this process got no more memory: that of the machine, or of a limit (`ulimit -v`, a container's), is used "
    "up. Finished trials are in the store. Raise the limit, or end other programs, and run the same command again."
)
_STOPPED = "stopped; finished trials are in the store. Run the same command to resume."


def command_group(about: str) -> typer.Typer:
    """A group of commands, which shows its help where none is named."""
    return typer.Typer(help=about, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def number_table(head: Sequence[str], rows: Mapping[str, Sequence[int]]) -> Table:
    """A row of numbers for each name, under their heads."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in head:
        table.add_column(name, justify="left" if name == head[0] else "right", no_wrap=True)
    for name, figures in rows.items():
        table.add_row(name, *(f"{n:,}" for n in figures))
    return table


def say(message: str) -> None:
    """Print a message of one or more lines on stderr, unwrapped."""
    stderr.print(message, soft_wrap=True)


@contextmanager
def reported(*, debug: bool) -> Iterator[None]:
    """Turn an exception of the block into a message on stderr and the public exit code."""
    try:
        yield
    except PermafrostError as error:
        if debug:
            raise
        say(_told(str(error)))
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
        if is_out_of_memory(error):
            say(_NO_MEMORY)
            raise typer.Exit(1) from error
        what = f"{type(error).__name__}: {one_line(str(error))}"
        say(f"internal error: {what}. Run it again with --debug and report the traceback.")
        raise typer.Exit(INTERNAL) from error


def _told(message: str) -> str:
    """A message under its number of problems, if it has several."""
    problems = message.split("\n")
    if len(problems) == 1:
        return f"error: {message}"
    return f"{'many' if ' ... and ' in f' {problems[-1]}' else len(problems)} errors:\n{message}"


@contextmanager
def download_progress() -> Iterator[Progress]:
    """Show downloads on stderr while the block runs: a bar per file on a terminal, otherwise a line per file
    with its size, where the server says it.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with _bars(columns, lambda name, total: f"download {name}" + (f" ({size(total)})" if total else "")) as progress:
        yield progress


@contextmanager
def step_progress() -> Iterator[Progress]:
    """Show on stderr how many steps are done while the block runs: a bar on a terminal, otherwise a line per kind."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with _bars(columns, lambda name, total: f"{name}: {total}") as progress:
        yield progress


@contextmanager
def _bars(columns: Sequence[ProgressColumn], line: Callable[[str, int | None], str]) -> Iterator[Progress]:
    """A bar for each name on a terminal, otherwise a line for each."""
    tasks: dict[str, TaskID] = {}
    with RichProgress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bars:

        def progress(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
                if not stderr.is_terminal:
                    say(line(name, total))
            bars.update(tasks[name], completed=done, total=total)

        yield progress


def typed_command() -> str:
    """The command line that started this process, ready to be pasted into a shell."""
    return shlex.join(sys.orig_argv if _runs_a_module() else [_script(), *sys.argv[1:]])


def sibling_command(name: str, *arguments: str) -> str:
    """Another command of the console script, also where this process is `python -m orchestrator.launch`: that would
    not find our packages in a folder with an `orchestrator.py`.
    """
    program = str(Path(sys.orig_argv[0]).with_name("permafrost")) if _runs_a_module() else _script()
    return shlex.join([program, name, *arguments])


def _runs_a_module() -> bool:
    return sys.modules["__main__"].__spec__ is not None


def _script() -> str:
    """The console script: its name alone where the shell finds the same file by it, else its path."""
    script = Path(sys.argv[0])
    return script.name if shutil.which(script.name) == str(script) else str(script)
