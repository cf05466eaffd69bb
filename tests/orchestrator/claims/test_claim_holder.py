"""What can be told of a driver's process from another one."""

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

from orchestrator.claims import roster
from orchestrator.claims.roster import Holder, Presence, this_process
from tests.examples import each

ME = this_process()


def test_this_process_is_here() -> None:
    assert ME.presence(ME) is Presence.HERE
    assert ME.pid == os.getpid()


def test_a_process_that_ended_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert replace(ME, pid=process.pid).presence(ME) is Presence.GONE


def test_a_later_process_of_the_same_pid_is_not_the_driver() -> None:
    assert replace(ME, started=str(int(ME.started) - 1)).presence(ME) is Presence.GONE


@pytest.mark.parametrize("change", [{"host": "node7"}, {"system": "another boot"}, {"system": ""}])
def test_of_another_machine_boot_or_container_nothing_can_be_told(change: dict[str, Any]) -> None:
    assert replace(ME, **change).presence(ME) is Presence.UNKNOWN


def test_where_this_system_does_not_name_its_boot_nothing_can_be_told() -> None:
    here = replace(ME, system="")
    assert here.presence(here) is Presence.UNKNOWN


def test_a_process_whose_start_is_hidden_may_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "_PROC", tmp_path)
    assert ME.presence(ME) is Presence.UNKNOWN
    assert this_process().system == ""


@each("pid", [0, -1, 2**31, 1.5, True, "1"])
def test_a_pid_must_be_a_processs_number(pid: Any) -> None:
    with pytest.raises(ValueError, match="must be a process id"):
        replace(ME, pid=pid)


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
