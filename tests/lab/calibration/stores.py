"""Simulated losses as a store, as a sweep would have left it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestrator.analysis.rows import Floats
from orchestrator.store import ResultStore, open_store
from orchestrator.store.schema import TABLES
from tests.builders import make_spec
from tests.lab.calibration.decisions import BASELINE
from trials.spec import TrialSpec


def write(folder: Path, losses: Floats) -> tuple[ResultStore, list[TrialSpec]]:
    """A store of (sweeps, 1, seeds, sentences) losses, each sweep on a corpus of its own, and their trials."""
    store = open_store(folder / "store", must_exist=False)
    store.create()
    specs, trials, contributions = [], [], []
    for spec, place, loss in _trials(losses):
        specs.append(spec)
        trials.append(_row(spec, place, BASELINE - float(loss.mean())))
        key = {"trial_id": spec.trial_id, "attempt": 1, "split": "dev"}
        contributions.append({**key, "values": (BASELINE - loss).tolist()})
    for table, rows in (("contributions", contributions), ("trials", trials)):
        store._parts[table].append_table(pa.Table.from_pylist(rows, schema=TABLES[table]))
    return store, specs


def _trials(losses: Floats) -> Iterator[tuple[TrialSpec, int, Floats]]:
    """Spec, 0 for the baseline, and what it loses by sentence."""
    freezes = [{"strategy": "none"}, {"strategy": "first_k", "layers": (0, 1), "embeddings": False}]
    for sweep, of_sweep in enumerate(losses[:, 0]):
        data = {"name": f"world {sweep:04}", "fingerprint": f"{sweep:064x}"}
        for place, freeze in enumerate(freezes):
            for seed, loss in enumerate(of_sweep):
                yield make_spec(data=data, freeze=freeze, seed=seed), place, loss * place


def _row(spec: TrialSpec, place: int, score: float) -> dict[str, Any]:
    return {
        "trial_id": spec.trial_id,
        "attempt": 1,
        "state": "completed",
        "best_score": score,
        "constant_score": 0.1,
        "loss_fall": 0.9,
        "trainable_params": 1000 - place,
        "total_params": 2000,
        "train_s": 1.0,
        "prefix_s": 0.0,
    }
