"""What rows say of their specs: the same whether this version wrote them or an older one did."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from orchestrator.store import open_store
from orchestrator.store.schema import TRIALS
from orchestrator.store.stored_specs import ADDED, completed, spec_columns, stored_spec
from tests.builders import make_spec

ASSETS = Path(__file__).parents[2] / "assets"
SPECS = [make_spec(seed=3), make_spec(seed=4, init_seed=7)]


def test_rows_of_an_older_version_are_completed_with_what_this_one_writes() -> None:
    new = pa.Table.from_pylist([spec_columns(spec) for spec in SPECS], schema=TRIALS)
    old = pa.Table.from_pylist(new.drop_columns(list(ADDED)).to_pylist(), schema=TRIALS)
    assert old["cell_id"].null_count == 2
    assert completed(old).select(ADDED).to_pylist() == new.select(ADDED).to_pylist()
    mixed = pa.concat_tables([new.slice(0, 1), old.slice(1)])
    assert completed(mixed) == new
    assert completed(new) is new


def test_a_row_whose_spec_cannot_be_read_stays_without_them() -> None:
    broken = pa.Table.from_pylist([{"trial_id": "a", "spec": "{"}, {"trial_id": "b", "spec": None}], schema=TRIALS)
    assert completed(broken).select(ADDED).to_pylist() == 2 * [dict.fromkeys(ADDED)]


def test_a_store_of_an_earlier_version_groups_and_pairs_its_trials() -> None:
    rows = open_store(ASSETS / "store_recorded").trials(["spec", *ADDED]).to_pylist()
    assert rows
    for row in rows:
        spec = stored_spec(row["spec"], row["trial_id"])
        assert (row["cell_id"], row["baseline_id"]) == (spec.cell_id, spec.baseline_id)
        assert (row["seed_key"], row["freeze"]) == (spec.seeds.key, spec.freeze.label)
