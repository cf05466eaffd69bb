"""The options that several commands have, for their signatures: `store: options.Store = DEFAULT_STORE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.config.console import DEFAULT_STORE
from trials.escaping import compose

Store = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="DIR",
        help="The results store: a folder, s3://bucket/prefix or gs://bucket/prefix. Several, joined by commas, are "
        "read as one.",
    ),
]
ClusterStore = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="The results store: a folder, s3://bucket/prefix or gs://bucket/prefix.",
        show_default=f"the cluster file's, else {DEFAULT_STORE}",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="WHERE",
        help="`local`: Ray on this machine. `auto`: the Ray cluster of this machine. `inline`: without Ray. "
        "Or a file like those in configs/clusters/.",
        show_default="local; inline where Ray does not start",
    ),
]

Cpus = Annotated[
    int | None,
    typer.Option(
        "--cpus", metavar="N", min=1, max=4_096, help="Cores of this machine to use.", show_default="all it may use"
    ),
]
Gpus = Annotated[
    int | None,
    typer.Option(
        "--gpus", metavar="N", min=0, max=64, help="GPUs of this machine to use; 0 hides them.", show_default="all"
    ),
]

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; repeatable.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Download nothing; fail if a file is missing.")]

Pilot = Annotated[
    bool,
    typer.Option(
        "--pilot", help="Time a few dozen steps of each kind of trial that the store lacks, for the forecast."
    ),
]

StoredSweep = Annotated[
    str | None,
    typer.Option("--sweep", metavar="NAME", parser=compose, help="A sweep of the store.", show_default="the newest"),
]
Task = Annotated[str | None, typer.Option("--task", help="The task.", show_default="by what the files hold")]
MODEL_HELP = "distilbert-base-multilingual-cased or another of the hub (OWNER/NAME@REVISION), a folder, or `starter`."
Model = Annotated[str, typer.Option("--model", help=MODEL_HELP)]
SWEEP_HELP = "The YAML file of the sweep, or the name of an included one."
Sweep = Annotated[Path, typer.Option(metavar="FILE", help=SWEEP_HELP, show_default="starter")]
