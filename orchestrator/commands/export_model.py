"""A trial's model as a folder that transformers loads, with its card.

permafrost export-model --trial 9f2c51d0 --store results -o my-tagger
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.model_card import model_card
from orchestrator.config.console import DEFAULT_STORE, DebugOption, StoreOption, reported, say, stdout
from orchestrator.execution.rerun import find_trial, rerun
from orchestrator.store import open_store
from trials.errors import ConfigError
from trials.record import EpochRecord


def export_model(
    trial: Annotated[str, typer.Option("--trial", metavar="ID", help="A trial's id, or its beginning.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="A new folder.")],
    store: StoreOption = DEFAULT_STORE,
    licence: Annotated[
        str | None, typer.Option("--licence", help="For the card; by default the encoder's own.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Write a trial's model, with the weights of its best epoch, as a standard folder.

    A sweep keeps scores, not weights, so the trial is trained again: on a CPU to the same bits.

    Examples:
        permafrost export-model --trial 9f2c51d0 -o my-tagger
    """
    with reported(debug=debug):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"{out}: is there already. Give a new folder with -o.")
        results = open_store(store)
        spec, row = find_trial(results, trial)
        say(f"again   {spec.label}: a sweep keeps no weights, so the trial is trained once more")
        rows, trained = rerun(spec, row, lambda record: say(_line(record)))
        score = max(r["score"] for r in rows)
        if score != row["best_score"]:
            say(f"note    the stored dev score is {row['best_score']:.6f}, this run's {score:.6f}; the card says both")

        from trials.export import export_model as write_model

        write_model(spec, trained, out, model_card(spec, row, results, score=score, licence=licence))
        stdout.print(f"model   {out.resolve()}", markup=False, highlight=False, soft_wrap=True)


def _line(record: EpochRecord) -> str:
    return f"epoch   {record.epoch:g}  score {record.score:.6f}"
