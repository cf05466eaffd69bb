"""What the system costs beside training: trials that do nothing, rows into the store, a large store read."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.analysis.summary import summarise
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.slots import ANY, Share, Slots
from orchestrator.execution.trial_rows import epoch_row, trial_row
from orchestrator.store import ResultStore
from tests.builders import make_record, make_spec
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.state import State

N_EMPTY, ROUNDS, N_ROWS, N_OPTUNA, EPOCHS = 1_000, 5, 200_000, 2_000, 10
LARGE_TRIALS, LARGE_EPOCHS = 20_000, 50  # a million evaluations


def measure() -> dict[str, Any]:
    """Everything; some two minutes."""
    return {"empty_trials": empty_trials(), "rows": rows_into_a_store(), "large_store": a_large_store()}


def specs(n: int) -> list[TrialSpec]:
    """Trials that differ in their seed, ten seeds a cell."""
    return [make_spec(seed=i % 10, train_size=1 + i // 10, optim={"epochs": EPOCHS}) for i in range(n)]


def empty_trials(n: int = N_EMPTY) -> dict[str, Any]:
    """Our driver with its recorder and store, against Ray Tune alone with the same settings, on two slots."""
    from orchestrator.ray_backend.cluster import local_cluster

    with local_cluster() as cluster:
        from tests.lab.benchmarks.empty import ours, raw_ray

        slots = Slots({ANY: Share()}, cluster.nodes).total()
        raw_ray(20, slots)  # the first use of a cluster starts workers
        raw, found = list[float](), list[dict[str, Any]]()
        for _ in range(ROUNDS):
            raw.append(raw_ray(n, slots))
            found.append(ours(specs(n), cluster))
    seconds = [one["seconds"] for one in found]
    return {
        "n": n,
        "ours_s": [round(s, 1) for s in seconds],
        "raw_ray_tune_s": [round(s, 1) for s in raw],
        "overhead_share": round(statistics.median(seconds) / statistics.median(raw) - 1, 3),
        "driver_mb_at": found[0]["driver_mb_at"],
    }


def rows_into_a_store(n: int = N_ROWS, n_optuna: int = N_OPTUNA, rounds: int = 3) -> dict[str, Any]:
    """Epoch rows through the Recorder, trials ended and all, against one value an epoch into Optuna's journal file.

    They take turns, and medians are kept: the first use of either pays for what it loads. Both flush to the disk.
    """
    found = [(_into_a_store(n), _into_optuna(n_optuna)) for _ in range(rounds)]
    ours, optuna = (statistics.median(column) for column in zip(*found, strict=True))
    return {
        "n": n,
        "rows_per_s": round(ours),
        "optuna_values_per_s": round(optuna),
        "times_optuna": round(ours / optuna, 1),
    }


def _into_a_store(n: int) -> float:
    """Rows in a second, until everything is committed and compacted."""
    chosen = specs(n // EPOCHS)
    records = [make_record(step=10 * (e + 1), epoch=e + 1.0, last=e == EPOCHS - 1) for e in range(EPOCHS)]
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(ResultStore(Path(folder) / "store"))
        started = time.perf_counter()
        for spec in chosen:
            recorder.started(spec, 1)
            for record in records:
                recorder.evaluated(spec, record)
            recorder.ended(spec, State.COMPLETED, None)
        recorder.close()
        return (n + len(chosen)) / (time.perf_counter() - started)


def _into_optuna(n: int) -> float:
    """Values in a second."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        storage = optuna.storages.JournalStorage(JournalFileBackend(f"{folder}/journal"))
        study = optuna.create_study(storage=storage)
        started = time.perf_counter()
        for _ in range(n // EPOCHS):
            trial = study.ask()
            for step in range(EPOCHS):
                trial.report(0.5, step)
            study.tell(trial, 0.5)
        return (n + n // EPOCHS) / (time.perf_counter() - started)


def a_large_store(n_trials: int = LARGE_TRIALS, n_epochs: int = LARGE_EPOCHS) -> dict[str, Any]:
    """A million epoch rows of twenty thousand trials: opened, summarised a cell, and read."""
    chosen = specs(n_trials)
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder) / "store")
        for part in _parts(chosen, 2_000):
            store.append("epochs", [row for spec in part for row in _epochs(spec, n_epochs)])
            store.append("trials", [trial_row(spec, 1, [make_record()], State.COMPLETED, None) for spec in part])
        started = time.perf_counter()
        cells = summarise(chosen, ResultStore(store.root).trials().to_pylist())
        summarised = time.perf_counter() - started
        epochs = ResultStore(store.root).epochs()
        read = time.perf_counter() - started - summarised
    return {
        "epoch_rows": len(epochs), "trials": len(chosen), "cells": len(cells),
        "summarised_s": round(summarised, 2), "all_epochs_read_s": round(read, 2),
    }  # fmt: skip


def _parts(chosen: list[TrialSpec], size: int) -> Iterator[list[TrialSpec]]:
    yield from (chosen[start : start + size] for start in range(0, len(chosen), size))


def _epochs(spec: TrialSpec, n: int) -> list[dict[str, Any]]:
    records: list[EpochRecord] = [make_record(step=10 * (e + 1), epoch=e + 1.0) for e in range(n)]
    return [epoch_row(spec, 1, record) for record in records]


def driver_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * resource.getpagesize() / 1e6, 1)
