"""Several stores are read as one: each trial counts from one of them, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.data.frames import Frames
from orchestrator.store import ResultStore, open_store
from orchestrator.store.schema import TABLES
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.store.rows import complete, epoch, plan_of
from trials.errors import StoreError

FIRST, SECOND, THIRD = (make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 2}) for seed in range(3))


@pytest.fixture
def stores(tmp_path: Path) -> list[ResultStore]:
    """Both have the first trial, the second store alone has the second one complete, and the third."""
    ours, theirs = (open_store(tmp_path / name, must_exist=False) for name in ("ours", "theirs"))
    complete(theirs, FIRST, test_score=0.25)
    complete(ours, FIRST, test_score=0.5)
    complete(ours, SECOND, 2, state="lost")
    complete(theirs, SECOND, 1)
    complete(theirs, THIRD, 1, state="failed")
    ours.add_plan(plan_of(FIRST, SECOND, name="mine"))
    theirs.add_plan(plan_of(THIRD, name="other"))
    return [ours, theirs]


def as_one(stores: list[ResultStore]) -> ResultStore:
    return open_store(",".join(store.address for store in stores))


def test_a_trial_counts_from_the_first_store_that_has_it_complete(stores: list[ResultStore]) -> None:
    rows = {row["trial_id"]: row for row in as_one(stores).trials().to_pylist()}
    assert {i: row["state"] for i, row in rows.items()} == {
        FIRST.trial_id: "completed", SECOND.trial_id: "completed", THIRD.trial_id: "failed",
    }  # fmt: skip
    assert rows[FIRST.trial_id]["test_score"] == 0.5
    turned = {row["trial_id"]: row["test_score"] for row in as_one(stores[::-1]).trials().to_pylist()}
    assert turned[FIRST.trial_id] == 0.25


@each("table", TABLES)
def test_each_row_is_there_once_with_others_of_the_same_attempt(stores: list[ResultStore], table: str) -> None:
    rows = getattr(as_one(stores), table)().to_pylist()
    alone = [getattr(store, table)().to_pylist() for store in stores]
    wanted = [row for row in alone[0] if row["trial_id"] == FIRST.trial_id]
    wanted += [row for row in alone[1] if row["trial_id"] != FIRST.trial_id]
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))


def test_its_sweeps_are_those_of_all_and_pages_show_them(stores: list[ResultStore]) -> None:
    together = as_one(stores)
    assert [plan.name for plan in together.sweeps()] == ["mine", "other"]
    snapshot = Frames(together).refresh()
    assert not snapshot.problems
    assert len(snapshot.sweeps) >= 2
    assert len(together.evidence([FIRST, SECOND]).frame) == 2


def test_nothing_is_written_to_several_stores(stores: list[ResultStore]) -> None:
    with pytest.raises(StoreError, match="several stores are only read"):
        as_one(stores).append("epochs", [epoch()])
    with pytest.raises(StoreError, match="several stores are only read"):
        open_store(",".join(store.address for store in stores), must_exist=False)


def test_a_folder_with_a_comma_in_its_name_is_one_store_and_a_missing_one_is_named(tmp_path: Path) -> None:
    complete(open_store(tmp_path / "a", must_exist=False), FIRST)
    (tmp_path / "a").rename(tmp_path / "b,c")
    assert open_store(tmp_path / "b,c").completed_ids() == {FIRST.trial_id}
    with pytest.raises(StoreError, match="nowhere: no store there"):
        open_store(f"{tmp_path / 'nowhere'},{tmp_path / 'b'}")
