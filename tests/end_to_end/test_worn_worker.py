"""A worker that grows from trial to trial is replaced, and no trial is lost by that; others stay to the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import environment

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]  # its parts: test_worker_life, test_trainable


def run(folder: Path, *, trials: int, seconds: float, megabytes: int, start_s: float = 0) -> dict[str, Any]:
    words = [folder / "store", trials, seconds, megabytes, start_s]
    command = [sys.executable, "-m", "tests.end_to_end.leaky_sweep", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["states"] == {"completed": trials}
    return found


def test_a_worker_whose_trials_leave_memory_is_replaced_and_every_trial_completes(tmp_path: Path) -> None:
    found = run(tmp_path, trials=12, seconds=0, megabytes=300)
    assert len(found["workers"]) >= 3
    assert max(found["workers"].values()) <= 6


def test_short_trials_use_every_slot_with_a_worker_each_and_tune_forgets_them(tmp_path: Path) -> None:
    found = run(tmp_path, trials=500, seconds=0.02, megabytes=0, start_s=2)
    assert len(found["workers"]) == 2
    assert min(found["workers"].values()) >= 20
    assert 50 <= found["most_trials_of_tune"] <= 220  # of 500: twice `forgetting.KEPT`, and some that wait or run
