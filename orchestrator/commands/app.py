"""The console script `permafrost`: every command under one name. Only the command that runs is imported.

One grammar: what `--store` and `--sweep` name is given by position, too. Commands declare the two options alone; those
with an argument of their own keep to that.

    permafrost launch my.yaml            # a command that runs a sweep: its file
    permafrost answer results first      # a command that reads: the store, then a sweep of it
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo

import trials
from orchestrator.config.command_line import memory_in_words, with_plugins
from orchestrator.config.extras import declared
from orchestrator.config.signals import end_with_command

STORE, SWEEP = "store", "sweep"
SWEEPS = "sweeps"  # the folder of a store with one for each sweep
_AT = "_by_position"


def with_places(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose store and sweep are arguments as well as options.

    The command that is returned raises `typer.BadParameter` if one of them is given twice and differently.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters, places = signature.parameters, _places(signature)
    if not places:
        return command

    @functools.wraps(command)
    def placed(**given: Any) -> Any:
        for name in places:
            by_position = given.pop(name + _AT)
            if by_position is None:
                continue
            if given[name] not in (parameters[name].default, by_position):
                raise typer.BadParameter(f"{by_position} and --{name} {given[name]} name two; give one.")
            given[name] = by_position
            if name == STORE and SWEEP in places and given.get(SWEEP + _AT) is None:
                _refuse_sweep(by_position)
        return command(**given)

    # By keyword, as an option that must be given has no default and would have to come first.
    by_keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters.values()]
    everything = [*(_argument(name, parameters[name]) for name in places), *by_keyword]
    placed.__signature__ = signature.replace(parameters=everything)  # type: ignore[attr-defined]
    placed.__annotations__ = {parameter.name: parameter.annotation for parameter in everything}
    return placed


def _refuse_sweep(word: str) -> None:
    """Raise BadParameter where a word for a store is the name of a sweep of the default store."""
    from orchestrator.config.console import DEFAULT_STORE  # the list of commands imports no more than it shows

    if Path(word).name == word and not Path(word).exists() and (Path(DEFAULT_STORE) / SWEEPS / word).is_dir():
        raise typer.BadParameter(
            f"there is no store {word}, but the store {DEFAULT_STORE} has a sweep of that name: "
            f"`{DEFAULT_STORE} {word}`."
        )


def _places(signature: inspect.Signature) -> list[str]:
    parameters = signature.parameters
    has_own = any(
        isinstance(info, ArgumentInfo) for parameter in parameters.values() for info in get_args(parameter.annotation)
    )
    if has_own:
        return []
    if _runs_a_file(signature):
        return [SWEEP]
    return [name for name in (STORE, SWEEP) if name in parameters] if STORE in parameters else []


def _runs_a_file(signature: inspect.Signature) -> bool:
    return SWEEP in signature.parameters and Path in _types(signature.parameters[SWEEP])


def _types(parameter: inspect.Parameter) -> tuple[Any, ...]:
    kind = get_args(parameter.annotation)[0]
    return get_args(kind) or (kind,)


def _argument(name: str, option: inspect.Parameter) -> inspect.Parameter:
    """The argument that says the same as an option."""
    kind = Path if Path in _types(option) else str
    metavar = "FILE" if kind is Path else name.upper()
    parser = next(info.parser for info in get_args(option.annotation) if isinstance(info, OptionInfo))
    about = typer.Argument(metavar=metavar, parser=parser, help=f"The same as --{name}.", show_default=False)
    annotation: Any = Annotated[Path | None, about] if kind is Path else Annotated[str | None, about]
    return inspect.Parameter(name + _AT, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


# --- The commands


# Panels of the list of commands, in its order.
PANELS = START, RUN, READ, SHARE, OPERATE = "Start here", "Run", "Read", "Share", "Operate"

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
        "orchestrator.commands.launch_command:plan",
        "Show what a sweep would run, and forecast its time and cost. Nothing is written.",
        RUN,
    ),
    "doctor": (
        "orchestrator.commands.operate:doctor",
        "Check that this machine is ready: Python, packages, devices, disk, Ray, data and models, browser.",
        START,
    ),
    "status": ("orchestrator.commands.status_command:status", "Show the sweeps of a store and their progress.", RUN),
    "stop": (
        "orchestrator.commands.operate:stop",
        "Stop all drivers of a sweep. Running trials continue to their next evaluation; launch it again to resume.",
        RUN,
    ),
    "answer": (
        "orchestrator.commands.answer_command:answer",
        "Say what to freeze, for each corpus, model and train size, or what to run next.",
        READ,
    ),
    "reproduce": (
        "orchestrator.commands.launch_command:reproduce",
        "Run one trial again, without writing to the store, and compare every number that it computes.",
        READ,
    ),
    "export model": (
        "orchestrator.commands.model_commands:export_model",
        "Write the model of a trial, with the weights of its best epoch, as a standard folder.",
        SHARE,
    ),
} | declared("COMMANDS")
GROUPS = {
    "export": (
        "orchestrator.commands.app:exports",
        "Write what a store holds for others: a figure, a model, tables, or runs of a tracker.",
        SHARE,
    ),
    "data": ("orchestrator.commands.data:app", "Fetch, list and check corpora.", START),
} | declared("GROUPS")
# Commands and options of earlier versions, with what serves instead.
REMOVED = {
    "launch --simulate": "Launch the search on the store itself: trials that are complete there are not run again.",
    "manifests": "Edit docker/kubernetes/permafrost.yaml and apply it with kubectl.",
    "paper": "`permafrost compare --study NAME` has the table of theirs and ours, with --out its figure, too.",
    "store merge": "Several stores are read as one (`--store a,b`), and `permafrost export store` makes one of them.",
}


class LazyCommands(TyperGroup):
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
        """Run the command that the arguments name; without any, that of this process."""
        if args is not None:
            return super().main(args, *others, **options)
        end_with_command()
        with memory_in_words():
            return super().main(args, *others, **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments name."""
        name = args[0]
        options = [f"{name} {word.partition('=')[0]}" for word in args[1:] if word.startswith("--")]
        for words in (name, " ".join(args[:2]), *options):
            if instead := REMOVED.get(words):
                raise typer.BadParameter(f"`permafrost {words}` was removed. {instead}")
        if name in self.commands:
            self.add_command(load_command(self.prefix + name))
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
        single.command()(with_places(loaded))
        loaded = single
    command = typer.main.get_command(loaded)
    command.name = name.split()[-1]
    return with_plugins(command)


app = typer.Typer(
    cls=LazyCommands,
    name="permafrost",
    help="How much of a pretrained encoder can be frozen before quality suffers, and what does that save?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
