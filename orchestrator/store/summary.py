"""What a sweep found, a cell at a time: pure functions on the store's trial rows."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orchestrator.store.schema import State
from trials.errors import StoreError
from trials.spec import TrialSpec
from trials.tasks import TASKS

Row = dict[str, Any]
Group = tuple[str, str, str, int]  # objective group: task, metric, corpus, train size; scores compare inside it only


@dataclass(frozen=True)
class Cell:
    """The replicates of one cell. Only completed trials enter a mean.

    Attributes:
        spec: Its first replicate as the sweep declares it.
        planned: Replicates of the sweep.
        states: How those that have ended did.
        score_mean, score_std: Best dev score over seeds, and its standard deviation (n-1); None without enough.
        test_mean: Test score over seeds.
        train_s: Mean training time.
        total_params, trainable_params: Counts.
        saved_params: Share of the parameters that need not be trained.
        saved_train: Share of the baseline's training time saved; None without a baseline on the same device.
    """

    spec: TrialSpec
    planned: int
    states: Counter[str]
    score_mean: float | None = None
    score_std: float | None = None
    test_mean: float | None = None
    train_s: float | None = None
    total_params: int | None = None
    trainable_params: int | None = None
    saved_params: float | None = None
    saved_train: float | None = None

    @property
    def n(self) -> int:
        """Completed replicates."""
        return self.states[State.COMPLETED]


# Of a trial's row: the others, its spec and versions among them, take most of the time to read.
_COLUMNS = [
    "trial_id", "state", "best_score", "test_score", "train_s", "total_params", "trainable_params", "device",
]  # fmt: skip


def summarise(specs: Sequence[TrialSpec], trials: pa.Table) -> list[Cell]:
    """The cells of a sweep in its order, from the rows of `ResultStore.trials`."""
    rows = {row["trial_id"]: row for row in trials.select(_COLUMNS).to_pylist()}
    replicates: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        replicates.setdefault(spec.cell_id, []).append(spec)
    found = {cell: [rows[s.trial_id] for s in group if s.trial_id in rows] for cell, group in replicates.items()}
    return [_cell(group, found[cell], found.get(group[0].baseline_id, ())) for cell, group in replicates.items()]


def varying_settings(specs: Iterable[TrialSpec]) -> list[str]:
    """The dotted settings, other than those every table shows, in which the cells of a sweep differ."""
    found = [_settings(spec) for spec in specs]
    keys = dict.fromkeys(key for settings in found for key in settings)
    return [key for key in keys if len({repr(settings[key]) for settings in found}) > 1]


def cell_label(spec: TrialSpec, varying: Sequence[str]) -> str:
    """What tells a cell from the others of its sweep: its freeze, and the settings in which they differ."""
    given = ((key.removesuffix(".name").rpartition(".")[2], setting(spec, key)) for key in varying)
    settings = (
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in given
        if value is not None
    )
    return " ".join([spec.freeze.label, *settings])


def objective_group(spec: TrialSpec) -> Group:
    """The trials that a score may be compared with."""
    return spec.task, spec.score or TASKS[spec.task].metrics[0], spec.data.name, spec.train_size


def setting(spec: TrialSpec, key: str) -> Any:
    """The value of a dotted setting; adapters are one setting, by their label."""
    return _settings(spec)[key]


def _settings(spec: TrialSpec) -> dict[str, Any]:
    shown = {"data", "model", "freeze", "seed", "train_size", "task", "score", "lora"}
    lora = spec.lora.label if spec.lora else None
    return {"model.name": spec.model.name, **_flatten(spec.model_dump(mode="json", exclude=shown)), "lora": lora}


def _cell(specs: list[TrialSpec], rows: Sequence[Row], baseline: Sequence[Row]) -> Cell:
    states = Counter(row["state"] for row in rows)
    done = _completed(rows)
    if not done:
        return Cell(specs[0], len(specs), states)
    first = done[0]
    scores = [row["best_score"] for row in done]
    tests = [row["test_score"] for row in done if row["test_score"] is not None]
    return Cell(
        spec=specs[0],
        planned=len(specs),
        states=states,
        score_mean=statistics.fmean(scores),
        score_std=statistics.stdev(scores) if len(scores) > 1 else None,
        test_mean=statistics.fmean(tests) if tests else None,
        train_s=statistics.fmean(row["train_s"] for row in done),
        total_params=first["total_params"],
        trainable_params=first["trainable_params"],
        saved_params=1 - first["trainable_params"] / first["total_params"],
        saved_train=_saved_train(done, _completed(baseline)),
    )


def _completed(rows: Iterable[Row]) -> list[Row]:
    """The completed ones. Raises StoreError where one lacks what a completed trial has: its part was not ours."""
    done = [row for row in rows if row["state"] == State.COMPLETED]
    for row in done:
        for name in ("best_score", "train_s", "trainable_params", "total_params"):
            if row[name] is None or (name == "total_params" and row[name] < 1):
                raise StoreError(
                    f"trial {row['trial_id']!r} of the store: is completed, but its {name} is {row[name]}."
                )
    return done


def _saved_train(rows: Sequence[Row], baseline: Sequence[Row]) -> float | None:
    """Of the mean training time; times of different devices are not compared."""
    if not baseline or len({row["device"] for row in [*rows, *baseline]}) > 1:
        return None
    whole = statistics.fmean(r["train_s"] for r in baseline)
    return 1 - statistics.fmean(r["train_s"] for r in rows) / whole if whole else None


def _flatten(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
