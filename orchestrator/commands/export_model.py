"""Export the model of a trial as a folder that transformers loads, with a model card.

permafrost export-model --trial 9f2c51d0 --store results -o my-tagger
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.model_card import model_card
from orchestrator.config.console import DEFAULT_STORE, DebugOption, StoreOption, reported, say, stdout
from orchestrator.config.quantities import points
from orchestrator.execution.rerun import find_trial, rerun
from orchestrator.store import open_store
from trials.errors import ConfigError
from trials.record import EpochRecord


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

    A sweep stores scores, not weights, so the trial is trained again; on a CPU the result is bit-identical.

    Examples:
        permafrost export-model --trial 9f2c51d0 -o my-tagger
    """
    with reported(debug=debug):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"{out} already exists. Choose a new folder with -o.")
        results = open_store(store)
        spec, row = find_trial(results, trial)
        say(f"rerun   {spec.label}: the store has no weights, so the trial is trained again")
        rows, trained = rerun(spec, row, lambda record: say(_line(record)))
        score = max(r["score"] for r in rows)
        if score != row["best_score"]:
            stored = points(row["best_score"], 4)
            say(f"note    the dev score is {points(score, 4)}, in the store {stored}; the card has both")

        from trials.export import export_model as write_model

        write_model(spec, trained, out, model_card(spec, row, results, score=score, licence=licence))
        stdout.print(f"model   {out.resolve()}", markup=False, highlight=False, soft_wrap=True)


def _line(record: EpochRecord) -> str:
    return f"epoch   {record.epoch:g}  score {points(record.score, 4)}"
