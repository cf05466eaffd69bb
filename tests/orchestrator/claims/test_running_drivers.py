"""Who only looks at a store can tell which drivers run a sweep, what they run, and where their Ray is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.claims import Claims, Timing, join, running_drivers
from orchestrator.claims.roster import this_process
from orchestrator.storage.storage import FolderStorage

FAST = Timing(beat_s=0.05, stale_s=0.5)


def test_a_sweep_that_nobody_runs_has_no_driver(tmp_path: Path) -> None:
    assert running_drivers(FolderStorage(tmp_path), "s") == []


def test_a_running_driver_is_found_and_tells_where_its_ray_is(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    with join(storage, "s", say=print, timing=FAST) as membership:
        (found,) = running_drivers(storage, "s")
        assert (found.token, found.holder.ray, found.trials) == (membership.token, "", frozenset())
        membership.announce(ray="http://127.0.0.1:8265")
        while not (drivers := running_drivers(storage, "s")) or not drivers[0].holder.ray:
            pass
        assert drivers[0].holder.ray == "http://127.0.0.1:8265"
    assert running_drivers(storage, "s") == []


def test_each_driver_is_listed_with_the_trials_that_it_has(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    with join(storage, "s", say=print) as one, join(storage, "other", say=print) as two:
        for membership, trial_ids in ((one, "ab"), (two, "bc")):
            claims = Claims(storage, membership)
            claims.refresh()
            for trial_id in trial_ids:
                claims.take(trial_id)
        trials = {driver.holder.sweep: driver.trials for driver in running_drivers(storage)}
        assert trials == {"s": {"a", "b"}, "other": {"c"}}
        assert [str(driver).endswith(", 2 trials") for driver in running_drivers(storage, "s")] == [True]


def test_a_command_that_has_the_store_alone_is_no_driver(tmp_path: Path) -> None:
    with join(FolderStorage(tmp_path), say=print, alone=True):
        assert running_drivers(FolderStorage(tmp_path)) == []


@pytest.mark.parametrize(("alive", "runs"), [("2020-01-01 00:00:00 UTC", False), ("now", True), ("no time", False)])
def test_of_another_machine_the_last_sign_of_life_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: str, runs: bool
) -> None:
    storage = FolderStorage(tmp_path)
    there = replace(this_process("s"), host="elsewhere", system="another boot")
    if alive != "now":
        monkeypatch.setattr("orchestrator.claims.roster._utc_now", lambda: alive)
    storage.at("drivers").write(f"{'0' * 16}-00000001-shares.json", there.as_json())
    assert bool(running_drivers(storage, "s")) == runs
