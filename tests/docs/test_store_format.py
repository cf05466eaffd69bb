"""The page on the store's format is enough to read any store: a reader written from it alone shows what ours shows."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pyarrow as pa

from docs import reference
from orchestrator.store import open_store
from orchestrator.store.plans import Suggestion, SweepPlan
from orchestrator.store.schema import TABLES
from tests.builders import make_spec
from tests.docs import store_reader
from tests.orchestrator.store.rows import complete, epoch, prediction, tag, trial


def eventful(folder: Path) -> Path:
    """A store with lost and running attempts, a broken part, and a compaction that was killed."""
    store = open_store(folder, must_exist=False)
    retried, other = make_spec(seed=0), make_spec(seed=1)
    for attempt, state in ((1, "lost"), (2, "unavailable"), (3, "pruned")):
        complete(store, retried, attempt, state=state)
    complete(store, retried, 4)
    store.append("epochs", [epoch(retried.trial_id, 5), epoch("running", 1), epoch("running", 2, score=0.75)])
    store.append("tags", [tag("running", 1), tag(retried.trial_id, 5)])
    store.append("predictions", [prediction("running", 1, forms=["\U0001f9ca", ""])])
    store.append("trials", [trial("failed", 1, "failed", error="why"), trial("failed", 2, "diverged")])
    complete(store, other, 1)
    before = {path: path.read_bytes() for path in folder.glob("*/part-*")}
    store.compact()
    for path in sorted(before)[::2]:  # of these, the compaction was killed before it deleted them
        path.write_bytes(before[path])
    complete(store, make_spec(seed=2))
    (folder / "tags" / "part-00000000000000000009-0000000000000000.parquet").write_bytes(b"broken")
    return folder


def rows(table: pa.Table, name: str) -> list[str]:
    """The rows in order, without the columns that a reader adds as nulls."""
    present = [{key: row[key] for key in row if row[key] is not None} for row in table.to_pylist()]
    ordered = sorted(present, key=lambda row: [str(row[key]) for key in store_reader.KEYS[name]])
    return [repr(sorted(row.items())) for row in ordered]


def assert_reads_alike(store: Path) -> None:
    theirs, ours = store_reader.read(store), open_store(store)
    for name in TABLES:
        assert rows(theirs[name], name) == rows(getattr(ours, name)(), name), name


def test_a_store_with_all_that_may_happen_to_one_is_read_as_we_read_it(tmp_path: Path) -> None:
    store = eventful(tmp_path / "store")
    assert_reads_alike(store)
    read = store_reader.read(store)
    assert len(read["trials"]) == len(open_store(store).trials())
    assert sorted({row["attempt"] for row in read["epochs"].to_pylist() if row["trial_id"] == "running"}) == [2]


def test_a_plan_and_what_a_search_adds_are_read(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", must_exist=False)
    for trials in (["a", "b"], ["b", "c"]):
        store.add_plan(SweepPlan("s", 1.0, "s.yaml", tuple((trial, {}) for trial in trials)))
    for n, added in enumerate("defghi"):
        store.extend_plan(SweepPlan("s", 2.0, "s.yaml", ((added, {}),), (Suggestion(n, {"lr": 0.5}),)))
    assert store_reader.plan(tmp_path / "store", "s") == [i for i, _ in store.sweeps()[0].trials] == [*"bcdefghi"]


def test_the_reader_knows_nothing_but_the_page_and_the_tables_of_the_reference() -> None:
    tree = ast.parse(Path(store_reader.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {str(name).partition(".")[0] for name in modules} - set(sys.stdlib_module_names) == {"pyarrow"}
    page = reference.tables_page()
    for name in TABLES:
        assert f"Key: {', '.join(f'`{key}`' for key in store_reader.KEYS[name])}." in page
