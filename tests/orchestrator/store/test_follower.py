"""A follower reads each part once, and tells when what it read is no longer what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestrator.store import ResultStore, open_store
from orchestrator.store.parts import Follower


def _row(step: int) -> dict[str, Any]:
    return {"trial_id": "a", "attempt": 1, "step": step, "score": 0.5}


def _store(folder: Path) -> ResultStore:
    return open_store(folder / "store", must_exist=False)


def _steps(tables: tuple[pa.Table, ...]) -> list[int]:
    return [step for table in tables for step in table["step"].to_pylist()]


def test_a_look_brings_what_came_since_the_last_one_and_everything_anew_where_parts_are_gone(tmp_path: Path) -> None:
    store = _store(tmp_path)
    follower = Follower(store.storage, "epochs", ["step", "trial_id"])
    store.append("epochs", [_row(1)])
    first = follower.poll()
    assert (_steps(first.rows), first.rows[0].column_names) == ([1], ["trial_id", "step"])
    assert not follower.has_changed()
    again = follower.poll()
    assert (again.reset, again.rows) == (False, ())
    store.append("epochs", [_row(2)])
    assert follower.has_changed()
    changes = follower.poll()
    assert (changes.reset, _steps(changes.rows)) == (False, [2])
    store.compact()
    changes = follower.poll()
    assert (changes.reset, _steps(changes.rows)) == (True, [1, 2])
    store.append("epochs", [_row(3)])
    follower.poll()
    max((tmp_path / "store" / "epochs").iterdir()).unlink()
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
