"""The console script `permafrost`: every command under one name. Only the command that runs is imported."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.commands.places import with_places
from orchestrator.config.command_line import memory_in_words, with_plugins
from orchestrator.config.signals import end_with_command

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
        "orchestrator.commands.train_command:train",
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
        "Show what a sweep would run, and forecast its time, energy, memory, disk and cost. Nothing is written.",
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
    "layers": (
        "orchestrator.extras.layer_probing.layers_command:layers",
        "Probe every layer of the untouched encoder, and measure how far training moved it; the store keeps both.",
        RUN,
    ),
    "compare": (
        "orchestrator.extras.published.compare_command:compare",
        "Judge whether the trials of a store reproduce a published study, or say why they cannot be compared.",
        READ,
    ),
    "reproduce": (
        "orchestrator.commands.launch_command:reproduce",
        "Run one trial again, without writing to the store, and compare every number that it computes.",
        READ,
    ),
    "export model": (
        "orchestrator.commands.export_model:export_model",
        "Write the model of a trial, with the weights of its best epoch, as a standard folder.",
        SHARE,
    ),
    "export tables": (
        "orchestrator.extras.store_care.store_command:export_",
        "Export the tables for other programs, without duplicates, with a description of each column.",
        SHARE,
    ),
    "export store": (
        "orchestrator.extras.store_care.store_command:export_store_",
        "Write a compact copy of a store for others, without weights and without the folders of this machine.",
        SHARE,
    ),
    "export mlflow": (
        "orchestrator.extras.trackers.export_command:mlflow",
        "Write one run per trial to MLflow, nested under one of the sweep; runs of an earlier export are updated.",
        SHARE,
    ),
    "export tensorboard": (
        "orchestrator.extras.trackers.export_command:tensorboard",
        "Write scalars and hparams for TensorBoard, one folder per trial; files of an earlier export are replaced.",
        SHARE,
    ),
    "export wandb": (
        "orchestrator.extras.trackers.export_command:wandb",
        "Write one run per trial for Weights & Biases; runs of an earlier export are replaced.",
        SHARE,
    ),
}
GROUPS = {
    "export": (
        "orchestrator.commands.app:exports",
        "Write what a store holds for others: a figure, a model, tables, or runs of a tracker.",
        SHARE,
    ),
    "data": ("orchestrator.commands.data:app", "Fetch, list and check corpora.", START),
    "store": ("orchestrator.extras.store_care.store_command:app", "Verify, repair, compact and merge stores.", OPERATE),
    "manifests": (
        "orchestrator.extras.kubernetes.manifests_command:app",
        "Write the Kubernetes manifests of a cluster.",
        OPERATE,
    ),
}


class LazyCommands(TyperGroup):
    """The commands of `COMMANDS` and `GROUPS`. Listing them imports none.

    Attributes:
        prefix: What the full names of its commands begin with.
    """

    prefix = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        known = sorted((COMMANDS | GROUPS).items(), key=lambda item: PANELS.index(item[1][2]))
        for full_name, (_, summary, panel) in known:
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
        if name in self.commands:
            self.add_command(load_command(self.prefix + name))
        return super().resolve_command(ctx, args)


class LazyExports(LazyCommands):
    """The commands of the group `export`."""

    prefix = "export "


def load_command(name: str) -> Any:
    """Import a command."""
    module, _, attribute = (COMMANDS | GROUPS)[name][0].partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command()(with_places(found))
        found = single
    command = typer.main.get_command(found)
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
        print(f"permafrost {version('permafrost-sweeps')}")
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
