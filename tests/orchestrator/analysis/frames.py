"""Tidy frames for the tests: trials of a sweep whose differences to the baseline are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.decide import Decision, with_verdicts
from orchestrator.analysis.trial_frame import with_costs
from trials.draft import freeze_of_label
from trials.spec import FreezeSpec, TrialSpec

Floats = npt.NDArray[np.float64]
SIZE = 6  # encoder layers


def at_tolerance(of: Decision, tolerance: float) -> Decision:
    """The decisions at another tolerance, in points."""
    plan = replace(of.plan, tolerance=tolerance)
    return replace(of, plan=plan, table=with_verdicts(of.table, plan, of.baseline))


def trials(scores: Mapping[str, Sequence[float]], **columns: Any) -> pd.DataFrame:
    """One group; scores by freeze label, seeds 0, 1, ...; "none" is the baseline. `columns` hold for all rows."""
    rows = [_row(label, seed, score) for label, found in scores.items() for seed, score in enumerate(found)]
    frame = pd.DataFrame(rows, columns=list(_row("none", 0, 0.5)))
    return with_costs(frame).assign(**columns)


def sweep(rng: np.random.Generator, losses: Mapping[str, float], n: int, spread: float = 0.01) -> pd.DataFrame:
    """Scores with normal noise whose mean differs from the baseline's by `losses`, by freeze label."""
    base = 0.9 + 0.01 * rng.standard_normal(n)
    scores = {label: base - loss + spread * rng.standard_normal(n) for label, loss in losses.items()}
    return trials({"none": base.tolist()} | {label: found.tolist() for label, found in scores.items()})


def with_dev_sentences(
    frame: pd.DataFrame, rng: np.random.Generator, n: int = 400, spread: float = 0.1
) -> pd.DataFrame:
    """The frame with contributions of `n` sentences: around the score, the same deviations but for a share in all rows.

    Between a setting and its baseline a sentence differs by `spread` (standard deviation).
    """
    shared = rng.standard_normal(n)
    by_cell = {cell: shared + spread / np.sqrt(2) * rng.standard_normal(n) for cell in frame["cell"].unique()}
    values = [
        by_cell[cell] - by_cell[cell].mean() + score for cell, score in zip(frame["cell"], frame["score"], strict=True)
    ]
    return frame.assign(sentences=pd.Series(values, index=frame.index, dtype=object))


def row_of(spec: TrialSpec, score: float, **columns: Any) -> dict[str, Any]:
    """The row of a completed trial."""
    return {"trial_id": spec.trial_id, "state": "completed", "best_score": score, "device": "cpu"} | columns


def freeze_of(label: str) -> FreezeSpec:
    """What a label freezes in an encoder of `SIZE` layers."""
    freeze = freeze_of_label(label, SIZE)
    assert freeze is not None, label
    return freeze


def _row(label: str, seed: int, score: float) -> dict[str, Any]:
    depth = 0 if label == "none" else int(label.partition("+")[0].split()[1])
    embeddings = label.endswith("+E")
    return {
        "trial_id": f"{label}/{seed}",
        "state": "completed",
        "cell": label,
        "baseline": "none",
        "group": "tagging",
        "metric": "accuracy",
        "setup": "",
        "freeze": label,
        "freeze_spec": freeze_of(label),
        "strategy": "none" if label == "none" else f"{label.split()[0]}_k",
        "depth": depth,
        "n_layers": SIZE,
        "embeddings": embeddings,
        "seed": seed,
        "score": score,
        "trainable_params": 100.0 * (SIZE - depth) + (0 if embeddings else 300) + 10,
        "prefix_s": 1.0 if depth else 0.0,
        "train_s": 10.0 * (SIZE - depth) + 1,
        "peak_memory_bytes": 1e6 * (SIZE - depth + 1),
        "training_flops": 1e12 * (SIZE - depth),
        "energy_j": np.nan,
        "device": "NVIDIA H200",
    }
