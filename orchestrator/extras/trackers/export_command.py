"""Write a sweep of a store to a tracker: the same runs as `watch` gives while a sweep runs.

permafrost export mlflow --uri http://mlflow:5000 --experiment freezing --store results
permafrost export tensorboard --dir runs --store results
permafrost export wandb --project freezing --mode offline --store results
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from orchestrator.api.answering import chosen_sweep
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, stderr, stdout, step_progress
from orchestrator.config.quantities import counted
from orchestrator.config.yaml_document import faults
from orchestrator.extras.trackers.live_tracker import TrackerTarget, failure_text, target_of
from orchestrator.extras.trackers.stored_runs import documents_of, replay
from orchestrator.store import open_store
from orchestrator.store.stored_specs import planned_specs
from orchestrator.sweeps.watch_spec import MlflowSpec, WandbSpec, check_installed
from trials.errors import ConfigError, PermafrostError, StoreError

Spec = TypeVar("Spec", bound=BaseModel)


def mlflow(
    uri: Annotated[str, typer.Option("--uri", metavar="URL", help="The tracking server, without credentials.")],
    experiment: Annotated[str, typer.Option("--experiment", metavar="NAME", help="Created if there is none.")],
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
    debug: options.Debug = False,
) -> None:
    """Write one run per trial to MLflow, nested under one of the sweep; runs of an earlier export are updated.

    A user and password, or a token, come from the environment as MLflow reads them, for the server MLFLOW_TRACKING_URI.

    Examples:
        permafrost export mlflow --uri http://mlflow:5000 --experiment freezing --store results

    Exit codes: 0 written, 2 mlflow is not installed or an option is wrong, 3 no store, or the server does not answer,
    5 no such sweep.
    """
    with reported(debug=debug):
        _export(target_of("mlflow", _spec(MlflowSpec, {"uri": uri, "experiment": experiment})), store, sweep)


def tensorboard(
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder for `tensorboard --logdir`.")],
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
    debug: options.Debug = False,
) -> None:
    """Write scalars and hparams for TensorBoard, one folder per trial; files of an earlier export are replaced.

    Examples:
        permafrost export tensorboard --dir runs --store results

    Exit codes: 0 written, 2 tensorboard is not installed, 3 no store, or DIR cannot be written, 5 no such sweep.
    """
    with reported(debug=debug):
        _export(target_of("tensorboard", folder), store, sweep)


def wandb(
    project: Annotated[str, typer.Option("--project", metavar="NAME", help="The project.")],
    mode: Annotated[str, typer.Option("--mode", help="`online`, or `offline` for `wandb sync`.")] = "online",
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
    debug: options.Debug = False,
) -> None:
    """Write one run per trial for Weights & Biases; runs of an earlier export are replaced.

    Offline runs are written below WANDB_DIR, or the current folder. The key comes from WANDB_API_KEY or `wandb login`.

    Examples:
        permafrost export wandb --project freezing --mode offline --store results

    Exit codes: 0 written, 2 wandb is missing or has no API key, 3 no store, or W&B does not answer, 5 no such sweep.
    """
    with reported(debug=debug):
        _export(target_of("wandb", _spec(WandbSpec, {"project": project, "mode": mode})), store, sweep)


def _spec(kind: type[Spec], values: dict[str, str]) -> Spec:
    """Options as their key under `watch`. Raises ConfigError."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(
            [f"--{fault.path[0] if fault.path else 'uri'}: {fault.text}" for fault in faults(error, kind)]
        ) from error


def _export(target: TrackerTarget, store: str, sweep: str | None) -> None:
    check_installed([target.name])
    results = open_store(store)
    plan = chosen_sweep(results, sweep)
    specs = planned_specs(plan)
    documents, n_done = documents_of(results, plan.name, specs), 0
    with step_progress(stderr) as progress:

        def done(_: object) -> None:
            nonlocal n_done
            n_done += 1
            progress("trials", n_done, len(specs))

        try:
            tracker = target.open(plan.name)
            n = replay(results, plan.name, specs, tracker, done)
            tracker.finish(documents)
        except PermafrostError:
            raise
        except Exception as error:  # whatever the tracker's client raises
            raise ExportError(f"{target.name}: {failure_text(error)}. Run it again: no run is doubled.") from error
    stdout.print_line(f"wrote {counted(n, 'trial')} of {plan.name} to {target.name}")


class ExportError(StoreError):
    """A tracker that cannot be reached or written."""
