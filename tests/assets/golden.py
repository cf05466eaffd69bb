"""What `tests/assets/golden_store` holds: a value in every column of every table, and a plan of a search.

The files are of the first version and are never made again; `make` shows how they were made.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestrator.store import ResultStore
from orchestrator.store.plans import Suggestion, SweepPlan
from orchestrator.store.schema import COMMIT_ORDER

FOLDER = Path(__file__).parent / "golden_store"
TRIALS = ("0123456789abcdef", "fedcba9876543210")
PLAN = SweepPlan(
    "tiny", 1767323045.5, "tiny.yaml", tuple((trial_id, {"task": "pos", "seed": 0}) for trial_id in TRIALS),
    (Suggestion(0, {"lr": 0.5, "depth": 3}),), {"most_seeds": 5},
)  # fmt: skip


def rows(table: str, schema: pa.Schema) -> list[dict[str, Any]]:
    """Two rows of a table, one of each trial; what is known of a column is its name, its type and its place."""
    made = [{field.name: _value(field, place, n) for place, field in enumerate(schema)} for n in (1, 2)]
    for trial_id, row in zip(TRIALS, made, strict=True):
        row |= {"trial_id": trial_id, "attempt": 1}
    if table == "trials":
        counts = [(name, 1) for name in ("epochs", "tags", "predictions", "contributions")]
        made = [
            row | {"state": state, "row_counts": counts}
            for row, state in zip(made, ("completed", "failed"), strict=True)
        ]
    return made


def _value(field: pa.Field, place: int, n: int) -> Any:
    kind = field.type
    if pa.types.is_list(kind):
        return [_value(kind.value_field, place, n), _value(kind.value_field, place + 1, n)]
    if pa.types.is_map(kind):
        return [(f"{field.name} é", _value(kind.item_field, place, n))]
    if pa.types.is_timestamp(kind):
        return datetime(2026, 1, n, 3, 4, 5, 678901, tzinfo=UTC)
    if pa.types.is_boolean(kind):
        return n == 1
    if pa.types.is_integer(kind):
        return 100 * place + n
    return f"{field.name} {n} \U0001f9ca" if pa.types.is_string(kind) else (100 * place + n) / 8


def make(folder: Path) -> None:
    """Write the store."""
    from orchestrator.store.schema import ALL_TABLES

    store = ResultStore(folder)
    for table in COMMIT_ORDER:
        store.append(table, rows(table, ALL_TABLES[table]))
    store.add_plan(PLAN)
