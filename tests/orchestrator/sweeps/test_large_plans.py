"""Large plans: a cell is validated once, and of a large store only the columns that are needed are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.execution.trial_rows import trial_row
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import expanded, make_record, make_spec, write_sweep, write_treebank
from tests.peers import times_of
from trials.draft import Lookup
from trials.record import State


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    folder = write_treebank(tmp_path / "tiny", train=40)
    text = (
        f"trial: {{data: {{folder: {folder}}}}}\n"
        "space: {freeze: [none, all_encoder], train_size: [10, 20], optim.lr: [1e-3, 2e-3]}\n"
        f"seeds: {list(range(100))}"
    )
    return write_sweep(tmp_path / "s.yaml", text)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    store = open_store(tmp_path / "results", must_exist=False)
    row = trial_row(make_spec(), 1, [make_record()], State.COMPLETED, None)
    store.append("trials", [row | {"trial_id": f"{i:016x}"} for i in range(5_000)])
    return store


def test_a_replicate_is_the_trial_that_its_own_seed_resolves_to(sweep: Path) -> None:
    of_all, alone = expanded(sweep), expanded(sweep, "seeds=[57]")
    assert [spec for spec in of_all if spec.seed == 57] == alone
    assert {spec.trial_id for spec in alone} <= {spec.trial_id for spec in of_all}
    assert len({spec.trial_id for spec in of_all}) == 800


def test_a_hundred_seeds_are_checked_against_a_large_store_at_less_than_twenty_times_the_work_of_one(
    sweep: Path, store: ResultStore
) -> None:
    def plan(*overrides: str) -> Plan:
        return make_plan(*load_sweep(sweep, list(overrides)), store, Lookup(offline=True))

    assert len(plan().to_run) == 800
    assert times_of(plan, lambda: plan("seeds=[57]"), turns=3) < 20
