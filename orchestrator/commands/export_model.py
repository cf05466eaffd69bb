"""Export the model of a trial as a folder that transformers loads, with a model card.

permafrost export model --trial 9f2c51d0 --store results -o my-tagger
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.api.exporting import export_model as write_model
from orchestrator.config.console import (
    DEFAULT_STORE,
    DebugOption,
    StoreOption,
    reported,
    stdout,
)


def export_model(
    trial: Annotated[str, typer.Option("--trial", metavar="ID", help="The id of a trial, or its first characters.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="A new folder.")],
    store: StoreOption = DEFAULT_STORE,
    licence: Annotated[
        str | None, typer.Option("--licence", help="The licence for the card.", show_default="the encoder's")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Write the model of a trial, with the weights of its best epoch, as a standard folder.

    If the sweep has stored the weights (`keep: weights`), they are used. Otherwise the trial is trained again; on a CPU
    the result is bit-identical. `transformers.pipeline` takes the folder, and `hf upload OWNER/NAME FOLDER` pushes it.

    Examples:
        permafrost export model --trial 9f2c51d0 -o my-tagger

    Exit codes: 0 written, 3 no store, 4 the folder exists, 5 no such trial.
    """
    with reported(debug=debug):
        stdout.print_line(f"model   {write_model(trial, out, store=store, licence=licence)}")
