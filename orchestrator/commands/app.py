"""The console script `permafrost`: every command under one name. Only the command that runs is imported."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import trials
from orchestrator.commands.positions import with_finite_numbers, with_places
from orchestrator.commands.usage_errors import OneLineGroup
from orchestrator.config.command_line import with_common_options
from orchestrator.config.little_memory import memory_in_words
from orchestrator.config.signals import end_with_command

# Panels of the list of commands, in its order.
PANELS = START, RUN, READ, SHARE, OPERATE = "Start here", "Run", "Read", "Share", "Operate"


def _declared(kind: str) -> dict[str, tuple[str, str, str]]:
    """The commands that the folders of `orchestrator/extras` add, which nothing here knows by name.

    Each says in its `__init__.py`, in words, so that nothing is imported before it is asked for, what `COMMANDS` and
    `GROUPS` say here. A folder may be deleted, or all of them.
    """
    spec = find_spec("orchestrator.extras")
    folders = spec.submodule_search_locations if spec else None
    found: dict[str, tuple[str, str, str]] = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(folders or []) if module.ispkg):
        found |= getattr(import_module(f"orchestrator.extras.{name}"), kind, {})
    return found


# Name: (where it is defined, what the list of commands says, its panel). A test compares the second with the command's
# own help.
COMMANDS = {
    "choose": (
        "orchestrator.commands.choose_command:choose",
        "Find out how deep to freeze on your data: plan, run and answer in one command. Run it again to resume.",
        START,
    ),
    "init": (
        "orchestrator.commands.choose_command:init",
        "Write the sweep file that `permafrost choose` would run, with comments, to be edited.",
        START,
    ),
    "train": (
        "orchestrator.commands.model_commands:train",
        "Train the setting that a sweep recommends on all of train, under several seeds, and export the model.",
        SHARE,
    ),
    "launch": (
        "orchestrator.commands.launch_command:launch",
        "Run a sweep. Trials that are complete in the store are not run again.",
        RUN,
    ),
    "plan": (
        "orchestrator.commands.plan_command:plan",
        "Show what a sweep would run, and forecast its time and cost. Nothing is written.",
        RUN,
    ),
    "doctor": (
        "orchestrator.commands.doctor_command:doctor",
        "Check that this machine is ready: Python, torch and CUDA, the store, the disk, and that Ray starts.",
        START,
    ),
    "status": ("orchestrator.commands.status_command:status", "Show the sweeps of a store and their progress.", RUN),
    "stop": (
        "orchestrator.commands.stop_command:stop",
        "Stop all drivers of a sweep. Running trials continue to their next evaluation; launch it again to resume.",
        RUN,
    ),
    "answer": (
        "orchestrator.commands.answer_command:answer",
        "Say what to freeze, for each corpus, model and train size, or what to run next.",
        READ,
    ),
    "export model": (
        "orchestrator.commands.model_commands:export_model",
        "Write the model of a trial, with the weights of its best epoch, as a standard folder.",
        SHARE,
    ),
} | _declared("COMMANDS")
GROUPS = {
    "export": (
        "orchestrator.commands.app:exports",
        "Write what a store holds for others: a figure, a model, tables, or runs of a tracker.",
        SHARE,
    ),
    "data": ("orchestrator.commands.data:app", "Fetch and check corpora.", START),
} | _declared("GROUPS")


class LazyCommands(OneLineGroup):
    """The commands of `COMMANDS` and `GROUPS`. Listing them imports none.

    Attributes:
        prefix: What the full names of its commands begin with.
    """

    prefix = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        commands = sorted((COMMANDS | GROUPS).items(), key=lambda item: PANELS.index(item[1][2]))
        for full_name, (_, summary, panel) in commands:
            name = full_name.removeprefix(self.prefix)
            if full_name.startswith(self.prefix) and " " not in name:
                shown_in = None if self.prefix else panel
                self.add_command(TyperCommand(name, help=summary, rich_help_panel=shown_in))

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Run the command that `args` name or, without them, this process's command line."""
        if args is not None:
            return super().main(args, *others, **options)
        end_with_command()
        with memory_in_words():
            return super().main(args, *others, **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments name."""
        if args[0] in self.commands:
            self.add_command(load_command(self.prefix + args[0]))
        return super().resolve_command(ctx, args)


class LazyExports(LazyCommands):
    """The commands of the group `export`."""

    prefix = "export "


def load_command(name: str) -> Any:
    """Import a command."""
    module, _, attribute = (COMMANDS | GROUPS)[name][0].partition(":")
    loaded = getattr(import_module(module), attribute)
    if not isinstance(loaded, typer.Typer):
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command()(with_finite_numbers(with_places(loaded)))
        loaded = single
    command = typer.main.get_command(loaded)
    command.name = name.split()[-1]
    return with_common_options(command)


app = typer.Typer(
    cls=LazyCommands,
    name="permafrost",
    help="How much of a pretrained encoder can be frozen before quality suffers, and what does that save?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def run(name: str) -> None:
    """Run a command as this process: `python -m orchestrator.launch`."""
    sys.argv.insert(1, name)
    app(prog_name="permafrost")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"permafrost {trials.__version__}")
        raise typer.Exit


exports = typer.Typer(
    cls=LazyExports,
    help=GROUPS["export"][1],
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@exports.callback()
def _no_options() -> None:
    pass


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass
