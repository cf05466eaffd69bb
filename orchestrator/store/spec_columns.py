"""What a trial's row says of its spec, and the same for rows that older versions wrote without it.

Readers group rows by `cell_id`, pair them by `seed_key`, compare them with `baseline_id` and name them by `freeze`, so
a spec is parsed once a setting and not once a trial.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from orchestrator.store.schema import TRIALS
from orchestrator.store.stored_specs import stored_spec
from trials.errors import StoreError
from trials.spec import TrialSpec

ADDED = ("cell_id", "baseline_id", "seed_key", "freeze")  # later than the others: older rows have none of them


def spec_columns(spec: TrialSpec) -> dict[str, Any]:
    """The columns of a row of `schema.TRIALS` that follow from the trial's spec."""
    return {
        "trial_id": spec.trial_id,
        "task": spec.task,
        "corpus": spec.data.name,
        "model": spec.model.name,
        "freeze_strategy": spec.freeze.strategy,
        "freeze_depth": spec.freeze.depth,
        "freeze_layers": list(spec.freeze.layers),
        "freeze_embeddings": spec.freeze.embeddings,
        "train_size": spec.train_size,
        "seed": spec.seed,
        "spec": spec.model_dump_json(),
        **_added(spec),
    }


def _added(spec: TrialSpec) -> dict[str, Any]:
    return {
        "cell_id": spec.cell_id,
        "baseline_id": spec.baseline_id,
        "seed_key": spec.seeds.key,
        "freeze": spec.freeze.label,
    }


def completed(rows: pa.Table) -> pa.Table:
    """Rows of trials, with `trial_id`, `spec` and `ADDED`, where an older version left these null.

    They stay null where the spec cannot be read.
    """
    if not rows["cell_id"].null_count:
        return rows
    columns: dict[str, list[Any]] = {name: rows[name].to_pylist() for name in ADDED}
    for i, (trial_id, text) in enumerate(zip(rows["trial_id"].to_pylist(), rows["spec"].to_pylist(), strict=True)):
        if columns["cell_id"][i] is None:
            try:
                added = _added(stored_spec(text or "", trial_id))
            except StoreError:
                continue
            for name, value in added.items():
                columns[name][i] = value
    for name, values in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values, TRIALS.field(name).type))
    return rows
