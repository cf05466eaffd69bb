"""The model of a trial as a folder that transformers loads."""

from __future__ import annotations

from pathlib import Path

from orchestrator.api.model_card import model_card
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.config.notebook import CONSOLE, notebook_output
from orchestrator.config.quantities import duration, points
from orchestrator.execution.rerun import find_trial, rerun
from orchestrator.store import open_store
from orchestrator.store.stored_tensors import find_weights
from trials.errors import RefusedError


@notebook_output()
def export_model(
    trial: str,
    out: str | Path,
    *,
    store: str = DEFAULT_STORE,
    licence: str | None = None,
) -> Path:
    """Write the model of a trial, with the weights of its best epoch, and a model card; returns the folder.

    Weights that the sweep has stored (`keep: weights`) are used. Otherwise the trial is trained again; on a CPU the
    result is bit-identical.

    Args:
        trial: The name of a completed trial, its id, or its first characters.
        out: A new folder.
        store: The store with the trial.
        licence: The licence for the card; None for the encoder's.

    Raises:
        NothingMatchedError: The store has no such completed trial.
        RefusedError: The folder already exists.
        ModelError: The folder cannot be written, or the stored weights cannot be read.
    """
    folder, results, say = Path(out), open_store(store), CONSOLE.say
    spec, row = find_trial(results, trial)
    refuse_folder(folder)
    weights = find_weights(results.storage, spec.trial_id)
    from trials.export import export_model as write_model
    from trials.export import load_trained

    if weights is not None:
        say(f"weights {spec.label}: {len(weights):,} bytes in the store")
        trained, score = load_trained(spec, weights), row["best_score"]
    else:
        took = f" ({duration(row['train_s'])} when it ran)" if row["train_s"] else ""
        say(f"rerun   {spec.label}: the store has no weights, so the trial is trained again{took}")
        rows, trained = rerun(spec, row, lambda r: say(f"epoch   {r.epoch:g}  score {points(r.score, 4)}"))
        score = max(r["score"] for r in rows)
    if score != row["best_score"]:
        stored = points(row["best_score"], 4)
        say(f"note    the dev score is {points(score, 4)}, in the store {stored}; the card has both")
    card = model_card(spec, row, results, score=score, licence=licence)
    write_model(spec, trained, folder, card)
    return folder.resolve()


def refuse_folder(folder: Path) -> None:
    """Raise RefusedError if a folder exists and is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RefusedError(f"{folder} already exists. Choose a new folder with -o.")
