"""What every command has: the folder of shipped files, and the options `--plugin` and `--debug`.

The list of commands imports this and loads no plug-in.
"""

from __future__ import annotations

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


def with_common_options(command: Any) -> Any:
    """A command, or a group with its commands, with the options that all commands have. It first loads the installed
    plug-ins and those of `--plugin`.
    """
    for inner in getattr(command, "commands", {}).values():
        with_common_options(inner)
    if not hasattr(command, "commands"):
        command.params.extend(common_options())
    return command


def common_options() -> list[Any]:
    """The options of all commands."""
    single = typer.Typer(add_completion=False)
    single.command()(_options)
    return [option for option in typer.main.get_command(single).params if option.name != "help"]


def _load(modules: list[str] | None) -> None:
    from orchestrator.config.console import errors_as_exit_codes, say
    from trials.plugins.loading import load, load_installed

    with errors_as_exit_codes():
        for problem in load_installed():
            say(f"note    {problem}")
        load(modules or [], [Path()], "--plugin")


def _show_tracebacks(wanted: bool) -> None:
    from orchestrator.config.console import debugging

    debugging.is_on = wanted


def _options(
    _debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Show the traceback of an error.",
            callback=_show_tracebacks,
            expose_value=False,
            is_eager=True,
        ),
    ] = False,
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
