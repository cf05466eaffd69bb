"""Rows of a few trials from a large table: each part is read as seldom as can be."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from dashboards.data.frames import TrialRows
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore

IDS = [f"{n:016x}" for n in range(6)]


class Counting(FolderStorage):
    """A folder that counts how often a part was read, in all folders below it."""

    def __init__(self, folder: Path, opened: list[str] | None = None) -> None:
        super().__init__(folder)
        self.opened: list[str] = [] if opened is None else opened

    def subfolder(self, name: str) -> Counting:
        return Counting(self.folder / name, self.opened)

    def open(self, name: str) -> pa.NativeFile:
        self.opened.append(name)
        return super().open(name)


def _store(folder: Path, parts: int) -> tuple[ResultStore, Counting]:
    """Two predictions of each trial."""
    storage = Counting(folder)
    store = ResultStore(storage)
    for k in range(parts):
        store.append("predictions", [
            {"trial_id": name, "attempt": 1, "split": "dev", "sentence": n, "gold": ["A"], "predicted": ["A"]}
            for name in IDS[k::parts] for n in range(2)
        ])  # fmt: skip
    storage.opened.clear()
    return store, storage


def _trials(*names: str) -> pd.DataFrame:
    return pd.DataFrame({"trial_id": names, "attempt": 1})


def test_a_compacted_store_gives_the_same_rows(tmp_path: Path) -> None:
    store, _ = _store(tmp_path / "s", parts=2)
    reader = TrialRows(store, "predictions")
    before = reader.rows(_trials(IDS[0]))
    store.compact()
    assert len(before) == 2
    assert reader.rows(_trials(IDS[0])).equals(before)


@pytest.mark.parametrize(("most", "opened"), [(3, 1), (2, 2)])
def test_rows_of_more_trials_than_memory_holds_are_read_again(most: int, opened: int, tmp_path: Path) -> None:
    store, storage = _store(tmp_path / "s", parts=1)
    reader = TrialRows(store, "predictions", most=most)
    assert [len(reader.rows(_trials(*IDS[:3]))) for _ in range(2)] == [6, 6]
    assert len(storage.opened) == opened
