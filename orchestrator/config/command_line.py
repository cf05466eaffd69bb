"""What every command has: the folder of shipped files, and the option `--plugin`.

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
