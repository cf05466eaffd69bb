"""The table `losses` of an export: of each sweep and setting the loss that decides, and the almost stochastic order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from orchestrator.analysis.rows import usable
from orchestrator.analysis.stochastic_order import LEAST_RUNS, almost_dominates
from orchestrator.store import ResultStore
from orchestrator.store.contents import SweepPlan, planned_specs
from trials.errors import StoreError

ABOUT_LOSSES = "One row a sweep and setting but the baselines; computed, not stored."
_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()
LOSS_COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "sweep": (_TEXT, "Its name."),
    "group": (_TEXT, "Task, score, corpus and train size; or why the sweep's plan cannot be read."),
    "model": (_TEXT, "What people call the pretrained model."),
    "freeze": (_TEXT, "What is frozen."),
    "setup": (_TEXT, "Other settings that vary in the sweep."),
    "n_pairs": (_COUNT, "Pairs with the baseline that the interval rests on."),
    "loss": (_NUMBER, "Mean loss against the baseline in units of the score, positive where the setting is worse."),
    "low": (_NUMBER, "Lower end of the interval that decides; empty where there is none."),
    "high": (_NUMBER, "Upper end."),
    "aso": (
        _NUMBER,
        "Almost stochastic order: 95 % bound of the violation ratio of the claim that the baseline scores higher, from "
        f"scores of seeds on dev; below 0.5 it is almost dominant. Empty below {LEAST_RUNS} runs a side. It decides "
        "nothing.",
    ),
}


def loss_rows(store: ResultStore) -> pa.Table:
    """The table, with the columns `LOSS_COLUMNS`."""
    rows = [row for plan in store.sweeps() for row in _of_sweep(store, plan)]
    return pa.Table.from_pylist(rows, schema=pa.schema({name: kind for name, (kind, _) in LOSS_COLUMNS.items()}))


def _of_sweep(store: ResultStore, plan: SweepPlan) -> Iterator[dict[str, Any]]:
    from orchestrator.analysis.decide import loss_table  # loads pandas

    try:
        frame = store.evidence(planned_specs(plan)).frame
    except StoreError as error:  # a plan that this version cannot read keeps nobody from the other tables
        yield {"sweep": plan.name, "group": str(error)}
        return
    if frame.empty:
        return
    scores = {cell: of["score"].to_numpy(np.float64) for cell, of in usable(frame, "score").groupby("cell")}
    first = frame.drop_duplicates("cell").set_index("cell")
    for row in loss_table(frame, plan=plan.asks).to_dict("records"):
        sides = [scores.get(row[side], np.empty(0)) for side in ("baseline", "cell")]
        names = {name: first[name][row["cell"]] for name in ("model", "freeze", "setup")}
        figures = {"loss": row["loss"], "low": row["low"], "high": row["high"], "aso": almost_dominates(*sides)}
        known = {name: float(value) if np.isfinite(value) else None for name, value in figures.items()}
        yield {"sweep": plan.name, "group": row["group"], **names, "n_pairs": int(row["n_pairs"]), **known}
