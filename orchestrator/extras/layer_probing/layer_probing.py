"""What each layer knows before training, and how far training moved it: measured, stored, and read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from orchestrator.api.launching import SweepLike, declared_by
from orchestrator.api.questions import question_of
from orchestrator.config.console import DEFAULT_STORE, step_progress
from orchestrator.config.notebook import CONSOLE
from orchestrator.extras.layer_probing.layer_curves import probe_id, states_key, subset_seed
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.session.bounds import Bounds
from orchestrator.session.session import Launch
from orchestrator.store import ResultStore
from orchestrator.store.stored_tensors import find_weights, weights_of
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.load_sweep import sweep_of_text
from trials.sources.cache import Progress
from trials.spec import TrialSpec
from trials.state import State
from trials.tasks.task import score_name

if TYPE_CHECKING:
    import pandas as pd

    from orchestrator.extras.layer_probing.layer_drift import LayerDrift
    from orchestrator.extras.layer_probing.linear_probe import Probe


SEEDS = 3  # train subsets of data that no sweep declares

Row = dict[str, Any]


@dataclass(frozen=True)
class Layers:
    """What is known of each layer.

    Attributes:
        curves: As of `layer_curves.layer_curves`.
        n_probes, n_drifts: Rows that this call added to the store.
        without_weights: Completed trials whose weights the store lacks.
    """

    curves: pd.DataFrame
    n_probes: int
    n_drifts: int
    without_weights: int


def layers(
    sweep: SweepLike | None = None,
    *,
    data: str | None = None,
    task: str | None = None,
    model: str = "starter",
    store: str = DEFAULT_STORE,
    offline: bool = False,
) -> Layers:
    """Probe the untouched encoder at every depth and measure the drift of stored weights, where the store lacks them.

    Args:
        sweep: The sweep whose data, models, train sizes and seeds are probed, and whose trials' drift is measured.
        data: Instead of a sweep: data as of `choose`, probed on all of train with three train subsets.
        task: The task of that data; None for what the files hold.
        model: The model for it.
        store: A folder, s3://bucket/prefix or gs://bucket/prefix; created if there is none.
        offline: Refuse to download.

    Raises:
        ConfigError, DataError, ModelError, MissingError, StoreError: Says what is wrong and what to do.
    """
    launch = Launch.begin(find_cluster("local"), Bounds(), store, CONSOLE)
    results = launch.results
    if sweep is not None:
        with launch.lookup(offline=offline) as lookup:
            plan = launch.plan(*declared_by(sweep), lookup)
        specs = [*plan.trials, *plan.stand_ins]
    else:
        assert data is not None
        specs = _specs_of(ChooseOptions(data=data, task=task, model=model, offline=offline), launch)
    with step_progress(launch.console) as progress:
        n_probes = sum(1 for _ in _added(results, "probes", _new_probes(specs, results, progress)))
        n_drifts = sum(1 for _ in _added(results, "drifts", _new_drifts(specs, launch, progress)))
    done = completed_with_weights(specs, results)
    from orchestrator.extras.layer_probing.layer_curves import layer_curves  # loads pandas

    trials = results.evidence(specs)
    probes, drifts = results.probes().to_pandas(), results.drifts().to_pandas()
    curves = layer_curves(trials.frame, trials.specs, probes, drifts)
    return Layers(curves, n_probes, n_drifts, sum(not kept for kept in done.values()))


def _specs_of(asked: ChooseOptions, launch: Launch) -> list[TrialSpec]:
    asked.check()
    with launch.lookup(offline=asked.offline) as lookup:
        question = question_of(asked, lookup, launch.say)
        plan = launch.plan(*sweep_of_text(Path("layers"), question.sweep_text()), lookup)
    return [spec for spec in (*plan.trials, *plan.stand_ins) if spec.seed < SEEDS]


def _new_probes(specs: Sequence[TrialSpec], results: ResultStore, progress: Progress) -> Iterator[list[Row]]:
    """The rows of each pass over a corpus, of what the store lacks."""
    there = results.probes().select(["probe_id", "subset_seed"]).to_pylist()
    stored_keys = {(row["probe_id"], row["subset_seed"]) for row in there}
    wanted = {(probe_id(spec), subset_seed(spec)): spec for spec in reversed(specs)}
    passes: dict[str, list[TrialSpec]] = {}
    for key, spec in reversed(wanted.items()):
        if key not in stored_keys:
            passes.setdefault(states_key(spec), []).append(spec)
    if not passes:
        return
    from orchestrator.extras.layer_probing.linear_probe import probe_layers  # loads torch

    for group in passes.values():
        yield [_probe_row(probe) for probe in probe_layers(group, done=progress)]


def _probe_row(probe: Probe) -> Row:
    spec = probe.spec
    return {
        "probe_id": probe_id(spec),
        "subset_seed": subset_seed(spec),
        "n_layers": spec.model.n_layers,
        "task": spec.task,
        "corpus": spec.data.name,
        "model": spec.model.name,
        "metric": score_name(spec.task, spec.score),
        "train_size": spec.train_size,
        "time": datetime.now(UTC),
        **{name: value for name, value in vars(probe).items() if name != "spec"},
    }


def completed_with_weights(specs: Iterable[TrialSpec], results: ResultStore) -> dict[str, bool]:
    """Whether the store has the weights of each completed trial among these."""
    rows = results.trials(["trial_id", "state"])
    done = set(rows.filter(pc.equal(rows["state"], State.COMPLETED.value))["trial_id"].to_pylist())
    kept = weights_of(results.storage)
    return {spec.trial_id: spec.trial_id in kept for spec in specs if spec.trial_id in done}


def _new_drifts(specs: Sequence[TrialSpec], launch: Launch, progress: Progress) -> Iterator[list[Row]]:
    """The rows of each trial with stored weights whose drift the store lacks."""
    results = launch.results
    stored_ids = set(results.drifts()["trial_id"].to_pylist())
    by_id = {spec.trial_id: spec for spec in specs}
    wanted = [i for i, kept in completed_with_weights(specs, results).items() if kept and i not in stored_ids]
    if not wanted:
        return
    from orchestrator.extras.layer_probing.layer_drift import layer_drift  # loads torch

    rows = results.trials(["trial_id", "best_epoch"]).to_pylist()
    best = {row["trial_id"]: row["best_epoch"] for row in rows}
    for n, trial_id in enumerate(wanted):
        progress("drift of stored weights, trials", n, len(wanted))
        content = find_weights(results.storage, trial_id)
        if content is None:
            launch.say(
                f"note    {by_id[trial_id].label}: its stored weights are broken; `permafrost store verify` says how"
            )
            continue
        yield [_drift_row(by_id[trial_id], drift, best[trial_id]) for drift in layer_drift(by_id[trial_id], content)]
    progress("drift of stored weights, trials", len(wanted), len(wanted))


def _drift_row(spec: TrialSpec, drift: LayerDrift, epoch: float) -> Row:
    fixed = {"trial_id": spec.trial_id, "n_layers": spec.model.n_layers, "epoch": epoch, "time": datetime.now(UTC)}
    return fixed | vars(drift)


def _added(results: ResultStore, table: str, row_lists: Iterable[list[Row]]) -> Iterator[Row]:
    """The rows, each list stored as soon as it is known, so that an interrupted call loses one list."""
    for rows in row_lists:
        results.append(table, rows)
        yield from rows
