"""Rows of a few trials from a large table: each part is read as seldom as can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dashboards.data.duckdb_mirror import TrialRows, lowest_seeds
from dashboards.data.frames import Frames
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore
from tests.dashboards.stores import Invented, append, specs, write_store


class Counting(FolderStorage):
    """A folder that counts how often a part was read, in all folders below it."""

    def __init__(self, folder: Path, opened: list[str] | None = None) -> None:
        super().__init__(folder)
        self.opened: list[str] = [] if opened is None else opened

    def at(self, name: str) -> Counting:
        return Counting(self.folder / name, self.opened)

    def read(self, name: str) -> bytes:
        self.opened.append(name)
        return super().read(name)


def _counted(folder: Path, **changes: Any) -> tuple[ResultStore, Counting]:
    write_store(folder, specs(**changes), Invented())
    storage = Counting(folder)
    return ResultStore(storage), storage


def _trials(**attempts: int) -> pd.DataFrame:
    return pd.DataFrame({"trial_id": list(attempts), "attempt": list(attempts.values())})


def test_a_part_is_read_once_for_all_that_is_likely_to_be_asked_for(tmp_path: Path) -> None:
    store, storage = _counted(tmp_path / "s", seeds=range(5))
    snapshot = Frames(store).refresh()
    trials = next(iter(snapshot.sweeps.values())).trials
    storage.opened.clear()
    for _, own in lowest_seeds(trials).groupby("cell"):
        assert set(snapshot.step_losses(own)["trial_id"]) == set(own["trial_id"])
    assert len(storage.opened) == 1


def test_a_compacted_store_gives_the_same_rows(tmp_path: Path) -> None:
    store, _ = _counted(tmp_path / "s", train_sizes=(200,))
    append(store, specs(train_sizes=(800,)), Invented())
    reader, wanted = TrialRows(store, "epochs"), _trials(**{specs()[0].trial_id: 1})
    before = reader.of(wanted)
    store.compact()
    assert reader.of(wanted).equals(before)


@pytest.mark.parametrize(("most", "opened"), [(3, 1), (2, 2)])
def test_rows_of_more_trials_than_memory_holds_are_read_again(most: int, opened: int, tmp_path: Path) -> None:
    store, storage = _counted(tmp_path / "s")
    reader = TrialRows(store, "epochs", most=most)
    wanted = _trials(**{spec.trial_id: 1 for spec in specs()[:3]})
    assert [len(reader.of(wanted)), len(reader.of(wanted))] == [15, 15]
    assert len(storage.opened) == opened
