"""A store with a broken file: readers leave it out, `verify` names it, the same launch and a copy make it whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.exports import export_store
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import open_store
from tests.examples import each
from tests.orchestrator.store.real import Real, numbers, run_sweep
from tests.orchestrator.store.rows import spoil

PLACES = ["trials", "contributions", "epochs", "tags", "commits", "sweeps/small", "checkpoints"]


@each("place", PLACES, quick=2)
def test_the_same_launch_runs_again_what_a_broken_file_held_to_the_same_numbers(
    real: Real, tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy, before = real.copy(tmp_path), numbers(real.store)
    name = spoil(FolderStorage(copy), place)
    assert name in [finding.place for finding in check_store(copy).findings]
    shown = numbers(copy)
    assert all(row in before[table] for table, rows in shown.items() for row in rows)
    if place not in ("commits", "checkpoints"):  # nobody rests on these
        open_store(copy).completed_ids(), open_store(copy).sweeps()
        assert f"{copy}/{name}: " in caplog.text
    export_store(open_store(copy), tmp_path / "clean")
    assert check_store(tmp_path / "clean").findings == []
    for store in (copy, tmp_path / "clean"):
        run_sweep(real.sweep, store)
        assert numbers(store) == real.finished
