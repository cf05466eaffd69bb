"""Who runs a sweep: running drivers are found, and claims of killed ones are told from those of living ones."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.claims import Claims, Timing, holder, join, running_drivers
from orchestrator.claims.holder import Holder, Presence, this_process
from orchestrator.storage.storage import FolderStorage
from tests.examples import each

FAST = Timing(beat_s=0.05, stale_s=0.5)


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


@pytest.mark.parametrize(("alive", "runs"), [("2020-01-01 00:00:00 UTC", False), ("now", True), ("no time", False)])
def test_of_another_machine_the_last_sign_of_life_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: str, runs: bool
) -> None:
    storage = FolderStorage(tmp_path)
    there = replace(this_process("s"), host="elsewhere", system="another boot")
    if alive != "now":
        monkeypatch.setattr("orchestrator.claims.holder._utc_now", lambda: alive)
    storage.at("drivers").write(f"{'0' * 16}-00000001-shares.json", there.as_json())
    assert bool(running_drivers(storage, "s")) == runs


# --- What can be told of a driver's process from another one.


ME = this_process()


def test_a_process_that_ended_is_gone_and_one_whose_start_is_hidden_may_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert replace(ME, pid=process.pid).presence(ME) is Presence.GONE
    here = replace(ME, system="")
    assert here.presence(here) is Presence.UNKNOWN
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    assert ME.presence(ME) is Presence.UNKNOWN
    assert this_process().system == ""


def test_of_another_machine_boot_or_container_nothing_can_be_told() -> None:
    assert ME.presence(ME) is Presence.HERE
    later = replace(ME, started=str(int(ME.started) - 1))  # a later process of the same pid is not the driver
    assert later.presence(ME) is Presence.GONE
    for other in (replace(ME, host="node7"), replace(ME, system="another boot"), replace(ME, system="")):
        assert other.presence(ME) is Presence.UNKNOWN


@each(
    "name, value, rule",
    [
        *(("pid", pid, "must be a process id") for pid in (0, -1, 2**31, 1.5, True, "1")),
        *((name, ["ab"], "must be text") for name in ("sweep", "user", "host", "alive", "ray")),
    ],
)
def test_a_process_has_a_number_and_names_of_text(name: str, value: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        replace(ME, **{name: value})


def test_what_is_written_reads_back_with_a_new_sign_of_life() -> None:
    old = replace(ME, alive="long ago")
    read = Holder(**json.loads(old.as_json()))
    assert replace(read, alive=old.alive) == old
    assert read.alive > "2026"


def test_a_user_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert this_process().user == str(os.getuid())
