"""What every command has: the folder of shipped files, the option `--plugin`, and a word where memory ends.

The list of commands imports this and loads no plug-in.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Annotated, Any

import typer

_PACKAGE = Path(__file__).parents[1]


def configs_folder(name: str) -> Path:
    """A folder of `configs/`: `sweeps`, `clusters` or `published`.

    It is at the top of a checkout, and inside this package in an installed wheel.
    """
    installed = _PACKAGE / "configs"
    return (installed if installed.is_dir() else _PACKAGE.parent / "configs") / name


_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
LEAST_BYTES = {"": 1 << 30, "torch": 3 << 30, "ray": (8 << 30) + 3 * _MEMORY // 10}
"""Of address space (`ulimit -v`): of a command, and of libraries; Ray maps 30 % of the machine's memory."""


def with_plugins(command: Any) -> Any:
    """A command, or a group with its commands, that loads plug-ins first: installed ones, and those of `--plugin`."""
    for inner in getattr(command, "commands", {}).values():
        with_plugins(inner)
    if not hasattr(command, "commands"):
        single = typer.Typer(add_completion=False)
        single.command()(_options)
        command.params.extend(typer.main.get_command(single).params)
    return command


def _load(modules: list[str] | None) -> None:
    from orchestrator.config.console import reported, say
    from trials.plugins.loading import load, load_installed

    with reported(debug=False):
        for problem in load_installed():
            say(f"note    {problem}")
        load(modules or [], [Path()], "--plugin")


def _options(
    _plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            metavar="MODULE",
            help="Load a module with strategies, tasks, metrics, views or statistics of your own; repeatable.",
            callback=_load,
            expose_value=False,
        ),
    ] = None,
) -> None:
    pass


class _LimitedImports(MetaPathFinder):
    """Raises MemoryError instead of importing what would not fit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def find_spec(self, name: str, *_: object) -> None:
        if self._limit < LEAST_BYTES.get(name, 0):
            raise MemoryError


@contextmanager
def memory_in_words() -> Iterator[None]:
    """End this process in words where a command, or a library that it imports, gets no memory.

    With less than `LEAST_BYTES` libraries written in C hang or abort while they are loaded, so they are not.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    try:
        if limit != resource.RLIM_INFINITY:
            _LimitedImports(limit).find_spec("")
            sys.meta_path.insert(0, _LimitedImports(limit))
        yield
    except Exception as error:
        from trials.errors import is_out_of_memory  # not needed by a list of commands

        if not is_out_of_memory(error):
            raise
        from orchestrator.config.console import NO_MEMORY

        sys.stderr.write(f"{NO_MEMORY}\n")
        sys.exit(1)
