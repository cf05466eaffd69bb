"""A follower reads each part once, and tells when what it read is no longer what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestrator.store import ResultStore, open_store
from orchestrator.store.results import Follower


def _row(step: int) -> dict[str, Any]:
    return {"trial_id": "a", "attempt": 1, "step": step, "score": 0.5}


def _store(folder: Path) -> ResultStore:
    return open_store(folder / "store", must_exist=False)


def _steps(tables: tuple[pa.Table, ...]) -> list[int]:
    return [step for table in tables for step in table["step"].to_pylist()]


def test_a_look_brings_what_came_since_the_last_one(tmp_path: Path) -> None:
    store = _store(tmp_path)
    follower = Follower(store.storage, "epochs", ["trial_id", "step"])
    store.append("epochs", [_row(1)])
    assert _steps(follower.poll().rows) == [1]
    assert not follower.changed()
    again = follower.poll()
    assert (again.reset, again.rows) == (False, ())
    store.append("epochs", [_row(2)])
    assert follower.changed()
    changes = follower.poll()
    assert (changes.reset, _steps(changes.rows)) == (False, [2])


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.append("epochs", [_row(1)])
    assert Follower(store.storage, "epochs", ["score", "trial_id"]).poll().rows[0].column_names == ["trial_id", "score"]


def test_after_a_compaction_everything_comes_anew(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.append("epochs", [_row(1)])
    store.append("epochs", [_row(2)])
    follower = Follower(store.storage, "epochs", ["trial_id", "step"])
    follower.poll()
    store.compact()
    changes = follower.poll()
    assert (changes.reset, _steps(changes.rows)) == (True, [1, 2])


def test_a_part_that_cannot_be_read_is_told_at_every_look_and_hides_no_other(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.append("epochs", [_row(1)])
    (tmp_path / "store" / "epochs" / "part-00000000000000000001-0123456789abcdef.parquet").write_bytes(b"no parquet")
    follower = Follower(store.storage, "epochs", ["trial_id", "step"])
    changes = follower.poll()
    assert _steps(changes.rows) == [1]
    assert [part.name for part in changes.broken] == ["part-00000000000000000001-0123456789abcdef.parquet"]
    assert [part.name for part in follower.poll().broken] == [changes.broken[0].name]


def test_a_part_that_is_taken_out_is_forgotten(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.append("epochs", [_row(1)])
    store.append("epochs", [_row(2)])
    follower = Follower(store.storage, "epochs", ["trial_id", "step"])
    follower.poll()
    next((tmp_path / "store" / "epochs").iterdir()).unlink()
    changes = follower.poll()
    assert changes.reset
    assert len(_steps(changes.rows)) == 1
