"""A store with a broken file: readers leave it out, `verify` names it, the same launch and a copy make it whole."""

from __future__ import annotations

import logging
import shutil
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


@each("table", ["contributions", "trials", "epochs"], quick=1)
def test_the_same_launch_runs_again_what_a_lost_part_held(real: Real, tmp_path: Path, table: str) -> None:
    copy = real.copy(tmp_path)
    shutil.rmtree(copy / table)
    run_sweep(real.sweep, copy)
    assert numbers(copy) == real.finished
    assert check_store(copy).ok


def test_lost_predictions_cost_predictions_and_no_trial(real: Real, tmp_path: Path) -> None:
    copy = real.copy(tmp_path)
    spoil(FolderStorage(copy), "predictions")
    done = open_store(copy).completed_ids()
    assert len(done) == 2
    run_sweep(real.sweep, copy)
    assert done < open_store(copy).completed_ids()
    rest = {table: rows for table, rows in real.finished.items() if table != "predictions"}
    assert {table: rows for table, rows in numbers(copy).items() if table in rest} == rest


def test_a_report_is_a_line_on_stderr_and_nothing_on_stdout(
    real: Real, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = real.copy(tmp_path)
    name = spoil(FolderStorage(copy), "epochs")
    logger = logging.getLogger("orchestrator.store.parts")
    logger.propagate = False  # as where nobody has set logging up; pytest has
    try:
        open_store(copy).epochs()
    finally:
        logger.propagate = True
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"{copy}/{name}: ")
