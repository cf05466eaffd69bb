"""A store to give away: the same results, and nothing of the machine; several stores become one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.exports import export_store
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan
from tests.builders import make_spec
from tests.orchestrator.store.rows import complete, epoch
from trials.errors import RefusedError
from trials.spec import TrialSpec

HERE = "/home/somebody/secret"


@pytest.fixture
def specs() -> list[TrialSpec]:
    files = {"train": (f"{HERE}/bank/train.conllu",), "dev": (f"{HERE}/bank/dev.conllu",)}
    return [make_spec(seed=seed, data=files, model={"path": f"{HERE}/models/tiny"}) for seed in range(3)]


@pytest.fixture
def store(tmp_path: Path, specs: list[TrialSpec]) -> ResultStore:
    """Two trials that completed, one of them at its second attempt, and one that has only begun."""
    store = open_store(tmp_path / "results", must_exist=False)
    for attempt, spec in enumerate(specs[:2], start=1):
        complete(store, spec, attempt)
    store.append("epochs", [epoch(specs[2].trial_id)])
    planned = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in specs)
    store.add_plan(SweepPlan("mine", 1.0, f"{HERE}/sweeps/mine.yaml", planned))
    return store


def test_a_copy_is_intact_and_says_the_same_without_a_folder_of_the_machine(
    store: ResultStore, specs: list[TrialSpec], tmp_path: Path
) -> None:
    export_store(store, tmp_path / "copy")
    copy = open_store(tmp_path / "copy")
    assert not check_store(str(copy.root)).findings
    plan = copy.sweeps()[0]
    assert [spec.trial_id for spec in plan.specs] == [spec.trial_id for spec in specs]
    for table in ("trials", "epochs", "tags", "predictions", "contributions"):
        rows, theirs = (getattr(each, table)().to_pylist() for each in (copy, store))
        ended = [row for row in theirs if row["trial_id"] != specs[2].trial_id]
        assert [row | {"spec": ""} for row in rows] == [row | {"spec": ""} for row in ended]
    assert not [path for path in copy.root.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert (plan.source, plan.specs[0].data.dev) == ("sweeps/mine.yaml", ("bank/dev.conllu",))
    assert {row["trial_id"] for row in copy.epochs().to_pylist()} == {spec.trial_id for spec in specs[:2]}


def test_a_folder_that_holds_something_is_not_written_to(store: ResultStore, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis").write_text("mine")
    with pytest.raises(RefusedError, match="is not empty"):
        export_store(store, tmp_path / "full")


def test_a_copy_of_two_stores_has_the_trials_of_both(store: ResultStore, tmp_path: Path) -> None:
    complete(open_store(tmp_path / "other", must_exist=False), make_spec(seed=7))
    together = open_store(f"{store.address},{tmp_path / 'other'}")
    export_store(together, tmp_path / "copy")
    copy = open_store(tmp_path / "copy")
    assert copy.completed_ids() == together.completed_ids()
    assert len(copy.completed_ids()) == 3
    assert check_store(copy.storage).ok
