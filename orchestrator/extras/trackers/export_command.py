"""Write a sweep of a store to a tracker, afterwards or while it runs.

MLFLOW_TRACKING_URI=http://mlflow:5000 permafrost export runs --to mlflow --follow
permafrost export runs --to tensorboard --into runs
WANDB_MODE=offline permafrost export runs --to wandb --into freezing
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Annotated, Literal

import typer

from orchestrator.claims import running_drivers
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, stderr, stdout, step_progress
from orchestrator.config.quantities import amount
from orchestrator.config.yaml_document import shorten
from orchestrator.extras.trackers.tracked_run import Tracker, tracked_run
from orchestrator.storage.address import scrub
from orchestrator.store import ResultStore, open_store
from trials.errors import ConfigError, PermafrostError, StoreError, one_line, require
from trials.spec import TrialSpec

# Of each tracker its class, and variables that are read on import or at every request; a person may set them otherwise.
_TRACKERS: dict[str, tuple[str, dict[str, str]]] = {
    "mlflow": (
        "orchestrator.extras.trackers.mlflow_tracker:MlflowTracker",
        {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        },
    ),
    "tensorboard": ("orchestrator.extras.trackers.tensorboard_tracker:TensorboardTracker", {}),
    "wandb": ("orchestrator.extras.trackers.wandb_tracker:WandbTracker", {"WANDB_ERROR_REPORTING": "false"}),
}
_POLL_S = 10.0


def export_runs(
    to: Annotated[
        Literal["mlflow", "tensorboard", "wandb"], typer.Option("--to", help="`mlflow`, `tensorboard` or `wandb`.")
    ],
    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            metavar="NAME",
            help="The experiment of MLflow, the project of W&B, or the folder for `tensorboard --logdir`.",
            show_default="the sweep's name; for TensorBoard `runs`",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until no driver runs the sweep, or Ctrl-C, which stops no sweep.")
    ] = False,
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
) -> None:
    """Write one run per trial to MLflow, TensorBoard or Weights & Biases; runs of an earlier export are replaced.

    Servers, modes and credentials come from the environment, as each tracker's own client reads them:
    MLFLOW_TRACKING_URI (and user and password, or a token); WANDB_API_KEY or `wandb login`, WANDB_MODE, WANDB_DIR.

    Examples:
        permafrost export runs --to tensorboard --into runs --store results

        permafrost export runs --to mlflow --into freezing --follow

    Exit codes: 0 written, 2 no package, server or key of the tracker, 3 no store or tracker there, 5 no such sweep.
    """
    with errors_as_exit_codes():
        require(to, to, f"--to {to}")
        if to == "mlflow" and not os.environ.get("MLFLOW_TRACKING_URI"):
            raise ConfigError("mlflow: set MLFLOW_TRACKING_URI to the address of the server.")
        results = open_store(store)
        name = results.sweep(sweep).name
        path, environment = _TRACKERS[to]
        for variable, value in environment.items():
            os.environ.setdefault(variable, value)
        try:
            tracker: Tracker = resolve_name(path)(name, into or ("runs" if to == "tensorboard" else name))
            n = _export(results, name, tracker, follow=follow)
        except PermafrostError:
            raise
        except Exception as error:  # whatever the tracker's client raises
            text = shorten(scrub(f"{type(error).__name__}: {one_line(str(error))}"), 200).rstrip(".")
            raise StoreError(f"{to}: {text}. Run it again: no run is doubled.") from error
        stdout.print_line(f"wrote {amount(n, 'trial')} of {name} to {to}")


def _export(results: ResultStore, sweep: str, tracker: Tracker, *, follow: bool) -> int:
    """Write what the store has of a sweep, and with `follow` what it gets; returns how many trials have a run."""
    sent: dict[str, tuple[int, int, bool]] = {}  # of a trial: attempt, evaluations, whether it has ended
    is_running = True
    with step_progress(stderr) as progress:
        try:
            while is_running:
                is_running = follow and bool(running_drivers(results.storage, sweep))  # before its last rows are read
                specs = results.sweep(sweep).specs
                _send(results, sweep, specs, tracker, sent)
                progress("trials", sum(ended for _, _, ended in sent.values()), len(specs))
                if is_running:
                    time.sleep(_POLL_S)
        except KeyboardInterrupt:
            if not follow:
                raise
    tracker.close()
    return len(sent)


def _send(
    results: ResultStore,
    sweep: str,
    specs: Sequence[TrialSpec],
    tracker: Tracker,
    sent: dict[str, tuple[int, int, bool]],
) -> None:
    """Write what a tracker lacks of some trials."""
    ended = {row["trial_id"]: row for row in results.trials().to_pylist()}  # first: what belongs to them is there then
    epochs = results.epochs().drop_columns(["step_losses"])
    ids: list[str] = epochs["trial_id"].to_pylist()
    n_rows, starts = Counter(ids), {trial_id: n for n, trial_id in reversed([*enumerate(ids)])}
    for spec in specs:
        trial_id = spec.trial_id
        end, rows = ended.get(trial_id), epochs.slice(starts.get(trial_id, 0), n_rows[trial_id])
        if end is not None and len(rows) and rows["attempt"][0].as_py() != end["attempt"]:
            end = None  # of an attempt before that of the rows, which ended since
        if end is None and not len(rows):
            continue
        attempt = rows["attempt"][0].as_py() if end is None else end["attempt"]
        has, now = sent.get(trial_id, (0, 0, False)), (attempt, len(rows), end is not None)
        if has == now:
            continue
        run = tracked_run(sweep, spec, rows.to_pylist(), end)
        if has[0] != attempt:
            tracker.begin(run)
        tracker.add(run, run.evaluations[has[1] if has[0] == attempt else 0 :])
        if run.summary is not None:
            tracker.end(run, run.summary)
        sent[trial_id] = now
