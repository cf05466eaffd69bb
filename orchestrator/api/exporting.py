"""The model of a trial as a folder that transformers loads."""

from __future__ import annotations

from pathlib import Path

from orchestrator.api.hub_push import PushTarget, open_target, push_folder, stated_licence
from orchestrator.api.model_card import base_licence, hub_model, model_card
from orchestrator.config.console import DEFAULT_STORE, say
from orchestrator.config.notebook_output import notebook_output
from orchestrator.config.quantities import duration, points
from orchestrator.execution.rerun import find_trial, rerun
from orchestrator.store import open_store
from orchestrator.store.weights import find_weights
from trials.errors import ModelError, RefusedError


@notebook_output()
def export_model(
    trial: str,
    out: str | Path,
    *,
    store: str = DEFAULT_STORE,
    licence: str | None = None,
    push: str | None = None,
    private: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write the model of a trial, with the weights of its best epoch, and a model card; returns the folder.

    Weights that the sweep has stored (`keep: weights`) are used. Otherwise the trial is trained again; on a CPU the
    result is bit-identical.

    Args:
        trial: The id of a completed trial, or its first characters.
        out: A new folder.
        store: The store with the trial.
        licence: The licence for the card; None for the encoder's.
        push: `owner/name` of a repository of the model hub that gets the folder too, in one commit; it is created if
            there is none. The token is that of HF_TOKEN or of the hub's own file.
        private: Whether that repository is private; one that is public is refused.
        overwrite: Replace the files of a repository that holds some.

    Raises:
        ConfigError: `push` is no name on the hub.
        NothingMatchedError: The store has no such completed trial.
        MissingError: There is no token for the hub.
        RefusedError: The folder already exists, or the repository holds files or is public.
        ModelError: The hub refuses or cannot be reached; the folder, once written, stays.
    """
    folder, results = Path(out), open_store(store)
    spec, row = find_trial(results, trial)
    refuse_folder(folder)
    target = open_target(push, private=private, overwrite=overwrite) if push is not None else None
    base = hub_model(spec.model.path)
    if target and base and licence is None:
        licence = base_licence(Path(spec.model.path)) or stated_licence(base)
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
    card = model_card(spec, row, results, score=score, licence=licence, repository=push)
    write_model(spec, trained, folder, card)
    if target is not None:
        _push(folder, target, spec.trial_id)
    return folder.resolve()


def _push(folder: Path, target: PushTarget, trial_id: str) -> None:
    size = sum(path.stat().st_size for path in folder.rglob("*"))
    say(f"push    {size:,} bytes to {target.address}, which is {'private' if target.private else 'public'}")
    try:
        commit = push_folder(folder, target, message=f"Model of trial {trial_id}")
    except ModelError as error:
        later = f"The model is in {folder}; `hf upload {target.name} {folder}` pushes it."
        raise ModelError(str(error), later) from None
    say(f"pushed  {target.address}/tree/{commit}")


def refuse_folder(folder: Path) -> None:
    """Raise RefusedError if a folder exists and is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RefusedError(f"{folder} already exists. Choose a new folder with -o.")
