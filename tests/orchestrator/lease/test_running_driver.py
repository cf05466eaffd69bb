"""Who only looks at a store can tell whether a driver runs a sweep, and where its Ray is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.lease import Timing, running_driver, take_lease
from orchestrator.lease.claims import LEASES, ClaimFolder
from orchestrator.lease.holder import this_driver
from orchestrator.storage.storage import FolderStorage

FAST = Timing(beat_s=0.05, stale_s=0.5)


def test_a_sweep_that_nobody_runs_has_no_driver(tmp_path: Path) -> None:
    assert running_driver(FolderStorage(tmp_path), "s") is None


def test_a_running_driver_is_found_and_tells_where_its_ray_is(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    with take_lease(storage, "s", say=print, timing=FAST) as lease:
        found = running_driver(storage, "s")
        assert found is not None
        assert found.ray == ""
        lease.announce("http://127.0.0.1:8265")
        while not (found := running_driver(storage, "s")) or not found.ray:
            pass
        assert found.ray == "http://127.0.0.1:8265"
    assert running_driver(storage, "s") is None


@pytest.mark.parametrize(("alive", "runs"), [("2020-01-01 00:00:00 UTC", False), ("now", True), ("no time", False)])
def test_of_another_machine_the_last_sign_of_life_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: str, runs: bool
) -> None:
    storage = FolderStorage(tmp_path)
    there = replace(this_driver(), host="elsewhere", system="another boot")
    if alive != "now":
        monkeypatch.setattr("orchestrator.lease.holder._utc_now", lambda: alive)
    ClaimFolder(storage.at(LEASES).at("s")).write("0" * 16, 1, there, holds=True)
    assert (running_driver(storage, "s") is not None) == runs
