"""Commands that end with a model: train the recommended setting, or export the model of a trial.

permafrost train -o my-tagger
permafrost train --sweep choose-reviews --tolerance 2 --seeds 5 -o model
permafrost export model --trial 9f2c51d0 --store results -o my-tagger
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.api.model_export import export_model as write_model
from orchestrator.api.training import SEEDS, Keep
from orchestrator.api.training import train as train_setting
from orchestrator.commands.answer_command import ToleranceOption
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, say, stdout


def train(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="A new folder.")],
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
    tolerance: ToleranceOption = None,
    freeze: Annotated[
        str | None,
        typer.Option(
            "--freeze",
            metavar="SETTING",
            help="Take this setting: `none`, `embeddings`, `first 2`, ...",
            show_default="the recommended one",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="How many seeds to train.")] = SEEDS,
    keep: Annotated[Keep, typer.Option("--keep", help="Export the best seed by dev score, or all.")] = "best",
    with_dev: Annotated[
        bool,
        typer.Option("--with-dev", help="Train on dev as well, but for a twentieth of both, which chooses the epoch."),
    ] = False,
    cluster: options.Cluster = None,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    as_json: options.Json = False,
) -> None:
    """Train the setting that a sweep recommends on all of train, under several seeds, and export the model.

    The folder opens in `transformers.pipeline` and has a model card. Run it again to resume.

    Examples:
        permafrost train -o my-tagger

        permafrost train --sweep choose-reviews --tolerance 2 --seeds 5 -o model

    Exit codes: 0 exported, 1 runs failed, 2 none recommended, 3 no store, 4 folder exists, 5 no sweep, 130/143 stopped.
    """
    with errors_as_exit_codes():
        trained = train_setting(
            out, store=store, sweep=sweep, tolerance=tolerance, freeze=freeze, seeds=seeds, keep=keep,
            with_dev=with_dev, cluster=cluster, cpus=cpus, gpus=gpus,
        )  # fmt: skip
        if as_json:
            print(
                json.dumps({"freeze": trained.freeze, "seeds": [asdict(seed) for seed in trained.seeds]}, default=str)
            )
        else:
            for line in trained.lines():
                stdout.print_line(line)
        if trained.folder is not None:
            say(f"model   {trained.folder}")
    raise typer.Exit(trained.exit_code)


def export_model(
    trial: Annotated[
        str, typer.Option("--trial", metavar="ID", help="The name of a trial, its id, or its first characters.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="A new folder.")],
    store: options.Store = DEFAULT_STORE,
    licence: Annotated[
        str | None, typer.Option("--licence", help="The licence for the card.", show_default="the encoder's")
    ] = None,
) -> None:
    """Write the model of a trial, with the weights of its best epoch, as a standard folder.

    If the sweep has stored the weights (`keep: weights`), they are used. Otherwise the trial is trained again; on a CPU
    the result is bit-identical. `transformers.pipeline` takes the folder, and `hf upload OWNER/NAME FOLDER` pushes it.

    Examples:
        permafrost export model --trial 9f2c51d0 -o my-tagger

    Exit codes: 0 written, 3 no store, 4 the folder exists, 5 no such trial.
    """
    with errors_as_exit_codes():
        stdout.print_line(f"model   {write_model(trial, out, store=store, licence=licence)}")
