"""A store of the first version is read as it was written, and what is written now has the same bytes."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import open_store
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import ALL_TABLES, COMMIT_ORDER, stamp_of
from tests.assets import golden
from tests.orchestrator.store.rows import trial


def part_of(table: str) -> Path:
    (part,) = (golden.FOLDER / table).iterdir()
    return part


def written_columns(table: str) -> pa.Schema:
    """Those that there were at the time: what is added later is null in these rows."""
    names = pq.read_schema(part_of(table)).names
    return pa.schema([ALL_TABLES[table].field(name) for name in names])


@pytest.mark.parametrize("table", COMMIT_ORDER)
def test_its_rows_are_those_that_were_written(table: str) -> None:
    expected = golden.rows(table, written_columns(table))
    later = dict.fromkeys(set(ALL_TABLES[table].names) - set(written_columns(table).names))
    found = PartFolder(FolderStorage(golden.FOLDER / table), ALL_TABLES[table]).read().to_pylist()
    assert found == [row | later for row in expected]


def test_its_plan_and_states_are_read() -> None:
    store = open_store(golden.FOLDER)
    assert store.sweeps() == [golden.PLAN]
    assert store.completed_ids() == {golden.TRIALS[0]}
    assert store.attempts() == dict.fromkeys(golden.TRIALS, 1)


@pytest.mark.parametrize("table", COMMIT_ORDER)
def test_the_same_rows_become_the_same_bytes(table: str, tmp_path: Path) -> None:
    if f"version {pa.__version__}" not in pq.read_metadata(part_of(table)).created_by:
        pytest.skip("another version of Arrow may compress in another way")
    schema = written_columns(table)
    parts = PartFolder(FolderStorage(tmp_path), schema)
    rows = pa.Table.from_pylist(golden.rows(table, schema), schema=parts.schema)
    assert parts.write(rows, stamp_of(part_of(table).name)) == [part_of(table).name]  # which has their digest


def test_the_same_plan_and_marker_become_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plan,) = (golden.FOLDER / "sweeps" / "tiny").iterdir()
    monkeypatch.setattr("time.time_ns", lambda: stamp_of(plan.name))
    store = open_store(tmp_path / "store", must_exist=False)
    store.add_plan(golden.PLAN)
    assert [path.name for path in (store.root / "sweeps" / "tiny").iterdir()] == [plan.name]
    assert (store.root / "store.json").read_bytes() == (golden.FOLDER / "store.json").read_bytes()


def test_it_can_be_added_to_and_compacted_wherever_it_lies(storage: Storage) -> None:
    for path in filter(Path.is_file, golden.FOLDER.rglob("*")):
        inside = reduce(
            lambda folder, name: folder.subfolder(name), path.relative_to(golden.FOLDER).parts[:-1], storage
        )
        inside.write(path.name, path.read_bytes())
    store = open_store(storage.address)
    store.append("trials", [trial("z")])
    store.compact()
    assert store.sweeps() == [golden.PLAN]
    assert store.completed_ids() == {golden.TRIALS[0], "z"}
    assert [row["step"] for row in store.epochs().to_pylist()] == [row["step"] for row in golden.rows(
        "epochs", written_columns("epochs")
    )]  # fmt: skip


def test_the_shipped_store_needs_no_older_reader() -> None:
    folder = Path(__file__).parents[3] / "configs" / "freezebench" / "store"
    for table, schema in ALL_TABLES.items():
        for part in (folder / table).glob("part-*"):
            assert pq.read_schema(part).names == schema.names
