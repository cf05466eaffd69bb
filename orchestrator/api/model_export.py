"""A trial of a store, to be run again, and its model as a folder that transformers loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from orchestrator.api.model_card import model_card
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.config.notebook import CONSOLE, notebook_output
from orchestrator.config.quantities import duration, points
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import stored_spec
from orchestrator.store.stored_tensors import find_weights
from trials.errors import ConfigError, NothingMatchedError, RefusedError
from trials.record import EpochRecord, State
from trials.spec import TrialSpec
from trials.starter import model_path

Row = dict[str, Any]


def find_trial(trial: str, *, store: str = DEFAULT_STORE) -> TrialSpec:
    """The spec of a completed trial, which `trials.run.run_trial` takes, to run it again.

    It names this installation's starter set where the trial's own is gone, as that of a submitted sweep is when the
    cluster has ended; its digests are checked when the trial runs.

    Args:
        trial: Its name as every line prints it, its id, or its first characters.
        store: The store with the trial.

    Raises:
        NothingMatchedError: No completed trial is called so.
        ConfigError: Several are.
        StoreError: The store cannot be read.
    """
    return _stored_trial(open_store(store), trial)[0]


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
    spec, row = _stored_trial(results, trial)
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
        score, trained = _trained_again(
            spec, row, lambda record: say(f"epoch   {record.epoch:g}  score {points(record.score, 4)}")
        )
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


def _stored_trial(store: ResultStore, trial: str) -> tuple[TrialSpec, Row]:
    """The trial that `find_trial` finds, with its row."""
    rows = {row["trial_id"]: row for row in store.trials().to_pylist()}
    row = rows[_only_match(trial.rpartition("_")[2], rows, store.address)]
    if row["state"] != State.COMPLETED:
        raise NothingMatchedError(
            f"trial {row['trial_id']} ended {row['state']}. Only a completed one can be run again."
        )
    return _with_starter_set(stored_spec(row["spec"], row["trial_id"])), row


def _only_match(prefix: str, ids: Iterable[str], store: str) -> str:
    """The id that begins with a prefix."""
    matches = sorted({i for i in ids if i.startswith(prefix)})
    if not matches:
        raise NothingMatchedError(f"no trial {prefix!r} in {store}. `permafrost status --trials` lists them.")
    if len(matches) > 1:
        raise ConfigError(f"{prefix!r} matches {len(matches)} trials: {', '.join(matches[:4])}. Give more digits.")
    return matches[0]


def _with_starter_set(spec: TrialSpec) -> TrialSpec:
    def own_path(path: str) -> str:
        # A store names the starter set by its folder on the machine that ran the trial; here the package has its own.
        own, rest = model_path().parent, path.rpartition("/trials/starter/")[2]
        return str(own / rest) if rest != path and not Path(path).exists() and (own / rest).exists() else path

    splits = {name: tuple(map(own_path, getattr(spec.data, name))) for name in ("train", "dev", "test", "mismatched")}
    changes = {
        "data": spec.data.model_copy(update=splits),
        "model": spec.model.model_copy(update={"path": own_path(spec.model.path)}),
    }
    return spec.model_copy(update=changes)


def _trained_again(spec: TrialSpec, row: Row, on_record: Callable[[EpochRecord], None]) -> tuple[float, Any]:
    """The best score of a trial that runs again with the same number of threads, and what it trained.

    It runs on the kind of device that its row names, whatever this machine has besides; where there is no GPU, on the
    CPU, where its last digits may be others.
    """
    import torch

    from trials.hardware.device import default_device
    from trials.hardware.machine import TORCH_LOCK
    from trials.run import run_trial

    on_cpu = str(row.get("device") or "cpu").startswith("cpu")
    device = torch.device("cpu") if on_cpu else default_device()
    torch.set_num_threads(row.get("threads") or 1)
    # With as many threads and parts of a batch as then: others sum in another order, and the last digits differ.
    trial = run_trial(spec, device=device, predictions="none", accumulation=row.get("accumulation") or 1)
    best = 0.0
    while True:
        try:
            with TORCH_LOCK:
                record = next(trial)
        except StopIteration as end:  # it carries the trained model, which a `for` loop would drop
            return best, end.value
        on_record(record)
        best = max(best, record.score)
