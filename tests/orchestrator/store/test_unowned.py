"""Probes and drifts: rows of no attempt, which anybody adds and a merge unites."""

from __future__ import annotations

from pathlib import Path

from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.merge import merge
from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore, open_store
from tests.builders import make_spec
from tests.orchestrator.store.rows import TIME, complete, drift, probe


def stores(storage: Storage) -> tuple[ResultStore, ResultStore]:
    found = (ResultStore(storage.at("ours")), ResultStore(storage.at("theirs")))
    for store in found:
        complete(store, make_spec(data={"sizes": (200, 2, 2)}, optim={"epochs": 2}), time=TIME)
    return found


def test_a_merge_adds_what_is_missing_and_nothing_twice(storage: Storage) -> None:
    ours, theirs = stores(storage)
    ours.append("probes", [probe(seed=0)])
    theirs.append("probes", [probe(seed=0, score=0.25), probe(seed=1)])
    theirs.append("drifts", [drift("a"), drift("b")])
    done = merge(theirs, ours)
    assert (done.rows["probes"], done.rows["drifts"]) == (1, 2)
    assert [(row["subset_seed"], row["score"]) for row in ours.probes().to_pylist()] == [(0, 0.5), (1, 0.5)]
    assert merge(theirs, ours).rows["probes"] == 0
    assert check_store(ours.storage).ok


def test_what_two_people_measured_alike_is_no_finding_and_what_differs_is_one(storage: Storage) -> None:
    store, _ = stores(storage)
    store.append("drifts", [drift("a", time=TIME)])
    store.append("drifts", [drift("a", time=TIME.replace(year=2027))])
    assert check_store(store.storage).ok
    store.append("probes", [probe("p", score=0.5)])
    store.append("probes", [probe("p", score=0.25)])
    found = check_store(store.storage).findings
    assert [(one.place, one.wrong) for one in found] == [("probe p", "two different rows have its id")]
    assert [row["score"] for row in store.probes().to_pylist()] == [0.25]


def test_a_store_without_them_has_none(storage: Storage) -> None:
    store, _ = stores(storage)
    assert (len(store.probes()), len(store.drifts())) == (0, 0)
    assert check_store(store.storage).ok


def test_notes_of_early_versions_are_neither_read_nor_touched(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    complete(store, make_spec(), time=TIME)
    old = store.root / "notes" / "part-01795183308170301531-9f2c51d0a1b2c3d4.parquet"
    old.parent.mkdir()
    old.write_bytes(b"whatever an early version wrote")
    store.compact()
    report = check_store(store.storage)
    assert (report.findings, report.notes) == ([], [])
    assert len(open_store(store.root).trials()) == 1
    assert old.read_bytes() == b"whatever an early version wrote"
